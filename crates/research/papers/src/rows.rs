//! Matrices with one ciphertext per row, for products with plaintext matrices without keys.

use ndarray::{Array2, Axis};
use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, PreparedMatrix, SeededCiphertext};
use unspoken_encrypted_matrix::EncryptedMatrixError;
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

use crate::shapes::{check_inner, display_shape, shape_error};

/// An encrypted matrix with one vector per row. The entries are the coefficients, so there are up to `n` columns for a
/// ring of degree `n`.
#[derive(Clone, Debug)]
pub struct EncryptedRows<V> {
    columns: usize,
    rows: Vec<V>,
}

impl<V> EncryptedRows<V> {
    /// The matrix of these rows.
    ///
    /// # Errors
    /// If there are no rows or no columns.
    pub fn from_rows(columns: usize, rows: Vec<V>) -> Result<Self, EncryptedMatrixError> {
        if rows.is_empty() || columns == 0 {
            let reason = format!("shape {} has no entries; needed at least one", display_shape((rows.len(), columns)));
            return Err(shape_error("matrix of rows", reason));
        }
        Ok(EncryptedRows { columns, rows })
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows.len(), self.columns)
    }

    /// The rows.
    pub fn rows(&self) -> &[V] {
        &self.rows
    }
}

impl EncryptedRows<SeededCiphertext> {
    /// Encrypts a matrix at `level`, at the parameters' scale.
    ///
    /// # Errors
    /// If it has no entries or more columns than the ring has coefficients, or the values do not fit their scale.
    pub fn encrypt(
        encoder: &Encoder,
        secret: &SecretKey,
        matrix: &Array2<f64>,
        level: usize,
        rng: &mut SecretRng,
    ) -> Result<Self, EncryptedMatrixError> {
        let (parameters, columns) = (encoder.parameters(), matrix.ncols());
        let degree = parameters.ring().degree();
        if columns > degree {
            let reason = format!("{columns} columns; a vector holds {degree}: encrypt it in parts");
            return Err(shape_error("matrix of rows", reason));
        }
        let encrypt = |row: ndarray::ArrayView1<'_, f64>| {
            let mut coefficients = row.to_vec();
            coefficients.resize(degree, 0.0);
            let plaintext = encoder.encode_coefficients(&coefficients, level, parameters.scale())?;
            Ok::<_, EncryptedMatrixError>(encoder.encrypt(&plaintext, secret, rng)?)
        };
        Self::from_rows(columns, matrix.axis_iter(Axis(0)).map(encrypt).collect::<Result<_, _>>()?)
    }

    /// Expands the seeds.
    pub fn expand(&self, parameters: &CkksParameters) -> EncryptedRows<Ciphertext> {
        let rows = self.rows.iter().map(|row| row.expand(parameters)).collect();
        EncryptedRows { columns: self.columns, rows }
    }
}

impl EncryptedRows<Ciphertext> {
    /// Decrypts the matrix.
    ///
    /// # Errors
    /// If secret and ciphertexts belong to different parameters.
    pub fn decrypt(&self, encoder: &Encoder, secret: &SecretKey) -> Result<Array2<f64>, EncryptedMatrixError> {
        let mut matrix = Array2::zeros(self.shape());
        for (row, mut entries) in self.rows.iter().zip(matrix.axis_iter_mut(Axis(0))) {
            let coefficients = encoder.decode_coefficients(&secret.decrypt(row.inner())?, row.scale())?;
            entries.iter_mut().zip(coefficients.iter()).for_each(|(entry, value)| *entry = *value);
        }
        Ok(matrix)
    }
}

/// Prepared plaintext weights for products with matrices of rows. The product multiplies coefficients by integers, with
/// the matrix kernel of the ring. It needs no key and uses one level.
pub struct RowsProduct {
    matrix: PreparedMatrix,
    level: usize,
}

impl RowsProduct {
    /// Rounds the weights for rows of this scale, at `level` or above. The result is one level below `level`, at the
    /// same scale.
    ///
    /// # Errors
    /// If there are no weights, a weight is not finite or does not fit after scaling, or there is no level left.
    pub fn new(
        parameters: &CkksParameters,
        weights: &Array2<f64>,
        level: usize,
        scale: f64,
    ) -> Result<Self, EncryptedMatrixError> {
        const OPERATION: &str = "multiply rows by a plaintext";
        if weights.is_empty() {
            let reason = format!("weights of shape {}; needed at least one", display_shape(weights.dim()));
            return Err(shape_error(OPERATION, reason));
        }
        if level.min(parameters.max_level()) == 0 {
            let remedy = "start at a higher level, or use a deeper preset".into();
            return Err(EncryptedMatrixError::Depth { operation: OPERATION, found: 0, needed: 1, remedy });
        }
        let (rows, columns) = weights.dim();
        let output = scale * parameters.level_modulus(level);
        let entry = |row, column| Complex64::from(weights[(row, column)]);
        let matrix = PreparedMatrix::new(parameters, level, &vec![scale; columns], &vec![output; rows], entry)?;
        Ok(RowsProduct { matrix, level })
    }

    /// `weights @ x`.
    ///
    /// # Errors
    /// If the number of rows of `x` is not the number of columns of the weights, the level of `x` is too low, or its
    /// scale is not the prepared one.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        x: &EncryptedRows<A::Vector>,
    ) -> Result<EncryptedRows<A::Vector>, EncryptedMatrixError> {
        check_inner(self.matrix.shape(), x.shape())?;
        let inputs: Vec<&A::Vector> = x.rows.iter().collect();
        let outputs = arithmetic.matrix(&self.matrix, &inputs)?;
        let rows = outputs.iter().map(|row| arithmetic.rescale(row)).collect::<Result<_, _>>()?;
        EncryptedRows::from_rows(x.columns, rows)
    }

    /// The level of its result.
    pub fn output_level(&self) -> usize {
        self.level - 1
    }
}
