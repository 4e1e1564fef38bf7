//! Degrees and intervals of the polynomials, chosen from ranges of values and a precision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::approximation::{Approximation, standard_error, widest};
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::{Interval, Ranges};

/// What a design must reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignOptions {
    /// Precision of the circuit in bits of each value's range. Polynomials get two bits more: inverse square roots
    /// relative to the value, exponentials relative to the largest of a head, SiLU relative to the largest of a layer,
    /// in the root of the mean square over its coordinates.
    pub bits: f64,
    /// Margins of the intervals beyond the ranges of calibration text, at least.
    pub margins: Margins,
    /// Factor by which margins grow at most: intervals are widened as long as the degree stays precise enough.
    pub widening: f64,
    /// Maximum number of tokens of a session, public and private: no sum of squares of weights is smaller than its
    /// inverse. Without it, the context of the model.
    pub tokens: Option<usize>,
    /// Degrees to choose from, in rising order. A polynomial of degree `2^j - 1` uses `j` levels.
    pub degrees: Vec<usize>,
}

/// Factors by which intervals are wider than the ranges of calibration text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margins {
    /// Of mean squares in norms: the length of the interval of logarithms is multiplied by it.
    pub norm: f64,
    /// Of sums of squares in softmax: the length of the interval of logarithms is multiplied by it.
    pub softmax: f64,
    /// Of scores: the length is multiplied by it.
    pub score: f64,
    /// Of gates: the largest absolute value is multiplied by it.
    pub gate: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Margins { norm: 1.25, softmax: 1.25, score: 1.25, gate: 1.25 }
    }
}

impl Margins {
    /// The smallest margins with which the ranges of calibration text hold those of other text, and each the place that
    /// needs it.
    ///
    /// # Errors
    /// [`CircuitError::NoRange`] for ranges of another model.
    pub fn needed(circuit: &Circuit, calibration: &Ranges, other: &Ranges) -> Result<NeededMargins, CircuitError> {
        let none = Margins { norm: 1.0, softmax: 1.0, score: 1.0, gate: 1.0 };
        let mut needed = NeededMargins { margins: none, places: [None; 4] };
        let divisor = f64::from(1u32 << circuit.rounds());
        for need in needs(circuit, &DesignOptions::default()) {
            let place = need.argument;
            let own = calibration.of(place).ok_or(CircuitError::NoRange { place })?;
            let held = other.of(place).ok_or(CircuitError::NoRange { place })?;
            let (floor, ratios) = (gate_floor(own), logarithms(own));
            for (group, (own, held)) in own.iter().zip(held).enumerate() {
                let margin = match need.function {
                    Function::InverseSqrt => ratios[group].margin(&held.logarithms()),
                    Function::Exponential => at_least(own, divisor).margin(held),
                    Function::Silu => held.largest() / own.largest().max(floor),
                };
                needed.raise(place, margin);
            }
        }
        Ok(needed)
    }

    fn of(&mut self, quantity: Quantity) -> (usize, &mut f64) {
        match quantity {
            Quantity::SoftmaxSquare(_) => (1, &mut self.softmax),
            Quantity::Score => (2, &mut self.score),
            Quantity::Gate => (3, &mut self.gate),
            _ => (0, &mut self.norm),
        }
    }

    /// The margins times a factor.
    pub fn times(self, factor: f64) -> Self {
        let Margins { norm, softmax, score, gate } = self;
        Margins { norm: norm * factor, softmax: softmax * factor, score: score * factor, gate: gate * factor }
    }
}

/// Margins that text needs, and the places that need them: of a norm, of softmax, of scores, of gates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeededMargins {
    /// The margins, at least 1.
    pub margins: Margins,
    /// The places, in the order of the fields; none where the margin is 1.
    pub places: [Option<Place>; 4],
}

impl NeededMargins {
    fn raise(&mut self, place: Place, margin: f64) {
        let (index, own) = self.margins.of(place.quantity);
        if margin > *own {
            *own = margin;
            self.places[index] = Some(place);
        }
    }
}

/// The radius that each coordinate of a gate has at least: the median over the layer. A coordinate with a small range
/// costs nothing if its interval is as wide as that of half of the others.
fn gate_floor(ranges: &[Interval]) -> f64 {
    let mut radii: Vec<f64> = ranges.iter().map(Interval::largest).collect();
    radii.sort_by(f64::total_cmp);
    radii.get(radii.len() / 2).copied().unwrap_or(1.0).max(1.0)
}

/// Bounds of options that are read from a file.
const MAX_BITS: f64 = 60.0;
const MAX_FACTOR: f64 = 1e6;
const MAX_DEGREE: usize = 511;
const MAX_DEGREES: usize = 64;

