//! Matrices with skewed columns, and their products with plaintext matrices. A product uses one level and may change
//! the skew to any other.

use std::convert::Infallible;

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, SeededCiphertext};
use unspoken_encrypted_matrix::{
    EncryptedMatrix, EncryptedMatrixError, Layout, LinearMap, Operand, Term, decode_tiles, encode_tiles,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyPlan, SecretKey};

use crate::shapes::check_inner;

const OPERATION: &str = "multiply a skewed matrix by a plaintext";

/// A batch of encrypted matrices `M` stored as `tau^exponent(M)`: in every `d x d` tile, column `j` is shifted up by
/// `exponent * j` rows, cyclically. `tau` is the permutation of Jiang, Kim, Lauter and Song (CCS 2018) that turns
/// diagonals into rows: `tau(M)[i][j] = M[i + j mod d][j]`. `tau^d` is the identity.
///
/// Operations on plain matrices do not accept a skewed one. [`SkewedMatrix::into_plain`] converts it if its exponent is
/// 0.
#[derive(Clone, Debug)]
pub struct SkewedMatrix<V> {
    /// Its tiles, skewed.
    matrix: EncryptedMatrix<V>,
    /// The exponent of `tau`, below the dimension of a tile.
    exponent: usize,
}

impl<V> From<EncryptedMatrix<V>> for SkewedMatrix<V> {
    /// The same matrix with exponent 0.
    fn from(matrix: EncryptedMatrix<V>) -> Self {
        SkewedMatrix { matrix, exponent: 0 }
    }
}

impl<V> SkewedMatrix<V> {
    /// The exponent of `tau`, modulo the dimension of a tile.
    pub fn exponent(&self) -> usize {
        self.exponent
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.matrix.shape()
    }

    /// The plain matrix, without skew.
    ///
    /// # Errors
    /// If the exponent is not 0.
    pub fn into_plain(self) -> Result<EncryptedMatrix<V>, EncryptedMatrixError> {
        match self.exponent {
            0 => Ok(self.matrix),
            exponent => Err(EncryptedMatrixError::Layout {
                operation: "read a skewed matrix row by row",
                found: format!("exponent {exponent}"),
                needed: "exponent 0: prepare the last product with `to` = 0".into(),
            }),
        }
    }

    /// Applies `change` to every tile. Elementwise operations, such as a sum or a square, are independent of the skew.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn try_map<W, E>(&self, change: impl FnMut(&V) -> Result<W, E>) -> Result<SkewedMatrix<W>, E> {
        Ok(SkewedMatrix { matrix: self.matrix.try_map(change)?, exponent: self.exponent })
    }

    /// The common level and scale of its tiles.
    ///
    /// # Errors
    /// If tiles differ in scale.
    pub fn level_and_scale<A: Arithmetic<Vector = V>>(
        &self,
        arithmetic: &A,
    ) -> Result<(usize, f64), EncryptedMatrixError> {
        self.matrix.level_and_scale(arithmetic)
    }
}

impl SkewedMatrix<Vec<Complex64>> {
    /// The slots of every tile of a batch of matrices of one shape, skewed.
    ///
    /// # Errors
    /// If there are no matrices or more than the layout holds, their shapes differ, or the shape is empty.
    pub fn encode(layout: Layout, matrices: &[Array2<f64>], exponent: usize) -> Result<Self, EncryptedMatrixError> {
        check_square("skew a matrix", layout)?;
        let exponent = exponent % layout.dim();
        let skew = |slots: &Vec<Complex64>| Ok::<_, EncryptedMatrixError>(skewed(layout, slots, exponent));
        Ok(SkewedMatrix { matrix: encode_tiles(layout, matrices)?.try_map(skew)?, exponent })
    }
}

