//! Layouts: the slots of the entries of a tile.
//!
//! A tile has `d^2` positions in an encoding space of `m d^2` positions, which is `m` blocks (`m` divides `d`). A
//! vector contains `slots / (m d^2)` interleaved matrices, so that rotations are cyclic in the space of each one. A
//! matrix of any shape is a grid of tiles padded with zeros. With many blocks a single product is fastest; with one
//! block the number of products at once is largest.
//!
//! An expression of row vectors alone, without products of matrices, may have tiles of one row (`Layout::of_vectors`):
//! a vector then needs one ciphertext, and not one for every `d` entries. `Graph::flattened` turns expressions of
//! matrices into such ones, where that is possible: every matrix becomes the row of its entries, and transposes,
//! reshapes and selections in a row become a single selection of entries.
//!
//! A product over several blocks leaves sums without meaning in the other blocks, so its result is not *clean*. Linear
//! maps and sums clean their results with their own masks. Before another product, the matrix needs a `TileMask`, which
//! `plan` adds once by itself. With one block every matrix is clean.

use unspoken_ckks::{CkksParameters, Complex64};

use crate::error::EncryptedMatrixError;

/// The layout of `d x d` tiles, or of tiles of one row, in a vector of slots.
///
/// Position `block d^2 + row d + column` of matrix `p` is slot `position * parallel + p`. The encoding space of a tile
/// has `blocks d^2` positions. The tile is block 0; the other `blocks - 1` blocks are working space for products, and
/// zero in a clean tile. `parallel = slots / (blocks d^2)` matrices are interleaved, so that a rotation by a multiple
/// of `parallel` is cyclic in the encoding space of each of them.
///
/// A tile of one row is for expressions of row vectors alone, without products of matrices: a long vector needs fewer
/// ciphertexts than with square tiles, of which it would fill one row.
///
/// Sources: section 4.2.2 of *New Permutation Decomposition Techniques for Efficient Homomorphic Permutation*, whose
/// `m` is `blocks` here; interleaved matrices as in Jiang, Kim, Lauter and Song (CCS 2018), section 4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    slots: usize,
    /// Rows and columns of a tile.
    tile: (usize, usize),
    blocks: usize,
}

impl Layout {
    /// The layout of `dim x dim` tiles with an encoding space of `blocks` blocks.
    ///
    /// # Errors
    /// If `dim` is not a power of two, `blocks` is not a power of two up to `dim`, or the encoding space has more
    /// positions than there are slots.
    pub fn new(parameters: &CkksParameters, dim: usize, blocks: usize) -> Result<Self, EncryptedMatrixError> {
        Self::with_tile(parameters, (dim, dim), blocks)
    }

    /// The layout of row vectors of up to `length` entries, in tiles of one row.
    ///
    /// # Errors
    /// If `length` is not a power of two up to the number of slots.
    pub fn of_vectors(parameters: &CkksParameters, length: usize) -> Result<Self, EncryptedMatrixError> {
        Self::with_tile(parameters, (1, length), 1)
    }

    /// The layout of tiles with these numbers of rows and columns, which are equal unless there is one row and one
    /// block.
    ///
    /// # Errors
    /// The errors of [`Layout::new`] and [`Layout::of_vectors`].
    pub fn with_tile(
        parameters: &CkksParameters,
        tile: (usize, usize),
        blocks: usize,
    ) -> Result<Self, EncryptedMatrixError> {
        let refuse = |found: String, needed: String| {
            Err(EncryptedMatrixError::Layout { operation: "lay out matrices", found, needed })
        };
        let (rows, columns) = tile;
        if rows != columns && (rows, blocks) != (1, 1) {
            let found = format!("tiles of {rows} x {columns} with {blocks} blocks");
            return refuse(found, "as many rows as columns, or one row and one block".into());
        }
        if !columns.is_power_of_two() {
            return refuse(format!("tiles of dimension {columns}"), "a power of two; pad to the next one".into());
        }
        if !blocks.is_power_of_two() || blocks > columns {
            return refuse(format!("{blocks} blocks"), format!("a power of two from 1 to the dimension, {columns}"));
        }
        let slots = parameters.slots();
        let space = rows.checked_mul(columns).and_then(|tile| tile.checked_mul(blocks));
        match space {
            Some(space) if space <= slots => Ok(Layout { slots, tile, blocks }),
            _ => refuse(
                format!("a space of {blocks} blocks of {rows} x {columns}"),
                format!("at most the {slots} slots; use fewer blocks, or smaller tiles"),
            ),
        }
    }

