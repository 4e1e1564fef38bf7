//! The smallest value of a polynomial on the real line, and its values on the interval.

use std::f64::consts::PI;

use crate::number::clenshaw;

/// Points of the grid per degree inside the interval, and points on each side outside.
const INSIDE: usize = 8;
const OUTSIDE: usize = 1000;

/// Steps of the golden-section search in a valley of the grid.
const GOLDEN_STEPS: usize = 40;

/// Largest logarithm of a value that is still computed.
const LOG_LARGEST: f64 = 600.0;

/// What the next level needs of a polynomial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The smallest value on the real line.
    pub(crate) least: f64,
    /// The largest value on the interval.
    pub(crate) largest: f64,
    /// The largest absolute value on the interval.
    pub(crate) size: f64,
}

/// The range of the series `sum_k c_k T_k` of even degree. None if it is not bounded below, or falls too far outside
/// the interval to be computed.
pub(crate) fn range(chebyshev: &[f64]) -> Option<Range> {
    let degree = chebyshev.len() - 1;
    let (last, others) = chebyshev.split_last()?;
    if *last <= 0.0 || !degree.is_multiple_of(2) {
        return None;
    }
    // Beyond x = cosh t the last term exceeds all others: T_k / T_n < 2 e^(-(n-k) t).
    let dominated = |t: f64| {
        let terms = others.iter().enumerate().map(|(k, c)| c.abs() * (-((degree - k) as f64) * t).exp());
        2.0 * terms.sum::<f64>() < *last
    };
    let end = (1..).map(|i| f64::from(i) * 0.5 / degree as f64).find(|&t| dominated(t))?;
    let total: f64 = chebyshev.iter().map(|c| c.abs()).sum();
    if degree as f64 * end + total.ln() > LOG_LARGEST {
        return None;
    }
    let count = (INSIDE * degree).max(64);
    let inside = |a: f64| clenshaw(chebyshev, a.cos());
    let angles: Vec<f64> = (0..=count).map(|i| PI * i as f64 / count as f64).collect();
    let values: Vec<f64> = angles.iter().map(|&a| inside(a)).collect();
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let size = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    let mut least = valley(inside, &angles, &values);
    for side in [1.0, -1.0] {
        let outside = |t: f64| clenshaw(chebyshev, side * t.cosh());
        let places: Vec<f64> = (0..=OUTSIDE).map(|i| end * i as f64 / OUTSIDE as f64).collect();
        let values: Vec<f64> = places.iter().map(|&t| outside(t)).collect();
        least = least.min(valley(outside, &places, &values));
    }
    Some(Range { least, largest, size })
}

/// The smallest value of `f`, from its values at these places, refined around every local minimum.
fn valley(f: impl Fn(f64) -> f64, places: &[f64], values: &[f64]) -> f64 {
    let mut least = values.iter().copied().fold(f64::INFINITY, f64::min);
    for i in 1..places.len().saturating_sub(1) {
        if values[i] <= values[i - 1] && values[i] <= values[i + 1] {
            least = least.min(golden(&f, places[i - 1], places[i + 1]));
        }
    }
    least
}

/// The smallest value of `f` between `a` and `b`, by golden-section search.
fn golden(f: impl Fn(f64) -> f64, mut a: f64, mut b: f64) -> f64 {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (b - ratio * (b - a), a + ratio * (b - a));
    let (mut at_left, mut at_right) = (f(left), f(right));
    for _ in 0..GOLDEN_STEPS {
        if at_left < at_right {
            (b, right, at_right) = (right, left, at_left);
            left = b - ratio * (b - a);
            at_left = f(left);
        } else {
            (a, left, at_left) = (left, right, at_right);
            right = a + ratio * (b - a);
            at_right = f(right);
        }
    }
    at_left.min(at_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valleys_are_found_inside_and_outside() {
        // T_2 = 2x^2 - 1; T_4 + 3 T_3 has its minimum outside the interval.
        assert!((range(&[0.0, 0.0, 1.0]).unwrap().least + 1.0).abs() < 1e-12);
        let found = range(&[0.0, 0.0, 0.0, 3.0, 1.0]).unwrap();
        let f = |x: f64| 8.0 * x.powi(4) + 12.0 * x.powi(3) - 8.0 * x * x - 9.0 * x + 1.0;
        let grid = (0..400_000).map(|i| f(-3.0 + f64::from(i) * 1e-5)).fold(f64::INFINITY, f64::min);
        assert!((found.least - grid).abs() < 1e-8, "{} {grid}", found.least);
        assert!(found.least < -4.0 && (found.largest - 4.0).abs() < 1e-12 && (found.size - 4.0).abs() < 1e-9);
        assert!(range(&[1.0, 0.0, -1.0]).is_none() && range(&[1.0, 1.0]).is_none());
    }
}
