//! Encrypted matrices: shapes, tiles, encryption and decryption.

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, SeededCiphertext};
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

use crate::error::{EncryptedMatrixError, display_shape, shape_error};
use crate::layout::Layout;

/// A batch of encrypted matrices of one shape: a grid of zero-padded tiles with one vector per tile. A vector contains
/// the same tile of all matrices of the batch.
///
/// In a *clean* matrix, the slots of a vector outside its tile are zero. Products over several blocks leave
/// intermediate values there. Operations that need a clean operand refuse others; [`TileMask`](crate::TileMask) cleans
/// a matrix and uses one level.
#[derive(Clone, Debug)]
pub struct EncryptedMatrix<V> {
    layout: Layout,
    shape: (usize, usize),
    batch: usize,
    /// Row-major.
    tiles: Vec<V>,
    clean: bool,
}

impl<V> EncryptedMatrix<V> {
    /// The matrix with these tiles in row-major order. They must be clean: zero in all slots without an entry.
    ///
    /// # Errors
    /// If the shape is empty, the batch is empty or larger than the layout allows, or the number of tiles does not
    /// match the shape.
    pub fn from_tiles(
        layout: Layout,
        shape: (usize, usize),
        batch: usize,
        tiles: Vec<V>,
    ) -> Result<Self, EncryptedMatrixError> {
        let needed = check_extent(layout, shape, batch)?;
        if tiles.len() != needed {
            let reason = format!("{} tiles for shape {}; needed {needed}", tiles.len(), display_shape(shape));
            return Err(shape_error("matrix of tiles", reason));
        }
        Ok(EncryptedMatrix { layout, shape, batch, tiles, clean: true })
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Number of matrices of the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The layout of its tiles.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Its tiles, row-major.
    pub fn tiles(&self) -> &[V] {
        &self.tiles
    }

    /// Its tiles, row-major, by value.
    pub fn into_tiles(self) -> Vec<V> {
        self.tiles
    }

    /// Whether all slots outside the tiles are zero.
    pub fn is_clean(&self) -> bool {
        self.clean
    }

    /// Number of rows and columns of tiles.
    pub fn grid(&self) -> (usize, usize) {
        self.layout.grid(self.shape)
    }

    pub(crate) fn tile(&self, row: usize, column: usize) -> &V {
        &self.tiles[row * self.grid().1 + column]
    }

    /// A matrix of this shape with the layout and batch of `self`. The number of tiles is not checked.
    pub(crate) fn result<W>(&self, shape: (usize, usize), tiles: Vec<W>, clean: bool) -> EncryptedMatrix<W> {
        // With a single block there are no slots outside the tile.
        let clean = clean || self.layout.blocks() == 1;
        EncryptedMatrix { layout: self.layout, shape, batch: self.batch, tiles, clean }
    }

    /// Applies `change` to every tile.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn try_map<W, E>(&self, change: impl FnMut(&V) -> Result<W, E>) -> Result<EncryptedMatrix<W>, E> {
        let tiles = self.tiles.iter().map(change).collect::<Result<_, E>>()?;
        Ok(self.result(self.shape, tiles, self.clean))
    }

    /// The common level and scale of its tiles.
    ///
    /// # Errors
    /// If tiles differ in scale.
    pub fn level_and_scale<A: Arithmetic<Vector = V>>(
        &self,
        arithmetic: &A,
    ) -> Result<(usize, f64), EncryptedMatrixError> {
        let level = self.tiles.iter().map(|tile| arithmetic.level(tile)).min().unwrap_or(0);
        let scale = self.tiles.first().map_or(1.0, |tile| arithmetic.scale(tile));
        let differs = |tile: &V| (arithmetic.scale(tile) / scale - 1.0).abs() > unspoken_ckks::SCALE_TOLERANCE;
        match self.tiles.iter().position(differs) {
            None => Ok((level, scale)),
            Some(index) => Err(EncryptedMatrixError::Layout {
                operation: "use a matrix",
                found: format!("tile {index} of another scale than tile 0"),
                needed: "the same scale for all tiles: compute them by the same operation".into(),
            }),
        }
    }
}

/// Number of tiles of a shape, after a check of shape and batch.
fn check_extent(layout: Layout, shape: (usize, usize), batch: usize) -> Result<usize, EncryptedMatrixError> {
    if shape.0 == 0 || shape.1 == 0 {
        return Err(shape_error(
            "matrix",
            format!("shape {} has no entries; needed at least one", display_shape(shape)),
        ));
    }
    if batch == 0 || batch > layout.parallel() {
        let reason = format!(
            "{batch} matrices; the layout has room for 1 to {} at once: use fewer blocks, smaller tiles or several \
             batches",
            layout.parallel()
        );
        return Err(shape_error("batch of matrices", reason));
    }
    let (rows, columns) = layout.grid(shape);
    rows.checked_mul(columns).ok_or_else(|| {
        shape_error(
            "matrix",
            format!("shape {} has more tiles than can be counted; needed fewer", display_shape(shape)),
        )
    })
}

