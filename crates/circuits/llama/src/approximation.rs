//! Polynomials in place of functions.

use std::collections::HashMap;

use ndarray::parallel::prelude::*;
use ndarray::{Array3, Axis};
use unspoken_ckks::{CkksError, Polynomial};

use crate::arithmetic::Function;
use crate::ranges::Interval;
use crate::tensor::Tensor;

/// Values that are evaluated together: one instruction takes several of them.
const LANES: usize = 16;

/// Polynomials of one degree in place of a function: one for each group, or one for each coordinate.
#[derive(Clone, Debug, PartialEq)]
pub struct Approximation {
    function: Function,
    degree: usize,
    intervals: Vec<Interval>,
    /// Chebyshev coefficients of `LANES` polynomials at a time, the lowest degree first. The last block is filled up
    /// with zeros.
    blocks: Vec<Vec<[f64; LANES]>>,
}

/// Arguments outside the intervals of polynomials, which are not right there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Escapes {
    /// Number of arguments.
    pub arguments: u64,
    /// Number of those outside their interval.
    pub escaped: u64,
    /// The largest distance from the centre of the interval, over half its length.
    pub farthest: f64,
}

impl Escapes {
    fn count(&mut self, interval: Interval, value: f64) {
        self.arguments += 1;
        if !interval.contains(value) {
            self.escaped += 1;
            let half = (interval.high - interval.low) / 2.0;
            let distance = ((value - interval.low) / half - 1.0).abs();
            // A value that was computed from an escaped one may be no number.
            self.farthest = self.farthest.max(if distance.is_nan() { f64::INFINITY } else { distance });
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: Escapes) {
        self.arguments += other.arguments;
        self.escaped += other.escaped;
        self.farthest = self.farthest.max(other.farthest);
    }
}

impl Approximation {
    /// Interpolates a function at the Chebyshev nodes of each interval. Exponentials are `exp((x - shift) / 2^rounds)`
    /// with the upper end of the interval as shift.
    ///
    /// # Errors
    /// If an interval is empty or not finite, or the function has no value in it.
    pub(crate) fn new(
        function: Function,
        rounds: u8,
        degree: usize,
        intervals: Vec<Interval>,
    ) -> Result<Self, CkksError> {
        // Coordinates often have the same interval.
        let mut known: HashMap<[u64; 2], Vec<f64>> = HashMap::new();
        let mut coefficients: Vec<Vec<f64>> = Vec::with_capacity(intervals.len());
        for interval in &intervals {
            let bits = [interval.low.to_bits(), interval.high.to_bits()];
            coefficients.push(match known.get(&bits) {
                Some(coefficients) => coefficients.clone(),
                None => known.entry(bits).or_insert(interpolate(function, rounds, degree, *interval)?).clone(),
            });
        }
        let block = |polynomials: &[Vec<f64>]| -> Vec<[f64; LANES]> {
            let lane = |power: usize| std::array::from_fn(|lane| polynomials.get(lane).map_or(0.0, |c| c[power]));
            (0..=degree).map(lane).collect()
        };
        let blocks = coefficients.chunks(lanes(function)).map(block).collect();
        Ok(Approximation { function, degree, intervals, blocks })
    }

    /// The function.
    pub fn function(&self) -> Function {
        self.function
    }

    /// The degree of all polynomials.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The interval of each group or coordinate.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The polynomial of a group or coordinate.
    ///
    /// # Errors
    /// None for an approximation that could be made.
    ///
    /// # Panics
    /// If there is no such group or coordinate.
    pub fn polynomial(&self, index: usize) -> Result<Polynomial, CkksError> {
        let lanes = lanes(self.function);
        let coefficients: Vec<_> = self.blocks[index / lanes].iter().map(|row| row[index % lanes].into()).collect();
        let interval = self.intervals[index];
        Polynomial::chebyshev(&coefficients, interval.low, interval.high)
    }

    /// The square of `T_2n` of an argument this far from the centre of its interval, over half its length, where `n` is
    /// the greatest power of two that is at most the degree. It is at most 1 inside the interval, and grows outside as
    /// fast as the square of the error. The check of an encrypted pass adds it up.
    pub fn check(&self, distance: f64) -> f64 {
        let doubled = 2 << self.degree.max(1).ilog2();
        // Nothing inside is larger than the value at the ends.
        (f64::from(doubled) * distance.max(1.0).acosh()).cosh().powi(2)
    }