impl<S: AsRef<[Complex64]>> SkewedMatrix<S> {
    /// The matrices whose tiles have these slots.
    pub fn decode(&self) -> Vec<Array2<f64>> {
        let layout = self.matrix.layout();
        // The exponents add up to `d`, and `tau^d` is the identity.
        let back = |slots: &S| Ok::<_, Infallible>(skewed(layout, slots.as_ref(), layout.dim() - self.exponent));
        let Ok(plain) = self.matrix.try_map(back);
        decode_tiles(&plain)
    }
}

/// The slots of a tile with column `j` shifted up by a further `exponent * j` rows; zero outside the tile.
fn skewed(layout: Layout, slots: &[Complex64], exponent: usize) -> Vec<Complex64> {
    let (d, parallel) = (layout.dim(), layout.parallel());
    let mut skewed = vec![Complex64::default(); layout.slots()];
    for cell in 0..d * d {
        let (row, column) = (cell / d, cell % d);
        let (to, from) = (layout.slot(0, row, column), layout.slot(0, (row + exponent * column) % d, column));
        if let Some(values) = slots.get(from..from + parallel) {
            skewed[to..to + parallel].copy_from_slice(values);
        }
    }
    skewed
}

impl SkewedMatrix<SeededCiphertext> {
    /// Skews and encrypts a batch of matrices of one shape at `level`, at the parameters' scale. The skew has no extra
    /// cost for the client.
    ///
    /// # Errors
    /// Same as [`SkewedMatrix::encode`], or if the values do not fit their scale.
    pub fn encrypt(
        encoder: &Encoder,
        secret: &SecretKey,
        layout: Layout,
        matrices: &[Array2<f64>],
        exponent: usize,
        level: usize,
        rng: &mut SecretRng,
    ) -> Result<Self, EncryptedMatrixError> {
        let scale = encoder.parameters().scale();
        SkewedMatrix::encode(layout, matrices, exponent)?.try_map(|slots| {
            let plaintext = encoder.encode(slots, level, scale)?;
            Ok(encoder.encrypt(&plaintext, secret, rng)?)
        })
    }

    /// Expands the seeds.
    pub fn expand(&self, parameters: &CkksParameters) -> SkewedMatrix<Ciphertext> {
        SkewedMatrix { matrix: self.matrix.expand(parameters), exponent: self.exponent }
    }
}

impl SkewedMatrix<Ciphertext> {
    /// Decrypts the matrices of the batch and undoes the skew.
    ///
    /// # Errors
    /// If secret and ciphertexts belong to different parameters.
    pub fn decrypt(&self, encoder: &Encoder, secret: &SecretKey) -> Result<Vec<Array2<f64>>, EncryptedMatrixError> {
        Ok(self.try_map(|tile| encoder.decrypt(tile, secret))?.decode())
    }
}

/// Prepared plaintext weights for products `weights @ x` that map `tau^from(x)` to `tau^to(weights @ x)`, for any two
/// exponents. A product uses one level and no mask, because both permutations are part of the weights. With one block
/// it needs `2 sqrt(d)` to `d - 1` rotations by whole rows.
///
/// Let `C = W B` in a tile, with rows and columns modulo `d`. Entry `(r, j)` of a matrix is entry `(r - e j, j)` of its
/// `tau^e`. Let `psi^k` be the shift up by `k` rows, and substitute `m = i + k + from j`; then `k` runs through all
/// rows if `m` does:
///
/// ```text
/// tau^to(C)[i][j] = C[i + to j][j] = sum_m W[i + to j][m] B[m][j]
///                 = sum_m W[i + to j][m] tau^from(B)[m - from j][j]
///                 = sum_k W[i + to j][i + k + from j] psi^k(tau^from(B))[i][j].
/// ```
///
/// The factors `P_k[i][j] = W[i + to j][i + k + from j]` are plaintexts, so there is one product with a plaintext per
/// `k`, and one rescale of their sum. With several tiles, a tile of the result is a sum of such products, and padding
/// has weight 0.
///
/// * `from = l + 1`, `to = l`: `P_k = tau^l(phi^k(sigma(W)))`, Theorem 4.2 of *Scaling up Privacy-Preserving ML: A CKKS
///   Implementation of Llama-2-7B* (section 4.3). A client who encrypts `tau^L(x)` gets `L` products, one level each.
/// * `from = to`: the exponent does not change, so it does not limit the length of a chain. `0, 0` is
///   [`LinearMap::times_left`], at the same cost.
/// * The identity matrix as weights: any power of `tau`, as a permutation.
pub struct SkewedProduct {
    map: LinearMap,
    layout: Layout,
    /// The exponents of the input and of the result, below the dimension of a tile.
    from: usize,
    to: usize,
}

