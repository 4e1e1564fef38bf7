//! The costs of linear transformations by their numbers of steps, without their diagonals.

use crate::cost::{Cost, CostModel};
use crate::error::CkksError;
use crate::linear::steps::StepCounts;
use crate::parameters::CkksParameters;

/// The costs of linear transformations at one level, for planners that compare many.
pub struct LinearCosts {
    /// Number of primes of the level.
    limbs: usize,
    /// The cost that every transformation has, and the costs of a baby step, a giant step and a product with a
    /// diagonal, without the counts of key switches.
    fixed: Cost,
    baby: Cost,
    giant: Cost,
    product: Cost,
}

impl LinearCosts {
    /// The costs of transformations of inputs at `level`.
    ///
    /// # Errors
    /// If the level is 0 or above the highest.
    pub fn new(parameters: &CkksParameters, level: usize) -> Result<Self, CkksError> {
        check_level("price a linear transformation", parameters, level)?;
        Ok(Self::at_level(parameters, level))
    }

    /// As [`LinearCosts::new`], for a level that is checked.
    pub(crate) fn at_level(parameters: &CkksParameters, level: usize) -> Self {
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        let extended = ring.switching_basis(basis);
        let mut fixed = Cost::decomposition(ring, basis);
        fixed += Cost::rescale(ring, extended, parameters.basis(level - 1), 2);
        let mut giant = Cost::division(ring, extended, basis);
        giant += Cost::decomposition(ring, basis);
        giant += Cost::hoisted_product(ring, basis);
        giant += Cost::elementwise(ring, 8 * ring.limb_count(extended));
        let mut baby = Cost::hoisted_rotation(ring, basis);
        baby.key_switches.clear();
        baby.hoisted_rotations.clear();
        let product = Cost::undivided_products(ring, basis, 1);
        LinearCosts { limbs: ring.limb_count(basis), fixed, baby, giant, product }
    }

    /// The cost of a transformation.
    pub fn cost(&self, counts: StepCounts) -> Cost {
        let mut cost = self.work(counts);
        cost.key_switches.insert(self.limbs, (counts.babies + counts.giants) as u64);
        cost.hoisted_rotations.insert(self.limbs, counts.babies as u64);
        cost
    }

    /// The predicted seconds of a transformation.
    pub fn seconds(&self, model: &CostModel, counts: StepCounts) -> f64 {
        model.seconds(&self.work(counts))
    }

    /// The cost without the counts of key switches.
    fn work(&self, StepCounts { diagonals, babies, giants }: StepCounts) -> Cost {
        let mut cost = self.fixed.clone();
        for (each, count) in [(&self.baby, babies), (&self.giant, giants), (&self.product, diagonals)] {
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
