//! Degrees and intervals of the polynomials, chosen from ranges of values and a precision.

mod choice;
mod margins;
mod options;

use std::collections::BTreeMap;

pub use self::margins::{Margins, Needed};
pub use self::options::DesignOptions;
use crate::approximation::Approximation;
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::Ranges;

/// Precision of the inverse square root of each round of softmax but the last, in bits. An error there multiplies all
/// weights of a token and head by the same number, which the next round divides out again (Section 4.4 of the paper):
/// it only has to keep them in their range.
const INNER_ROUND_BITS: f64 = 5.0;

/// Bits by which polynomials are more precise than the circuit.
const SPARE_BITS: f64 = 2.0;

/// The polynomials of a circuit, and the ranges of its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Design {
    approximations: BTreeMap<Place, Approximation>,
    ranges: Ranges,
}

/// A function of the circuit: its result, its argument, and the precision it needs.
struct Need {
    function: Function,
    argument: Place,
    result: Place,
    bits: f64,
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

/// The functions of all layers.
fn needs(circuit: &Circuit, options: &DesignOptions) -> Vec<Need> {
    let bits = options.bits + SPARE_BITS;
    let layers = circuit.config().layers;
    let mut needs = Vec::new();
    for layer in 0..layers {
        let mut add = |function, argument, result, bits| {
            let (argument, result) = (Place::new(layer, argument), Place::new(layer, result));
            needs.push(Need { function, argument, result, bits });
        };
        let inverse = Function::InverseSqrt;
        add(inverse, Quantity::AttentionNormSquare, Quantity::AttentionNormFactor, bits);
        // Before the factors of the first round, whose ranges depend on the shifts.
        add(Function::Exponential, Quantity::Score, Quantity::Exponential, bits);
        for round in 0..circuit.rounds() {
            let bits = if round + 1 < circuit.rounds() { INNER_ROUND_BITS } else { bits };
            add(inverse, Quantity::SoftmaxSquare(round), Quantity::SoftmaxFactor(round), bits);
        }
        add(inverse, Quantity::FfnNormSquare, Quantity::FfnNormFactor, bits);
        add(Function::Silu, Quantity::Gate, Quantity::Silu, bits);
    }
    let (argument, result) =
        (Place::new(layers, Quantity::LastNormSquare), Place::new(layers, Quantity::LastNormFactor));
    needs.push(Need { function: Function::InverseSqrt, argument, result, bits });
    needs
}
