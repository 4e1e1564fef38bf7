//! Degrees and intervals of the polynomials, chosen from ranges of values and a precision.
//!
//! All groups and coordinates of a place share one degree `2^j - 1`, because they are evaluated together; each has an
//! interval of its own. For each function of each layer the design takes the smallest degree that gives two bits more
//! than the circuit's precision on the ranges widened by the margins. Then it widens each interval as far as the degree
//! stays that precise, up to three times the margin, because an argument outside its interval ruins the whole pass.
//!
//! - Inverse square roots have relative errors, and depend on the ratio of the ends. Margins widen the interval of
//!   logarithms, which is at least as long as the median over the heads of a layer.
//! - Exponentials have errors relative to their largest value. The upper end of the interval is the shift.
//! - SiLU has an interval around 0 for each coordinate. Its error is the root of the mean square over a layer, so a few
//!   wide coordinates do not decide the degree of all.
//!
//! Ranges come from text, from a page with many kinds of characters, and from all tokens of the vocabulary in random
//! order. With text alone, tokens that it lacks left the ranges. Sessions have a least number of public tokens; all
//! tokens of a window after them are private. Which tokens are public makes no difference to the values of the others,
//! so the ranges hold for every longer public text, too.
//!
//! Margins are 1.1 times the margins that held-out text and held-out tokens need. `unspoken llama simulate` counts
//! escapes on text that neither calibration nor margins have seen.

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
    /// [`CircuitError::Imprecise`] if no degree is enough.
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
