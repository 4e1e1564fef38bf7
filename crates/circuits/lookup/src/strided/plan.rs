//! The two plans of a strided lookup.

use unspoken_ckks::CkksParameters;

use crate::plan::{IndexEncoding, LookupPlan, indicator_squarings};
use crate::powers::LevelScale;

/// Method that computes the selection vector of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StridedPlan {
    /// Powers of `alpha_j`, and one conjugation per output: about `2 log2 p` products, `log2 p + 1` levels in all.
    Powers,
    /// The indicator of Kim et al. in every position: `2 log2 p + 7` products and one more level. The baseline.
    Indicator,
}

impl StridedPlan {
    /// The encoding of the indices that the client encrypts.
    pub fn index_encoding(self) -> IndexEncoding {
        match self {
            StridedPlan::Powers => IndexEncoding::Alpha,
            StridedPlan::Indicator => IndexEncoding::Index,
        }
    }

    /// Number of levels it uses, including the linear step.
    pub fn depth(self, columns: usize) -> usize {
        match self {
            StridedPlan::Powers => columns.ilog2() as usize + 1,
            StridedPlan::Indicator => LookupPlan::Indicator.depth(columns),
        }
    }

    /// Number of subtables that share a ciphertext with `width` positions per token, a power of two.
    pub fn shared(self, subtables: usize, columns: usize, width: usize) -> usize {
        (width / self.coordinates(columns)).clamp(1, subtables.next_power_of_two())
    }

    /// Number of coordinates of the selection vector of a subtable.
    pub fn coordinates(self, columns: usize) -> usize {
        match self {
            StridedPlan::Powers => columns / 2,
            StridedPlan::Indicator => columns,
        }
    }

    /// The shape of the selection vectors.
    pub(super) fn shape(self, input: LevelScale, columns: usize, parameters: &CkksParameters) -> Option<LevelScale> {
        let mut square = input;
        if self == StridedPlan::Indicator {
            for _ in 0..=indicator_squarings(columns) {
                square = square.times(square, parameters)?;
            }
            return Some(square);
        }
        let mut power = input;
        for bit in 0..self.coordinates(columns).trailing_zeros() {
            if bit > 0 {
                square = square.times(square, parameters)?;
            }
            let factor = LevelScale { level: square.level.checked_sub(1)?, scale: square.scale };
            power = power.times(factor, parameters)?;
        }
        Some(power)
    }
}
