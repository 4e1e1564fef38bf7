//! Planning tasks: what a plan has to do, and whether its cost is within the limits.

use unspoken_ckks::CkksParameters;

use crate::cache::PlanCache;
use crate::diagonals::Packing;
use crate::estimate::Estimate;
use crate::permutation::Permutation;

/// A planning task: the permutation, the packing, the levels and the limits.
#[derive(Clone, Debug)]
pub struct PermutationTask<'a> {
    /// The permutation. It is padded to a power of two with entries that stay.
    pub permutation: &'a Permutation,
    /// Known factors of the permutation, in the order they are applied; may be empty. The planner searches for factors
    /// in either case.
    pub factors: &'a [Permutation],
    /// Placement of vectors in the slots.
    pub packing: Packing,
    /// The level of the result, the same for all plans: a deeper plan runs its first steps over more primes.
    pub output_level: usize,
    /// The level of the input.
    pub input_level: usize,
    /// Maximum number of rotation keys, if there is a limit.
    pub max_keys: Option<usize>,
    /// Maximum number of bytes of prepared masks.
    pub max_prepared_bytes: u64,
    /// Keeps the plans that [`PermutationTask::plan`] and [`PermutationTask::plan_stages`] search for. It does not
    /// change the choice.
    pub cache: Option<&'a PlanCache>,
}

/// Whether a plan satisfies the constraints, or the first one it violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It satisfies all constraints.
    Allowed,
    /// It needs an input at this level.
    NeedsLevel(usize),
    /// It needs this number of keys.
    NeedsKeys(usize),
    /// It needs this many bytes of prepared masks.
    NeedsPreparedBytes(u64),
}

impl<'a> PermutationTask<'a> {
    /// A task from the highest level down to `output_level`, with any number of keys and up to 4 GiB of masks.
    pub fn new(
        permutation: &'a Permutation,
        packing: Packing,
        parameters: &CkksParameters,
        output_level: usize,
    ) -> Self {
        PermutationTask {
            permutation,
            factors: &[],
            packing,
            output_level,
            input_level: parameters.circuit_level(),
            max_keys: None,
            max_prepared_bytes: 4 << 30,
            cache: None,
        }
    }

    /// Whether a plan of this cost satisfies the constraints.
    pub(crate) fn verdict(&self, estimate: &Estimate) -> Verdict {
        let Estimate { depth, keys, prepared_bytes, .. } = estimate;
        let limit = self.max_keys.unwrap_or(usize::MAX);
        if self.output_level + depth > self.input_level {
            Verdict::NeedsLevel(self.output_level + depth)
        } else if keys.len() > limit {
            Verdict::NeedsKeys(keys.len())
        } else if *prepared_bytes > self.max_prepared_bytes {
            Verdict::NeedsPreparedBytes(*prepared_bytes)
        } else {
            Verdict::Allowed
        }
    }
}
