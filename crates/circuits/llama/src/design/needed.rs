//! The margins that held-out text needs.

use super::choice::{at_least, gate_floor, logarithms};
use super::margins::{Margins, Needed};
use super::need::needs;
use super::options::DesignOptions;
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::ranges::Ranges;

impl Margins {
    /// The smallest margins with which the ranges of calibration text contain the ranges of other text.
    ///
    /// # Errors
    /// [`CircuitError::NoRange`] for ranges of another model.
    pub fn needed(circuit: &Circuit, calibration: &Ranges, other: &Ranges) -> Result<Margins<Needed>, CircuitError> {
        let mut needed = Margins::all(Needed { margin: 1.0, place: None });
        let divisor = f64::from(1u32 << circuit.rounds());
        for need in needs(circuit, &DesignOptions::default()) {
            let place = need.argument;
            let own = calibration.of(place).ok_or(CircuitError::NoRange { place })?;
            let held = other.of(place).ok_or(CircuitError::NoRange { place })?;
            let (floor, ratios) = (gate_floor(own), logarithms(own));
            let largest = needed.of(place.quantity);
            for (group, (own, held)) in own.iter().zip(held).enumerate() {
                let margin = match need.function {
                    Function::InverseSqrt => ratios[group].margin(&held.logarithms()),
                    Function::Exponential => at_least(own, divisor).margin(held),
                    Function::Silu => held.largest() / own.largest().max(floor),
                };
                if margin > largest.margin {
                    *largest = Needed { margin, place: Some(place) };
                }
            }
        }
        Ok(needed)
    }
}