impl SkewedProduct {
    /// Prepares weights for matrices of this shape, level (or above) and scale, whose exponent is `from`. The result
    /// has exponent `to` and the parameters' scale, and is one level below. Exponents are reduced modulo the dimension
    /// of a tile.
    ///
    /// # Errors
    /// If shapes do not fit, a weight is not finite, or there is no level left.
    pub fn new(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        weights: &Array2<f64>,
        from: usize,
        to: usize,
    ) -> Result<Self, EncryptedMatrixError> {
        check_inner(weights.dim(), input.shape)?;
        check_square(OPERATION, layout)?;
        let d = layout.dim();
        let (from, to) = (from % d, to % d);
        let terms = |to_tile: usize, from_tile: usize| {
            let (rows, inner) = (d.min(weights.nrows() - to_tile * d), d.min(input.shape.0 - from_tile * d));
            let cells = (0..rows * inner).map(|cell| (cell / inner, cell % inner));
            let weighted = cells.map(|(row, k)| (row, k, weights[(to_tile * d + row, from_tile * d + k)]));
            let terms = weighted.filter(|(_, _, weight)| *weight != 0.0).flat_map(|(row, k, weight)| {
                (0..d).map(move |column| {
                    let (row, k) = (stored(d, row, column, to), stored(d, k, column, from));
                    Term { row, column, index: k as i64 - row as i64, weight }
                })
            });
            terms.collect()
        };
        let map = LinearMap::between_rows(parameters, layout, input, weights.nrows(), terms)?;
        Ok(SkewedProduct { map, layout, from, to })
    }

    /// The keys it needs. They are few, because all rotations are by multiples of a row.
    pub fn key_plan(&self) -> KeyPlan {
        self.map.key_plan()
    }

    /// `weights @ x` for every matrix of the batch.
    ///
    /// # Errors
    /// If the exponent, shape, layout or scale of `x` is not the prepared one, its level is too low, or keys are
    /// missing. The error names all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        x: &SkewedMatrix<A::Vector>,
    ) -> Result<SkewedMatrix<A::Vector>, EncryptedMatrixError> {
        // Exponents cannot be compared between layouts of different dimensions. The map below refuses another layout.
        if x.matrix.layout() == self.layout && x.exponent != self.from {
            return Err(EncryptedMatrixError::Layout {
                operation: OPERATION,
                found: format!("exponent {}", x.exponent),
                needed: format!(
                    "exponent {}, for which it was prepared; prepare a product for the other one",
                    self.from
                ),
            });
        }
        Ok(SkewedMatrix { matrix: self.map.apply(arithmetic, &x.matrix)?, exponent: self.to })
    }
}

/// The row where entry `row` of a column is stored if the column is shifted up by `exponent * column` rows, modulo `d`.
fn stored(d: usize, row: usize, column: usize, exponent: usize) -> usize {
    (row + d - exponent * column % d) % d
}

/// Refuses tiles of one row: columns are shifted in square tiles alone.
fn check_square(operation: &'static str, layout: Layout) -> Result<(), EncryptedMatrixError> {
    let (rows, columns) = layout.tile();
    if rows == columns {
        return Ok(());
    }
    Err(EncryptedMatrixError::Layout {
        operation,
        found: format!("tiles of {rows} x {columns}"),
        needed: "square tiles".into(),
    })
}