    /// Rows and columns of a tile.
    pub fn tile(&self) -> (usize, usize) {
        self.tile
    }

    /// Number of columns of a tile; for square tiles also the number of rows.
    pub fn dim(&self) -> usize {
        self.tile.1
    }

    /// Refuses tiles of one row for an operation that needs square tiles.
    pub(crate) fn check_square(&self, operation: &'static str) -> Result<(), EncryptedMatrixError> {
        let (rows, columns) = self.tile;
        if rows == columns {
            return Ok(());
        }
        let needed = "square tiles: tiles of one row are for vectors, without products of matrices".into();
        Err(EncryptedMatrixError::Layout { operation, found: format!("tiles of {rows} x {columns}"), needed })
    }

    /// Number of blocks of the encoding space, including the tile.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of matrices that fit one vector.
    pub fn parallel(&self) -> usize {
        self.slots / (self.blocks * self.positions())
    }

    /// Number of slots of a vector.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot of an entry of the matrix with number `matrix`.
    pub fn slot(&self, matrix: usize, row: usize, column: usize) -> usize {
        (row * self.dim() + column) * self.parallel() + matrix
    }

    /// Number of rows and columns of tiles of a matrix of this shape.
    pub fn grid(&self, (rows, columns): (usize, usize)) -> (usize, usize) {
        (rows.div_ceil(self.tile.0), columns.div_ceil(self.tile.1))
    }

    /// Number of tiles of a matrix of this shape, at most `usize::MAX`.
    pub fn tiles(&self, shape: (usize, usize)) -> usize {
        let (rows, columns) = self.grid(shape);
        rows.saturating_mul(columns)
    }

    /// Number of positions of a tile.
    fn positions(&self) -> usize {
        self.tile.0 * self.tile.1
    }

    /// Distance of neighbouring columns in slots.
    pub(crate) fn column_step(&self) -> usize {
        self.parallel()
    }

    /// Distance of neighbouring rows in slots.
    pub(crate) fn row_step(&self) -> usize {
        self.dim() * self.parallel()
    }

    /// Distance of neighbouring blocks in slots.
    pub(crate) fn block_step(&self) -> usize {
        self.positions() * self.parallel()
    }

    /// The slots with `value(block, row, column)` at each position, the same for all matrices.
    pub(crate) fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let (rows, columns) = self.tile;
        let at = |slot: usize| {
            let position = slot / self.parallel();
            Complex64::from(value(position / self.positions(), position / columns % rows, position % columns))
        };
        (0..self.slots).map(at).collect()
    }

    /// Same as [`Layout::fill`] for values that depend on the column only: the slots of one row, which repeat.
    pub(crate) fn fill_columns(&self, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        (0..self.row_step()).map(|slot| Complex64::from(value(slot / self.parallel()))).collect()
    }

    /// Same as [`Layout::fill`] for values that depend on the row only: the slots of one block, which repeat.
    pub(crate) fn fill_rows(&self, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        (0..self.block_step()).map(|slot| Complex64::from(value(slot / self.row_step()))).collect()
    }

    /// The left rotation by `steps` slots, reduced to a number from 0 to below the number of slots.
    pub(crate) fn rotation(&self, steps: i64) -> usize {
        steps.rem_euclid(self.slots as i64) as usize
    }
}

/// 1 if `there` is true, 0 otherwise.
pub(crate) fn indicator(there: bool) -> f64 {
    f64::from(u8::from(there))
}
