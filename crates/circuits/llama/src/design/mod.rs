//! Degrees and intervals of the polynomials, chosen from ranges of values and a precision.

mod choice;
mod degrees;
mod margins;
mod need;
mod needed;
mod options;

use std::collections::BTreeMap;

pub use self::degrees::Degrees;
pub use self::margins::{Margins, Needed};
use self::need::needs;
pub use self::options::DesignOptions;
use crate::approximation::Approximation;
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::Ranges;

/// The polynomials of a circuit, and the ranges of its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Design {
    approximations: BTreeMap<Place, Approximation>,
    ranges: Ranges,
}

impl Design {
    /// Chooses for each function of each layer the smallest degree that is precise enough on the ranges of
    /// calibration text, widened by the margin; then widens the intervals as far as that degree allows. The error of
    /// SiLU is the root of the mean square over the coordinates of a layer, so that a few wide coordinates do not
    /// decide the degree of all.
    ///
    /// # Errors
    /// [`CircuitError::Options`] for options out of bounds, [`CircuitError::NoRange`] for ranges of another model,
    /// [`CircuitError::Untamed`] if no degree is enough.
    pub fn new(circuit: &Circuit, ranges: &Ranges, options: &DesignOptions) -> Result<Self, CircuitError> {
        options.check().map_err(|(found, needed)| CircuitError::Options { found, needed })?;
        let mut design = Design { ranges: ranges.clone(), ..Design::default() };
        for need in needs(circuit, options) {
            let range = |place| design.ranges.of(place).ok_or(CircuitError::NoRange { place });
            let found = range(need.argument)?;
            let (degree, intervals) = match need.function {
                Function::Silu => choice::silu(&need, found, range(need.result)?, options)?,
                Function::InverseSqrt => choice::inverse_sqrt(&need, found, circuit.config().context, options)?,
                Function::Exponential => choice::exponential(&need, found, circuit.rounds(), options)?,
            };
            let approximation = Approximation::new(need.function, circuit.rounds(), degree, intervals)?;
            if need.function == Function::Exponential {
                design.shift(circuit, need.result.layer, &approximation);
            }
            design.approximations.insert(need.result, approximation);
        }
        Ok(design)
    }

    /// The polynomials of a function's result.
    pub fn approximation(&self, place: Place) -> Option<&Approximation> {
        self.approximations.get(&place)
    }

    /// All polynomials.
    pub fn approximations(&self) -> impl Iterator<Item = (Place, &Approximation)> {
        self.approximations.iter().map(|(place, approximation)| (*place, approximation))
    }

    /// Ranges of the values of the circuit with the shifts of its exponentials.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Calibration runs without shifts. A shift of the scores of a head multiplies its exponentials by a number, and
    /// the sum of their squares and the factor of the first round accordingly.
    fn shift(&mut self, circuit: &Circuit, layer: usize, exponential: &Approximation) {
        let divisor = f64::from(1u32 << circuit.rounds());
        let by = |power: f64| -> Vec<f64> {
            exponential.intervals().iter().map(|interval| (-power * interval.high / divisor).exp()).collect()
        };
        self.ranges.multiply(Place::new(layer, Quantity::Exponential), &by(1.0));
        self.ranges.multiply(Place::new(layer, Quantity::SoftmaxSquare(0)), &by(2.0));
        self.ranges.multiply(Place::new(layer, Quantity::SoftmaxFactor(0)), &by(-1.0));
    }
}