/// The slots of every tile of a batch of matrices of one shape.
///
/// # Errors
/// If there are no matrices or more than the layout holds, their shapes differ, or the shape is empty.
pub fn encode_tiles(
    layout: Layout,
    matrices: &[Array2<f64>],
) -> Result<EncryptedMatrix<Vec<Complex64>>, EncryptedMatrixError> {
    let shape = matrices.first().map_or((0, 0), Array2::dim);
    let count = check_extent(layout, shape, matrices.len())?;
    if let Some(other) = matrices.iter().find(|matrix| matrix.dim() != shape) {
        let reason = format!(
            "shapes {} and {} in one batch; needed one shape",
            display_shape(shape),
            display_shape(other.dim())
        );
        return Err(shape_error("batch of matrices", reason));
    }
    let ((rows, columns), (_, across)) = (layout.tile(), layout.grid(shape));
    let mut tiles = vec![vec![Complex64::default(); layout.slots()]; count];
    for (p, matrix) in matrices.iter().enumerate() {
        for ((row, column), &value) in matrix.indexed_iter() {
            tiles[row / rows * across + column / columns][layout.slot(p, row % rows, column % columns)] = value.into();
        }
    }
    EncryptedMatrix::from_tiles(layout, shape, matrices.len(), tiles)
}

/// The matrices whose tiles have these slots.
pub fn decode_tiles(tiles: &EncryptedMatrix<impl AsRef<[Complex64]>>) -> Vec<Array2<f64>> {
    let (layout, (rows, columns)) = (tiles.layout, tiles.layout.tile());
    let entry = |p: usize, row: usize, column: usize| {
        tiles.tile(row / rows, column / columns).as_ref()[layout.slot(p, row % rows, column % columns)].re
    };
    (0..tiles.batch).map(|p| Array2::from_shape_fn(tiles.shape, |(row, column)| entry(p, row, column))).collect()
}

impl EncryptedMatrix<SeededCiphertext> {
    /// Encrypts a batch of matrices of one shape at `level`, at the parameters' scale.
    ///
    /// # Errors
    /// Same as [`encode_tiles`], or if the values do not fit their scale.
    pub fn encrypt(
        encoder: &Encoder,
        secret: &SecretKey,
        layout: Layout,
        matrices: &[Array2<f64>],
        level: usize,
        rng: &mut SecretRng,
    ) -> Result<Self, EncryptedMatrixError> {
        let scale = encoder.parameters().scale();
        encode_tiles(layout, matrices)?.try_map(|slots| {
            let plaintext = encoder.encode(slots, level, scale)?;
            Ok(encoder.encrypt(&plaintext, secret, rng)?)
        })
    }

    /// Expands the seeds.
    pub fn expand(&self, parameters: &CkksParameters) -> EncryptedMatrix<Ciphertext> {
        let tiles = self.tiles.iter().map(|tile| tile.expand(parameters)).collect();
        self.result(self.shape, tiles, self.clean)
    }
}

impl EncryptedMatrix<Ciphertext> {
    /// Decrypts the matrices of the batch.
    ///
    /// # Errors
    /// If secret and ciphertexts belong to different parameters.
    pub fn decrypt(&self, encoder: &Encoder, secret: &SecretKey) -> Result<Vec<Array2<f64>>, EncryptedMatrixError> {
        let slots = self.try_map(|tile| encoder.decrypt(tile, secret))?;
        Ok(decode_tiles(&slots))
    }
}

/// Checks that an operand has the shape and the layout that an operation was prepared for.
pub(crate) fn check_prepared<V>(
    operation: &'static str,
    a: &EncryptedMatrix<V>,
    shape: (usize, usize),
    layout: Layout,
) -> Result<(), EncryptedMatrixError> {
    if a.shape == shape && a.layout == layout {
        return Ok(());
    }
    let of = |shape, layout: Layout| {
        let ((rows, columns), blocks) = (layout.tile(), layout.blocks());
        format!("{} in tiles of {rows} x {columns} with {blocks} blocks", display_shape(shape))
    };
    let reason = format!("shape {}; it was prepared for {}", of(a.shape, a.layout), of(shape, layout));
    Err(shape_error(operation, reason))
}

/// Checks that two operands have the same layout and batch size.
pub(crate) fn check_match<V, W>(
    operation: &'static str,
    a: &EncryptedMatrix<V>,
    b: &EncryptedMatrix<W>,
) -> Result<(), EncryptedMatrixError> {
    if a.layout != b.layout {
        return Err(EncryptedMatrixError::Layout {
            operation,
            found: format!(
                "tiles of {} with {} blocks, and of {} with {} blocks",
                a.layout.dim(),
                a.layout.blocks(),
                b.layout.dim(),
                b.layout.blocks()
            ),
            needed: "one layout for both: encrypt them with the same layout".into(),
        });
    }
    if a.batch != b.batch {
        let reason = format!("batches of {} and {} matrices; needed batches of the same size", a.batch, b.batch);
        return Err(shape_error(operation, reason));
    }
    Ok(())
}
