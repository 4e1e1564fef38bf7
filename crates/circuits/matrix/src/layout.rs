//! Where the entries of a tile lie in the slots.

use unspoken_ckks::{CkksParameters, Complex64};

use crate::error::MatrixError;

/// How `d x d` tiles lie in a vector of slots.
///
/// Position `block d^2 + row d + column` of matrix `p` is slot `position * parallel + p`. A tile is block 0; the other
/// `blocks - 1` blocks of its encoding space of `blocks d^2` positions are room for products to work in, and zero in a
/// clean tile. `parallel = slots / (blocks d^2)` matrices lie between each other, so that a rotation by a multiple of
/// `parallel` is cyclic in the encoding space of each of them.
///
/// Source: Section 4.2.2 of *New Permutation Decomposition Techniques for Efficient Homomorphic Permutation*, whose `m`
/// is `blocks` here; matrices between each other as in Jiang, Kim, Lauter and Song (CCS 2018), section 4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    slots: usize,
    dim: usize,
    blocks: usize,
}

impl Layout {
    /// Tiles of `dim x dim` with an encoding space of `blocks` blocks.
    ///
    /// # Errors
    /// If `dim` is no power of two, `blocks` no power of two up to `dim`, or the space is larger than the slots.
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

    /// Rows and columns of a tile.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Blocks of the encoding space, the tile included.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Different matrices that fit one vector.
    pub fn parallel(&self) -> usize {
        self.slots / (self.blocks * self.dim * self.dim)
    }

    /// Slots of a vector.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot of an entry of matrix `matrix`.
    pub fn slot(&self, matrix: usize, row: usize, column: usize) -> usize {
        (row * self.dim + column) * self.parallel() + matrix
    }

    /// Tiles along an extent of this many rows or columns.
    pub fn tiles(&self, extent: usize) -> usize {
        extent.div_ceil(self.dim)
    }

    /// Slots between neighbouring columns.
    pub(crate) fn column_step(&self) -> usize {
        self.parallel()
    }

    /// Slots between neighbouring rows.
    pub(crate) fn row_step(&self) -> usize {
        self.dim * self.parallel()
    }

    /// Slots between neighbouring blocks.
    pub(crate) fn block_step(&self) -> usize {
        self.dim * self.dim * self.parallel()
    }

    /// The slots with `value(block, row, column)` at each position, for all matrices alike.
    pub(crate) fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let d = self.dim;
        let at = |slot: usize| {
            let position = slot / self.parallel();
            Complex64::from(value(position / (d * d), position / d % d, position % d))
        };
        (0..self.slots).map(at).collect()
    }

    /// As [`Layout::fill`] for values that depend on the column only: those of one row, which repeat.
    pub(crate) fn fill_columns(&self, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        (0..self.row_step()).map(|slot| Complex64::from(value(slot / self.parallel()))).collect()
    }

    /// As [`Layout::fill`] for values that depend on the row only: those of one block, which repeat.
    pub(crate) fn fill_rows(&self, value: impl Fn(usize) -> f64) -> Vec<Complex64> {
        (0..self.block_step()).map(|slot| Complex64::from(value(slot / self.row_step()))).collect()
    }

    /// A left rotation that moves by `steps` slots, as a number below the slots.
    pub(crate) fn rotation(&self, steps: i64) -> usize {
        steps.rem_euclid(self.slots as i64) as usize
    }
}

/// One where `there` holds, zero elsewhere.
pub(crate) fn indicator(there: bool) -> f64 {
    f64::from(u8::from(there))
}
