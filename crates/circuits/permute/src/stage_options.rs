//! The ways to run a factor as a stage, with their predicted times.

use unspoken_ckks::{CkksError, Steps};

use crate::diagonals::{Progression, ShiftSet, Shifts, distinct_distances};
use crate::error::{PermuteError, shape};
use crate::permutation::Permutation;
use crate::plan::Stage;
use crate::prices::Prices;

/// Limits of baby steps to try. Each stage uses the cheapest number up to the limit.
pub(crate) const BABIES: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64];

/// Maximum number of baby steps: beyond it, keys cost more than giant steps.
pub(crate) const MAX_BABIES: usize = 512;

/// Number of diagonals beyond which small numbers of baby steps are not tried, because they are never cheapest.
const MANY_DIAGONALS: usize = 1 << 11;

/// A representation of shifts and a number of baby steps, with the predicted seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageOption {
    seconds: f64,
    shifts: Shifts,
    pub(crate) babies: usize,
}

impl StageOption {
    /// The stage of a factor with this option.
    pub(crate) fn stage(self, factor: &Permutation) -> Stage {
        Stage { factor: factor.clone(), shifts: self.shifts, babies: self.babies }
    }
}

/// The options for a factor at one level.
pub(crate) struct StageOptions(Vec<StageOption>);

impl StageOptions {
    /// The options with these representations of shifts, for vectors in `slots` slots.
    pub(crate) fn new(
        factor: &Permutation,
        readings: &[Shifts],
        (level, slots): (usize, usize),
        prices: &Prices<'_>,
    ) -> Result<Self, CkksError> {
        let distances = distinct_distances(factor);
        let mut options = Vec::new();
        for &shifts in readings {
            let set = ShiftSet::new(&distances, shifts, factor.len());
            if set.single().is_some() {
                return Ok(StageOptions(vec![StageOption { seconds: 0.0, shifts, babies: 1 }]));
            }
            let Progression { difference, first, count } = set.progression();
            let rotations = set.rotations(slots);
            for babies in numbers_of_babies(count, set.len()) {
                let counts = Steps { difference, first, babies }.counts(&rotations, slots);
                let seconds = prices.seconds(level.max(1), counts)?;
                options.push(StageOption { seconds, shifts, babies });
            }
        }
        Ok(StageOptions(options))
    }

    /// The cheapest option with at most `limit` baby steps, or, if there is none, the option with the fewest baby
    /// steps.
    pub(crate) fn cheapest(&self, limit: usize) -> Result<StageOption, PermuteError> {
        let allowed = self.0.iter().filter(|option| option.babies <= limit);
        let best = allowed.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let best = best.or_else(|| self.0.iter().min_by_key(|option| option.babies));
        best.copied().ok_or_else(|| shape("choose baby steps", "no number", "at least 1"))
    }
}

/// The numbers of baby steps to try for this many diagonals in a progression of `count` terms.
fn numbers_of_babies(count: usize, diagonals: usize) -> impl Iterator<Item = usize> {
    let many = diagonals > MANY_DIAGONALS;
    let all = Some(count).filter(|&count| count <= MAX_BABIES && !many);
    let choices = BABIES.into_iter().chain([96, 128, 192, 256, MAX_BABIES]).filter(move |&babies| babies < count);
    choices.filter(move |&babies| !many || babies >= 64).chain(all)
}