impl DesignOptions {
    /// Checks options that were read from a file.
    ///
    /// # Errors
    /// What was found and what was needed.
    pub fn check(&self) -> Result<(), (String, String)> {
        let Margins { norm, softmax, score, gate } = self.margins;
        if !(self.bits > 0.0 && self.bits <= MAX_BITS) {
            return Err((format!("{} bits", self.bits), format!("more than 0, at most {MAX_BITS}")));
        }
        for factor in [norm, softmax, score, gate, self.widening] {
            if !(1.0..=MAX_FACTOR).contains(&factor) {
                return Err((format!("a margin or widening of {factor}"), format!("1 to {MAX_FACTOR}")));
            }
        }
        let rising = self.degrees.windows(2).all(|pair| pair[0] < pair[1]);
        let bounded = self.degrees.iter().all(|degree| (1..=MAX_DEGREE).contains(degree));
        if self.degrees.is_empty() || self.degrees.len() > MAX_DEGREES || !rising || !bounded {
            let needed = format!("1 to {MAX_DEGREES} rising degrees from 1 to {MAX_DEGREE}");
            return Err((format!("{} degrees", self.degrees.len()), needed));
        }
        match self.tokens {
            Some(0) => Err(("sessions of 0 tokens".into(), "at least 1".into())),
            _ => Ok(()),
        }
    }
}

impl Default for DesignOptions {
    fn default() -> Self {
        DesignOptions {
            bits: 14.0,
            margins: Margins::default(),
            widening: 3.0,
            tokens: None,
            degrees: vec![7, 15, 31, 63, 127, 255],
        }
    }
}

/// Precision of the inverse square root of each round of softmax but the last, in bits. An error there multiplies all
/// weights of a token and head by the same number, which the next round divides out again (Section 4.4 of the paper):
/// it only has to keep them in their range.
const INNER_ROUND_BITS: f64 = 5.0;

/// Weights of a token and head sum to 1 after each round, so their squares sum to 1 at most, and to the inverse of
/// their number at least. The errors of the inner rounds add to that.
const LARGEST_WEIGHT_SQUARES: f64 = 1.2;
const SMALLEST_WEIGHT_SQUARES: f64 = 0.8;

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
                Function::Silu => silu(&need, found, largest(range(need.result)?), options)?,
                Function::InverseSqrt => inverse_sqrt(&need, found, circuit.config().context, options)?,
                Function::Exponential => exponential(&need, found, circuit.rounds(), options)?,
            };
            let by_coordinate = need.result.quantity.by_coordinate();
            let approximation = Approximation::new(need.function, circuit.rounds(), degree, intervals, by_coordinate)?;
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

/// The largest absolute value of all ranges.
fn largest(ranges: &[Interval]) -> f64 {
    ranges.iter().map(Interval::largest).fold(0.0, f64::max)
}

/// A degree, and the interval of each group or coordinate.
type Choice = (usize, Vec<Interval>);

/// SiLU on intervals around 0; errors relative to the largest value of the layer.
fn silu(need: &Need, ranges: &[Interval], scale: f64, options: &DesignOptions) -> Result<Choice, CircuitError> {
    let floor = gate_floor(ranges);
    let radius = |range: &Interval| on_grid(range.largest().max(floor) * options.margins.gate);
    let needed: Vec<f64> = ranges.iter().map(radius).collect();
    let rms = |degree: usize| -> Result<f64, CircuitError> {
        let mut errors = BTreeMap::new();
        let mut sum = 0.0;
        for radius in &needed {
            // Positive floating-point numbers and their bits have one order.
            let error = match errors.get(&radius.to_bits()) {
                Some(error) => *error,
                None => *errors.entry(radius.to_bits()).or_insert(standard_error(Function::Silu, degree, *radius)?),
            };
            sum += error * error;
        }
        // A layer whose results are all 0 needs no precision.
        Ok((sum / needed.len() as f64).sqrt() / scale.max(f64::MIN_POSITIVE))
    };
    let widest_coordinate = (0..needed.len()).max_by(|a, b| needed[*a].total_cmp(&needed[*b])).unwrap_or(0);
    let radius = needed[widest_coordinate];
    let degree = smallest(need, (widest_coordinate, -radius, radius), options, rms)?;
    let limit = widest(Function::Silu, degree, (-need.bits).exp2() * scale)?;
    let more = options.widening;
    let around_zero = |radius: &f64| {
        let radius = radius.max(below_grid(limit.min(radius * more)));
        Interval { low: -radius, high: radius }
    };
    Ok((degree, needed.iter().map(around_zero).collect()))
}

/// An interval around the same centre whose length is not less.
fn at_least(interval: &Interval, length: f64) -> Interval {
    let missing = (length - (interval.high - interval.low)).max(0.0) / 2.0;
    Interval { low: interval.low - missing, high: interval.high + missing }
}

/// The intervals of the logarithms of positive values. Each is at least as long as the median over the groups, and as a
/// tenth: a head whose sums hardly differ in calibration text may differ as others do in other text, and costs nothing
/// if its interval is as wide as that of half of the others.
fn logarithms(intervals: &[Interval]) -> Vec<Interval> {
    let all: Vec<Interval> = intervals.iter().map(Interval::logarithms).collect();
    let mut lengths: Vec<f64> = all.iter().map(|interval| interval.high - interval.low).collect();
    lengths.sort_by(f64::total_cmp);
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0.0);
    all.iter().map(|interval| at_least(interval, median.max(0.1))).collect()
}

