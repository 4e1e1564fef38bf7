//! Predicted times of stages by their numbers of diagonals and steps.

use unspoken_ckks::{CkksError, CkksParameters, CostModel, LinearCosts, StepCounts};

/// The prices of linear transformations at every level.
pub(crate) struct Prices<'a> {
    model: &'a CostModel,
    /// From level 1 up.
    levels: Vec<LinearCosts>,
}

impl<'a> Prices<'a> {
    /// The prices of transformations whose masks repeat after `period` slots.
    ///
    /// # Errors
    /// If the parameters have no costs, which their levels rule out.
    pub(crate) fn new(parameters: &CkksParameters, period: usize, model: &'a CostModel) -> Result<Self, CkksError> {
        let levels = (1..=parameters.max_level()).map(|level| LinearCosts::new(parameters, level, period));
        Ok(Prices { model, levels: levels.collect::<Result<_, _>>()? })
    }

    /// Predicted seconds of a transformation at `level`.
    ///
    /// # Errors
    /// If the level is 0 or above the highest.
    pub(crate) fn seconds(&self, level: usize, counts: StepCounts) -> Result<f64, CkksError> {
        let costs = level.checked_sub(1).and_then(|index| self.levels.get(index));
        let costs =
            costs.ok_or(CkksError::Level { operation: "price a stage", found: self.levels.len(), needed: level })?;
        Ok(costs.seconds(self.model, counts))
    }
}
