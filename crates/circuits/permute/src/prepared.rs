//! Plans prepared for encrypted vectors: their operations with masks.
//!
//! # Precision
//!
//! Each level multiplies by masks of 0 and 1 whose scale is the modulus of the level, so the scale of the vector does
//! not change. A mask is encoded over the primes of its level, and its rounding adds noise of the same order as a
//! rescale. Tests print and bound the error. At scales of 30 bits, the worst slot in the ring of the tests (degree
//! 2^11, entries below 1) had an error of 2^-19 after one level and of 2^-16 after three. In `n15_real_depth17_scale30`
//! (entries up to 250) it was 2^-13 after three levels and 2^-9 after seven.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters};
use unspoken_rlwe::KeyPlan;

use crate::error::{PermuteError, shape};
use crate::estimate::{Estimate, estimate};
use crate::plan::PermutationPlan;
use crate::steps::{Masks, Steps};

const OPERATION: &str = "permute an encrypted vector";

/// A plan prepared for one parameter set, level and scale. Its masks are encoded at their first encrypted use and kept.
/// The result has the scale of the input.
pub struct PreparedPermutation {
    level: usize,
    estimate: Estimate,
    steps: Steps,
}

impl PreparedPermutation {
    /// Prepares a plan for inputs of scale `scale` and results at `level`. Inputs must be at
    /// [`PreparedPermutation::input_level`] or above.
    ///
    /// # Errors
    /// If the vectors are longer than the slots, the parameters have too few levels, or the scale is not a positive
    /// number.
    pub fn new(
        parameters: &CkksParameters,
        plan: &PermutationPlan,
        level: usize,
        scale: f64,
    ) -> Result<Self, PermuteError> {
        let (slots, period) = (parameters.slots(), plan.period());
        if period > slots {
            let needed = format!("at most the {slots} slots; permute longer ones in blocks");
            return Err(shape(OPERATION, format!("vectors of {}", plan.length()), needed));
        }
        let depth = plan.depth();
        if level + depth > parameters.max_level() {
            let (found, needed) = (parameters.max_level(), level + depth);
            return Err(CkksError::Level { operation: OPERATION, found, needed }.into());
        }
        let estimate = estimate(plan, parameters, level)?;
        let masks = Masks::Values(period);
        Ok(PreparedPermutation { level, estimate, steps: Steps::new(parameters, plan, level, scale, masks)? })
    }

    /// The level of its results.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The level that inputs are lowered to.
    pub fn input_level(&self) -> usize {
        self.level + self.estimate.depth
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.estimate.keys
    }

    /// The cost.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Bytes of memory of the masks and their values. Masks that are not yet encoded count as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        self.estimate.prepared_bytes
    }

    /// Peak memory of [`PreparedPermutation::apply`] in bytes. It includes the result, but not the input, the keys and
    /// [`PreparedPermutation::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.estimate.working_bytes
    }

    /// Permutes an encrypted vector.
    ///
    /// # Errors
    /// If the input is below [`PreparedPermutation::input_level`], its scale is not the prepared one, or keys are
    /// missing. The error names all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, PermuteError> {
        arithmetic.require_keys(OPERATION, self.key_plan())?;
        let found = arithmetic.level(input);
        if found < self.input_level() {
            return Err(CkksError::Level { operation: OPERATION, found, needed: self.input_level() }.into());
        }
        let input = arithmetic.lowered(input, self.input_level())?;
        Ok(self.steps.run(arithmetic, self.level, &input)?)
    }
}
