//! The smallest degree that is precise enough for a function, and the widest intervals that it allows.

use std::collections::BTreeMap;

use super::need::{INNER_ROUND_BITS, Need};
use super::options::DesignOptions;
use crate::approximation::{standard_error, widest};
use crate::arithmetic::Function;
use crate::error::CircuitError;
use crate::place::Quantity;
use crate::ranges::Interval;

/// Weights of a token and head sum to 1 after each round, so their squares sum to at most 1 and at least the inverse of
/// their number. The errors of the inner rounds widen this range.
const LARGEST_WEIGHT_SQUARES: f64 = 1.2;
const SMALLEST_WEIGHT_SQUARES: f64 = 0.8;

/// A degree, and the interval of each group or coordinate.
type Choice = (usize, Vec<Interval>);

/// SiLU on intervals around 0; errors relative to the largest value of the layer.
pub(super) fn silu(
    need: &Need,
    ranges: &[Interval],
    results: &[Interval],
    options: &DesignOptions,
) -> Result<Choice, CircuitError> {
    let scale = results.iter().map(Interval::largest).fold(0.0, f64::max);
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
    let around_zero = |radius: f64| Interval { low: -radius, high: radius };
    let intervals: Vec<Interval> = needed.iter().map(|radius| around_zero(*radius)).collect();
    let degree = smallest(need, &intervals, options, |degree, _| rms(degree))?;
    let limit = widest(Function::Silu, degree, (-need.bits).exp2() * scale)?;
    let more = options.widening;
    let widen = |radius: &f64| around_zero(radius.max(below_grid(limit.min(radius * more))));
    Ok((degree, needed.iter().map(widen).collect()))
}

/// An interval around the same centre whose length is not less.
pub(super) fn at_least(interval: &Interval, length: f64) -> Interval {
    let missing = (length - (interval.high - interval.low)).max(0.0) / 2.0;
    Interval { low: interval.low - missing, high: interval.high + missing }
}

/// The intervals of the logarithms of positive values, one for each group. An interval is at least as long as the
/// median over the groups, and at least 0.1. The sums of a head may hardly differ in the calibration text and differ
/// more in another text. Widening its interval to the median costs nothing: half of the other heads need that width.
pub(super) fn logarithms(intervals: &[Interval]) -> Vec<Interval> {
    let all: Vec<Interval> = intervals.iter().map(Interval::logarithms).collect();
    let length = median(all.iter().map(|interval| interval.high - interval.low)).max(0.1);
    all.iter().map(|interval| at_least(interval, length)).collect()
}

/// The upper median; 0 without values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Inverse square roots with relative errors.
pub(super) fn inverse_sqrt(
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
    // Calibration has exact factors. An inner round's factors have errors, which move the sums of the next round by
    // their fourth power.
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
    let degree =
        smallest(need, &needed, options, |degree, ratio| Ok(standard_error(Function::InverseSqrt, degree, ratio)?))?;
    let limit = widest(Function::InverseSqrt, degree, (-need.bits).exp2())?;
    let more = options.widening;
    let widen = |interval: &Interval| {
        let factor = limit.ln() / Function::InverseSqrt.extent(interval).ln();
        widened(&interval.logarithms(), factor.clamp(1.0, more))
    };
    Ok((degree, needed.iter().map(widen).collect()))
}

/// Exponentials; errors relative to their largest value. Widening moves the lower end only: a higher upper end would
/// make all values smaller.
pub(super) fn exponential(
    need: &Need,
    ranges: &[Interval],
    rounds: u8,
    options: &DesignOptions,
) -> Result<Choice, CircuitError> {
    let divisor = f64::from(1u32 << rounds);
    let widened = |range: &Interval| at_least(range, divisor).widened(options.margins.score);
    let needed: Vec<Interval> = ranges.iter().map(widened).collect();
    let length = |interval: &Interval| Function::Exponential.extent(interval);
    let degree = smallest(need, &needed, options, |degree, length| {
        Ok(standard_error(Function::Exponential, degree, length / divisor)?)
    })?;
    let limit = divisor * widest(Function::Exponential, degree, (-need.bits).exp2())?;
    let more = options.widening;
    let lower = |interval: &Interval| {
        let length = length(interval).max(limit.min(length(interval) * more));
        Interval { low: interval.high - length, high: interval.high }
    };
    Ok((degree, needed.iter().map(lower).collect()))
}

/// The smallest degree whose error is small enough, as a function of the degree and the extent of the widest interval.
fn smallest(
    need: &Need,
    intervals: &[Interval],
    options: &DesignOptions,
    error: impl Fn(usize, f64) -> Result<f64, CircuitError>,
) -> Result<usize, CircuitError> {
    let index = need.function.widest(intervals);
    let Interval { low, high } = intervals[index];
    let extent = need.function.extent(&intervals[index]);
    let mut last = (0, 0.0);
    for &degree in &options.degrees {
        let found = -error(degree, extent)?.log2();
        if found >= need.bits {
            return Ok(degree);
        }
        last = (degree, found);
    }
    let (degree, found) = last;
    Err(CircuitError::Imprecise { place: need.result, index, low, high, degree, bits: need.bits, found })
}

/// The next power of `2^(1/8)`: few different intervals need few different polynomials.
fn on_grid(radius: f64) -> f64 {
    ((8.0 * radius.log2()).ceil() / 8.0).exp2()
}

/// The power of `2^(1/8)` before a radius.
fn below_grid(radius: f64) -> f64 {
    ((8.0 * radius.log2()).floor() / 8.0).exp2()
}

/// The radius that each coordinate of a gate has at least: the median over the layer. A coordinate with a small range
/// costs nothing extra with the interval of a median coordinate.
pub(super) fn gate_floor(ranges: &[Interval]) -> f64 {
    median(ranges.iter().map(Interval::largest)).max(1.0)
}