    /// Evaluates the polynomials, and counts the arguments outside their intervals. Masked scores give 0.
    pub(crate) fn evaluate(&self, input: &Tensor) -> (Array3<f32>, Escapes) {
        let mut output = input.0.clone();
        let escapes = match self.function {
            Function::Silu => self.coordinates(&mut output),
            Function::InverseSqrt | Function::Exponential => self.groups(&mut output),
        };
        let mut all = Escapes::default();
        escapes.into_iter().for_each(|part| all.merge(part));
        (output, all)
    }

    fn is_masked(&self, value: f32) -> bool {
        self.function == Function::Exponential && value == f32::NEG_INFINITY
    }

    /// Replaces activations, a polynomial for each coordinate.
    fn coordinates(&self, values: &mut Array3<f32>) -> Vec<Escapes> {
        let rows = values.axis_chunks_iter_mut(Axis(1), 8).into_par_iter();
        rows.map(|mut rows| {
            let mut escapes = Escapes::default();
            for (block, (coefficients, intervals)) in self.blocks.iter().zip(self.intervals.chunks(LANES)).enumerate() {
                for mut row in rows.lanes_mut(Axis(2)) {
                    let row = row.as_slice_mut().expect("rows are contiguous");
                    let part = &mut row[block * LANES..(block * LANES + intervals.len())];
                    let mut units = [0.0; LANES];
                    for ((unit, value), interval) in units.iter_mut().zip(part.iter()).zip(intervals) {
                        escapes.count(*interval, f64::from(*value));
                        *unit = unit_of(*interval, *value);
                    }
                    let sums = clenshaw(coefficients, &units);
                    part.iter_mut().zip(sums).for_each(|(value, sum)| *value = sum as f32);
                }
            }
            escapes
        })
        .collect()
    }

    /// Replaces scores or factors, a polynomial for each group.
    fn groups(&self, values: &mut Array3<f32>) -> Vec<Escapes> {
        let groups = values.axis_iter_mut(Axis(0)).into_par_iter().zip(&self.blocks).zip(&self.intervals);
        groups
            .map(|((mut values, coefficients), interval)| {
                let mut escapes = Escapes::default();
                let coefficients: Vec<[f64; LANES]> = coefficients.iter().map(|row| [row[0]; LANES]).collect();
                for part in values.as_slice_mut().expect("groups are contiguous").chunks_mut(LANES) {
                    let mut units = [0.0; LANES];
                    // Masked scores are no arguments.
                    let arguments = units.iter_mut().zip(part.iter()).filter(|(_, value)| !self.is_masked(**value));
                    for (unit, value) in arguments {
                        escapes.count(*interval, f64::from(*value));
                        *unit = unit_of(*interval, *value);
                    }
                    let sums = clenshaw(&coefficients, &units);
                    let results = part.iter_mut().zip(sums);
                    results.for_each(|(value, sum)| {
                        *value = if self.is_masked(*value) { 0.0 } else { sum as f32 };
                    });
                }
                escapes
            })
            .collect()
    }
}

/// Polynomials of a block: SiLU has one for each coordinate, and neighbours are evaluated together.
fn lanes(function: Function) -> usize {
    match function {
        Function::Silu => LANES,
        Function::InverseSqrt | Function::Exponential => 1,
    }
}

impl Function {
    /// What decides how hard an interval is: the ratio of its ends for inverse square roots, else its length.
    pub fn extent(self, interval: &Interval) -> f64 {
        match self {
            Function::InverseSqrt => interval.high / interval.low,
            Function::Exponential | Function::Silu => interval.high - interval.low,
        }
    }