/// Inverse square roots with relative errors.
fn inverse_sqrt(
    need: &Need,
    ranges: &[Interval],
    context: usize,
    options: &DesignOptions,
) -> Result<Choice, CircuitError> {
    let tokens = options.tokens.unwrap_or(context);
    let (least, most) = match need.argument.quantity {
        Quantity::SoftmaxSquare(round) if round > 0 => {
            (SMALLEST_WEIGHT_SQUARES / tokens as f64, LARGEST_WEIGHT_SQUARES)
        }
        _ => (0.0, f64::INFINITY),
    };
    let widened = |logarithms: &Interval, factor: f64| {
        let widened = logarithms.widened(factor);
        Interval { low: widened.low.exp().max(least), high: widened.high.exp().min(most) }
    };
    // Calibration has exact factors; those of an inner round move the sums of the next one, the fourth power of them.
    let moved = |range: &Interval| match need.argument.quantity {
        Quantity::SoftmaxSquare(round) if round > 0 => {
            let error = (-INNER_ROUND_BITS).exp2();
            let (low, high) = (range.low * (1.0 - error).powi(4), range.high * (1.0 + error).powi(4));
            Interval { low: low.max(least), high: high.min(most) }
        }
        _ => *range,
    };
    let margin = match need.argument.quantity {
        Quantity::SoftmaxSquare(_) => options.margins.softmax,
        _ => options.margins.norm,
    };
    let needed: Vec<Interval> = logarithms(ranges).iter().map(|range| moved(&widened(range, margin))).collect();
    let ratio = |interval: &Interval| interval.high / interval.low;
    let worst = (0..needed.len()).max_by(|a, b| ratio(&needed[*a]).total_cmp(&ratio(&needed[*b]))).unwrap_or(0);
    let (low, high) = (needed[worst].low, needed[worst].high);
    let degree = smallest(need, (worst, low, high), options, |degree| {
        Ok(standard_error(Function::InverseSqrt, degree, high / low)?)
    })?;
    let limit = widest(Function::InverseSqrt, degree, (-need.bits).exp2())?;
    let more = options.widening;
    let widen = |interval: &Interval| {
        let factor = limit.ln() / ratio(interval).ln();
        widened(&interval.logarithms(), factor.clamp(1.0, more))
    };
    Ok((degree, needed.iter().map(widen).collect()))
}

/// Exponentials; errors relative to their largest value. Widening moves the lower end only: a higher upper end would
/// make all values smaller.
fn exponential(need: &Need, ranges: &[Interval], rounds: u8, options: &DesignOptions) -> Result<Choice, CircuitError> {
    let divisor = f64::from(1u32 << rounds);
    let widened = |range: &Interval| at_least(range, divisor).widened(options.margins.score);
    let needed: Vec<Interval> = ranges.iter().map(widened).collect();
    let length = |interval: &Interval| interval.high - interval.low;
    let worst = (0..needed.len()).max_by(|a, b| length(&needed[*a]).total_cmp(&length(&needed[*b]))).unwrap_or(0);
    let (low, high) = (needed[worst].low, needed[worst].high);
    let extent = length(&needed[worst]) / divisor;
    let degree = smallest(need, (worst, low, high), options, |degree| {
        Ok(standard_error(Function::Exponential, degree, extent)?)
    })?;
    let limit = divisor * widest(Function::Exponential, degree, (-need.bits).exp2())?;
    let more = options.widening;
    let lower = |interval: &Interval| {
        let length = length(interval).max(limit.min(length(interval) * more));
        Interval { low: interval.high - length, high: interval.high }
    };
    Ok((degree, needed.iter().map(lower).collect()))
}

/// The smallest degree whose error is small enough; `widest` is the widest interval with its index.
fn smallest(
    need: &Need,
    (index, low, high): (usize, f64, f64),
    options: &DesignOptions,
    error: impl Fn(usize) -> Result<f64, CircuitError>,
) -> Result<usize, CircuitError> {
    let mut last = (0, 0.0);
    for &degree in &options.degrees {
        let found = -error(degree)?.log2();
        if found >= need.bits {
            return Ok(degree);
        }
        last = (degree, found);
    }
    let (degree, found) = last;
    Err(CircuitError::Untamed { place: need.result, index, low, high, degree, bits: need.bits, found })
}

/// The next power of `2^(1/8)`: few different intervals need few different polynomials.
fn on_grid(radius: f64) -> f64 {
    ((8.0 * radius.log2()).ceil() / 8.0).exp2()
}

/// The power of `2^(1/8)` before a radius.
fn below_grid(radius: f64) -> f64 {
    ((8.0 * radius.log2()).floor() / 8.0).exp2()
}
