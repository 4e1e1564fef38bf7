//! The costs of linear transformations by their numbers of steps, without their diagonals.

use crate::cost::{Cost, CostModel};
use crate::error::CkksError;
use crate::linear::plan::run;
use crate::linear::steps::StepCounts;
use crate::parameters::CkksParameters;

/// The costs of linear transformations at one level, for planners that compare many.
pub struct LinearCosts {
    /// Number of primes of the level.
    limbs: usize,
    /// The costs of an input, a result, a baby step, a giant step, a product with a diagonal and an addition of
    /// undivided sums, without the counts of key switches.
    input: Cost,
    output: Cost,
    baby: Cost,
    giant: Cost,
    product: Cost,
    addition: Cost,
}

impl LinearCosts {
    /// The costs of transformations of inputs at `level` whose diagonals repeat after `period` slots, a power of two.
    ///
    /// # Errors
    /// If the level is 0 or above the highest.
    pub fn new(parameters: &CkksParameters, level: usize, period: usize) -> Result<Self, CkksError> {
        check_level("price a linear transformation", parameters, level)?;
        Ok(Self::of_run(parameters, level, run(parameters, period)))
    }

    /// As [`LinearCosts::new`], for a level that is checked and runs of equal values in encoded diagonals.
    pub(super) fn of_run(parameters: &CkksParameters, level: usize, run: usize) -> Self {
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        let extended = ring.switching_basis(basis);
        let input = Cost::decomposition(ring, basis);
        let output = Cost::rescale(ring, extended, parameters.basis(level - 1), 2);
        let mut giant = Cost::division(ring, extended, basis);
        giant += Cost::decomposition(ring, basis);
        giant += Cost::hoisted_product(ring, basis);
        giant += Cost::elementwise(ring, 8 * ring.limb_count(extended));
        let mut baby = Cost::hoisted_rotation(ring, basis);
        baby.key_switches.clear();
        baby.hoisted_rotations.clear();
        let product = Cost::undivided_products(ring, basis, run, 1);
        let addition = Cost::addition(ring, extended, 2);
        LinearCosts { limbs: ring.limb_count(basis), input, output, baby, giant, product, addition }
    }

    /// The cost of a transformation, or of sums of some.
    pub fn cost(&self, counts: StepCounts) -> Cost {
        let mut cost = self.work(counts);
        cost.key_switches.insert(self.limbs, (counts.babies + counts.giants) as u64);
        cost.hoisted_rotations.insert(self.limbs, counts.babies as u64);
        cost
    }

    /// The predicted seconds of them.
    pub fn seconds(&self, model: &CostModel, counts: StepCounts) -> f64 {
        model.seconds(&self.work(counts))
    }

    /// The cost without the counts of key switches.
    fn work(&self, counts: StepCounts) -> Cost {
        let parts = [
            (&self.input, counts.inputs),
            (&self.output, counts.outputs),
            (&self.baby, counts.babies),
            (&self.giant, counts.giants),
            (&self.product, counts.diagonals),
            (&self.addition, counts.additions),
        ];
        let mut cost = Cost::default();
        for (each, count) in parts {
            cost += each.clone().times(count as u64);
        }
        cost
    }
}

/// Refuses levels at which there is no linear transformation.
pub(crate) fn check_level(operation: &'static str, parameters: &CkksParameters, level: usize) -> Result<(), CkksError> {
    if level == 0 {
        return Err(CkksError::Level { operation, found: 0, needed: 1 });
    }
    if level > parameters.max_level() {
        return Err(CkksError::Level { operation, found: parameters.max_level(), needed: level });
    }
    Ok(())
}
