//! Designs of given degrees, for models that were not calibrated.

use super::Design;
use super::need::needs;
use super::options::DesignOptions;
use crate::approximation::{Approximation, widest};
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::{Interval, Ranges};

/// Degrees of the polynomials that replace functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Degrees {
    /// Degree of the exponential function.
    pub exponential: usize,
    /// Degree of SiLU.
    pub silu: usize,
    /// Degree of the inverse square root in norms.
    pub norm: usize,
    /// Degrees of the inverse square root in the rounds of softmax. Rounds after the last one have the last degree.
    pub softmax: Vec<usize>,
}

impl Default for Degrees {
    /// The paper's exponential (15) and last round (its 128 as 127, which has the same depth); 63 for SiLU and norms;
    /// 31 for the first round, which need not be accurate (Section 4.4).
    fn default() -> Self {
        Degrees { exponential: 15, silu: 63, norm: 63, softmax: vec![31, 127] }
    }
}

impl Degrees {
    /// The degree of a function whose result is this quantity.
    fn of(&self, function: Function, result: Quantity) -> usize {
        match (function, result) {
            (Function::Exponential, _) => self.exponential,
            (Function::Silu, _) => self.silu,
            (Function::InverseSqrt, Quantity::SoftmaxFactor(round)) => {
                self.softmax.get(usize::from(round)).or(self.softmax.last()).copied().unwrap_or(self.norm)
            }
            (Function::InverseSqrt, _) => self.norm,
        }
    }
}

/// The largest absolute value of a coordinate over the root of the mean square of a token.
const PEAK: f64 = 16.0;

/// The largest sum of the squares of the weights that a round of softmax divides.
const LARGEST_SQUARES: f64 = 1.2;

impl Design {
    /// A design for counting passes of a model that was not calibrated. Each polynomial has its degree, and the widest
    /// interval on which that is precise enough by the default options. Other values have ranges at which those that
    /// bootstraps resolve in real models are resolved: counts depend on nothing else.
    ///
    /// # Errors
    /// If a function cannot be interpolated.
    pub fn of_degrees(circuit: &Circuit, degrees: &Degrees) -> Result<Self, CircuitError> {
        let (config, mut design) = (circuit.config(), Design::default());
        let divisor = f64::from(1u32 << circuit.rounds());
        let within = |low: f64, high: f64| Interval { low, high };
        let mut known: Vec<((Function, usize, u64), f64)> = Vec::new();
        for need in needs(circuit, &DesignOptions::default()) {
            let degree = degrees.of(need.function, need.result.quantity);
            let key = (need.function, degree, need.bits.to_bits());
            let extent = match known.iter().find(|(other, _)| *other == key) {
                Some((_, extent)) => *extent,
                None => {
                    let extent = widest(need.function, degree, (-need.bits).exp2())?;
                    known.push((key, extent));
                    extent
                }
            };
            let interval = match (need.function, need.argument.quantity) {
                (Function::Exponential, _) => within(-divisor * extent / 2.0, divisor * extent / 2.0),
                (Function::Silu, _) => within(-extent / 2.0, extent / 2.0),
                (Function::InverseSqrt, Quantity::SoftmaxSquare(_)) => {
                    within(LARGEST_SQUARES / extent, LARGEST_SQUARES)
                }
                (Function::InverseSqrt, _) => within(extent.recip(), 1.0),
            };
            let intervals = vec![interval; need.argument.quantity.count(config)];
            let approximation = Approximation::new(need.function, circuit.rounds(), degree, intervals)?;
            design.approximations.insert(need.result, approximation);
        }
        design.ranges = ranges(circuit, &design)?;
        Ok(design)
    }
}

/// Ranges of the values between the functions of a design.
fn ranges(circuit: &Circuit, design: &Design) -> Result<Ranges, CircuitError> {
    let config = circuit.config();
    let mut ranges = Ranges::new();
    let mut set = |layer: usize, quantity: Quantity, largest: f64| {
        let interval = Interval { low: -largest, high: largest };
        ranges.set(Place::new(layer, quantity), vec![interval; quantity.count(config)]);
    };
    // Half the length of the intervals of a function's argument.
    let half = |layer: usize, quantity: Quantity| {
        let place = Place::new(layer, quantity);
        let interval = design.approximation(place).and_then(|found| found.intervals().first());
        interval.map(|interval| (interval.high - interval.low) / 2.0).ok_or(CircuitError::NoRange { place })
    };
    for layer in 0..config.layers {
        // Queries times keys, over the root of the width of a head, are scores.
        let coordinate = ((config.head_width as f64).sqrt() * half(layer, Quantity::Exponential)?).sqrt();
        let gate = half(layer, Quantity::Silu)?;
        for (quantity, largest) in [
            (Quantity::Residual, PEAK),
            (Quantity::AttentionNorm, PEAK),
            (Quantity::Query, coordinate),
            (Quantity::Key, coordinate),
            (Quantity::Value, 1.0),
            (Quantity::QueryNorm, coordinate),
            (Quantity::KeyNorm, coordinate),
            (Quantity::RotatedQuery, coordinate),
            (Quantity::RotatedKey, coordinate),
            (Quantity::MiddleResidual, PEAK),
            (Quantity::FfnNorm, PEAK),
            (Quantity::Gate, gate),
            (Quantity::Up, 1.0),
            (Quantity::Hidden, gate),
        ] {
            set(layer, quantity, largest);
        }
    }
    for quantity in [Quantity::Residual, Quantity::LastNorm, Quantity::Logits] {
        set(config.layers, quantity, PEAK);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use unspoken_llama_model::published;

    use super::*;

    #[test]
    fn a_design_has_the_degrees_that_are_asked_for() {
        let config = published("stories260k").unwrap();
        let circuit = Circuit::new(&config).with_rounds(3);
        let degrees = Degrees::default();
        let design = Design::of_degrees(&circuit, &degrees).unwrap();
        let degree = |layer, quantity| design.approximation(Place::new(layer, quantity)).unwrap().degree();
        for layer in 0..config.layers {
            assert_eq!(degree(layer, Quantity::Exponential), 15);
            assert_eq!(degree(layer, Quantity::Silu), 63);
            assert_eq!(degree(layer, Quantity::FfnNormFactor), 63);
            assert_eq!([0, 1, 2].map(|round| degree(layer, Quantity::SoftmaxFactor(round))), [31, 127, 127]);
        }
        assert_eq!(degree(config.layers, Quantity::LastNormFactor), 63);
        let intervals = design.approximation(Place::new(0, Quantity::Silu)).unwrap().intervals();
        assert!(intervals.len() == config.ffn_width && intervals[0].high > 5.0, "{:?}", intervals[0]);
    }
}