    /// The index of the interval with the largest extent; 0 without intervals.
    pub(crate) fn widest(self, intervals: &[Interval]) -> usize {
        let extent = |index: &usize| self.extent(&intervals[*index]);
        (0..intervals.len()).max_by(|a, b| extent(a).total_cmp(&extent(b))).unwrap_or(0)
    }
}

/// The place of a value in an interval, from -1 to 1.
fn unit_of(interval: Interval, value: f32) -> f64 {
    (2.0 * f64::from(value) - interval.low - interval.high) / (interval.high - interval.low)
}

/// Values of Chebyshev series at several places (Clenshaw's recurrence).
fn clenshaw(coefficients: &[[f64; LANES]], units: &[f64; LANES]) -> [f64; LANES] {
    let (mut b1, mut b2) = ([0.0; LANES], [0.0; LANES]);
    for row in coefficients[1..].iter().rev() {
        for lane in 0..LANES {
            let b = 2.0 * units[lane] * b1[lane] - b2[lane] + row[lane];
            b2[lane] = b1[lane];
            b1[lane] = b;
        }
    }
    std::array::from_fn(|lane| coefficients[0][lane] + units[lane] * b1[lane] - b2[lane])
}

/// Chebyshev coefficients, the lowest degree first.
fn interpolate(function: Function, rounds: u8, degree: usize, interval: Interval) -> Result<Vec<f64>, CkksError> {
    let f = |x: f64| value(function, rounds, interval.high, x);
    let polynomial = Polynomial::chebyshev_approximation(f, interval.low, interval.high, degree)?;
    let mut coefficients: Vec<f64> = polynomial.coefficients().iter().map(|c| c.re).collect();
    coefficients.resize(degree + 1, 0.0);
    Ok(coefficients)
}

/// The function itself; exponentials with a shift.
fn value(function: Function, rounds: u8, shift: f64, x: f64) -> f64 {
    match function {
        Function::InverseSqrt => x.sqrt().recip(),
        Function::Exponential => ((x - shift) / f64::from(1u32 << rounds)).exp(),
        Function::Silu => x / (1.0 + (-x).exp()),
    }
}

/// An interval of a function that is not moved or scaled: its error depends on its extent alone.
///
/// - Inverse square roots are taken on `[1, extent]`, and their errors are relative to the value.
/// - Exponentials are taken on `[-extent, 0]`, divided by `2^k` already; their largest value is 1.
/// - SiLU is taken on `[-extent, extent]`.
fn standard_interval(function: Function, extent: f64) -> Interval {
    match function {
        Function::InverseSqrt => Interval { low: 1.0, high: extent },
        Function::Exponential => Interval { low: -extent, high: 0.0 },
        Function::Silu => Interval { low: -extent, high: extent },
    }
}

/// The largest error of the polynomial of a degree on the standard interval of an extent.
///
/// # Errors
/// If the interval is empty or not finite.
pub(crate) fn standard_error(function: Function, degree: usize, extent: f64) -> Result<f64, CkksError> {
    let interval = standard_interval(function, extent);
    let coefficients = interpolate(function, 0, degree, interval)?;
    let (middle, half) = ((interval.low + interval.high) / 2.0, (interval.high - interval.low) / 2.0);
    let points = 8 * (degree + 1);
    let units: Vec<f64> = (0..=points).map(|k| (std::f64::consts::PI * k as f64 / points as f64).cos()).collect();
    let coefficients: Vec<[f64; LANES]> = coefficients.iter().map(|c| [*c; LANES]).collect();
    let mut largest = 0.0f64;
    for part in units.chunks(LANES) {
        let mut batch = [0.0; LANES];
        batch[..part.len()].copy_from_slice(part);
        for (unit, sum) in part.iter().zip(clenshaw(&coefficients, &batch)) {
            let exact = value(function, 0, interval.high, (middle + half * unit).max(interval.low));
            let error = (sum - exact).abs();
            largest = largest.max(if function == Function::InverseSqrt { error / exact } else { error });
        }
    }
    Ok(largest)
}

/// The largest extent whose error is at most `error`.
///
/// # Errors
/// If even the smallest extent cannot be interpolated.
pub(crate) fn widest(function: Function, degree: usize, error: f64) -> Result<f64, CkksError> {
    let (mut low, mut high) = (1.0f64 + 1e-6, 1e9f64);
    while high / low > 1.0005 {
        let middle = (low * high).sqrt();
        if standard_error(function, degree, middle)? <= error { low = middle } else { high = middle }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use ndarray::Array3;

    use super::*;

    #[test]
    fn errors_are_those_of_the_literature_and_fall_with_the_degree() {
        // Interpolants are up to a bit worse than the best polynomials: -9.9, -18.9, -36.5 for 1/sqrt on [1, 30].
        for (function, extent, degree, bits) in [
            (Function::InverseSqrt, 30.0, 15, 9.3),
            (Function::InverseSqrt, 30.0, 31, 18.2),
            (Function::InverseSqrt, 100.0, 63, 19.8),
            (Function::InverseSqrt, 900.0, 127, 13.3),
            (Function::Silu, 8.0, 31, 15.5),
            (Function::Silu, 16.0, 63, 16.0),
            (Function::Exponential, 12.0, 15, 25.0),
        ] {
            let found = -standard_error(function, degree, extent).unwrap().log2();
            assert!((found - bits).abs() < 0.9, "{function:?} {extent} {degree}: {found}");
        }
        for function in [Function::InverseSqrt, Function::Exponential, Function::Silu] {
            let extents: Vec<f64> = [15, 31, 63].map(|degree| widest(function, degree, 1e-4).unwrap()).to_vec();
            assert!(extents.windows(2).all(|pair| pair[0] < pair[1]), "{function:?} {extents:?}");
            assert!(standard_error(function, 31, extents[1]).unwrap() <= 1e-4);
            assert!(standard_error(function, 31, extents[1] * 1.01).unwrap() > 1e-4);
        }
    }

    #[test]
    fn polynomials_of_coordinates_and_groups_are_near_the_function_inside_and_count_escapes() {
        let intervals = (0..20).map(|i| Interval { low: -2.0 - f64::from(i), high: 3.0 }).collect::<Vec<_>>();
        let silu = Approximation::new(Function::Silu, 2, 63, intervals.clone()).unwrap();
        let input = Tensor(Array3::from_shape_fn((1, 9, 20), |(_, row, i)| -1.0 - i as f32 + row as f32 / 4.0));
        let (output, escapes) = silu.evaluate(&input);
        assert_eq!((escapes.arguments, escapes.escaped), (180, 0));
        for (x, y) in input.0.iter().zip(&output) {
            assert!((x / (1.0 + (-x).exp()) - y).abs() < 1e-4, "{x} {y}");
        }
        let at = silu.polynomial(17).unwrap().at(unspoken_ckks::Complex64::from(-3.0));
        assert!((at.re - -3.0 / (1.0 + 3.0f64.exp())).abs() < 1e-4);

        let intervals = vec![Interval { low: -30.0, high: 2.0 }, Interval { low: -10.0, high: 8.0 }];
        let exponential = Approximation::new(Function::Exponential, 2, 15, intervals).unwrap();
        let mut scores = Array3::from_shape_fn((2, 2, 17), |(head, row, key)| (head + row) as f32 - key as f32 / 2.0);
        scores[(0, 0, 16)] = f32::NEG_INFINITY;
        scores[(1, 1, 0)] = 17.0;
        let (output, escapes) = exponential.evaluate(&Tensor(scores.clone()));
        assert_eq!((escapes.arguments, escapes.escaped, escapes.farthest), (67, 1, 2.0));
        assert_eq!(output[(0, 0, 16)], 0.0);
        assert!((output[(0, 1, 3)] - ((scores[(0, 1, 3)] - 2.0) / 4.0).exp()).abs() < 1e-5);
        assert!((output[(1, 0, 16)] - ((scores[(1, 0, 16)] - 8.0) / 4.0).exp()).abs() < 1e-5);

        // What is no number stays none, and counts.
        let interval = Interval { low: 1.0, high: 4.0 };
        let inverse = Approximation::new(Function::InverseSqrt, 2, 15, vec![interval]).unwrap();
        let sums = Array3::from_shape_vec((1, 3, 1), vec![f32::NAN, f32::INFINITY, 2.0]).unwrap();
        let (output, escapes) = inverse.evaluate(&Tensor(sums));
        assert_eq!((escapes.arguments, escapes.escaped, escapes.farthest), (3, 2, f64::INFINITY));
        assert!(output[(0, 0, 0)].is_nan() && !output[(0, 1, 0)].is_finite() && output[(0, 2, 0)].is_finite());
    }
}
