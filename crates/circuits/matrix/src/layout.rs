//! Layouts: the slots of the entries of a tile.

use unspoken_ckks::{CkksParameters, Complex64};

use crate::error::MatrixError;

/// The layout of `d x d` tiles in a vector of slots.
///
/// Position `block d^2 + row d + column` of matrix `p` is slot `position * parallel + p`. The encoding space of a tile
/// has `blocks d^2` positions. The tile is block 0; the other `blocks - 1` blocks are working space for products, and
/// zero in a clean tile. `parallel = slots / (blocks d^2)` matrices are interleaved, so that a rotation by a multiple
/// of `parallel` is cyclic in the encoding space of each of them.
///
/// Sources: section 4.2.2 of *New Permutation Decomposition Techniques for Efficient Homomorphic Permutation*, whose
/// `m` is `blocks` here; interleaved matrices as in Jiang, Kim, Lauter and Song (CCS 2018), section 4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    slots: usize,
    dim: usize,
    blocks: usize,
}

impl Layout {
    /// The layout of `dim x dim` tiles with an encoding space of `blocks` blocks.
    ///
    /// # Errors
    /// If `dim` is not a power of two, `blocks` is not a power of two up to `dim`, or the encoding space has more
    /// positions than there are slots.
    pub fn new(parameters: &CkksParameters, dim: usize, blocks: usize) -> Result<Self, MatrixError> {
        let refuse =
            |found: String, needed: String| Err(MatrixError::Layout { operation: "lay out matrices", found, needed });
        if !dim.is_power_of_two() {
            return refuse(format!("tiles of dimension {dim}"), "a power of two; pad to the next one".into());
        }
        if !blocks.is_power_of_two() || blocks > dim {
            return refuse(format!("{blocks} blocks"), format!("a power of two from 1 to the dimension, {dim}"));
        }
        let slots = parameters.slots();
        let space = dim.checked_mul(dim).and_then(|tile| tile.checked_mul(blocks));
        match space {
            Some(space) if space <= slots => Ok(Layout { slots, dim, blocks }),
            _ => refuse(
                format!("a space of {blocks} blocks of {dim} x {dim}"),
                format!("at most the {slots} slots; use fewer blocks, or smaller tiles"),
            ),
        }
    }

    /// Dimension of a tile: its number of rows and of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of blocks of the encoding space, including the tile.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of matrices that fit one vector.
    pub fn parallel(&self) -> usize {
        self.slots / (self.blocks * self.dim * self.dim)
    }

    /// Number of slots of a vector.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot of an entry of the matrix with number `matrix`.
    pub fn slot(&self, matrix: usize, row: usize, column: usize) -> usize {
        (row * self.dim + column) * self.parallel() + matrix
    }

    /// Number of tiles along an extent of this many rows or columns.
    pub fn tiles(&self, extent: usize) -> usize {
        extent.div_ceil(self.dim)
    }

    /// Distance of neighbouring columns in slots.
    pub(crate) fn column_step(&self) -> usize {
        self.parallel()
    }

    /// Distance of neighbouring rows in slots.
    pub(crate) fn row_step(&self) -> usize {
        self.dim * self.parallel()
    }

    /// Distance of neighbouring blocks in slots.
    pub(crate) fn block_step(&self) -> usize {
        self.dim * self.dim * self.parallel()
    }

    /// The slots with `value(block, row, column)` at each position, the same for all matrices.
    pub(crate) fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let d = self.dim;
        let at = |slot: usize| {
            let position = slot / self.parallel();
            Complex64::from(value(position / (d * d), position / d % d, position % d))
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
