//! Polynomials on [-1, 1] that are near a function.

use std::f64::consts::PI;

use nalgebra::{Cholesky, DMatrix, DVector};
use unspoken_ckks::{Complex64, Polynomial};

use crate::error::NetworkError;
use crate::ranges::BINS;

const OPERATION: &str = "approximate a function";

/// Part of the weight of a least-squares fit that is spread over the interval as the Chebyshev nodes are. So the
/// polynomial stays near the function where there are no calibration values, and the system is well-conditioned: its
/// condition number is below twice the inverse.
const SPREAD: f64 = 0.1;

/// Points per degree at which errors of smooth functions are measured.
const POINTS: usize = 8;

/// Points at which errors of functions with kinks are measured: they are largest at the kinks, where they change fast.
const KINK_POINTS: usize = 8192;

/// What a polynomial is fitted to.
pub(crate) enum Target<'a> {
    /// The smallest error at all points: interpolation at Chebyshev nodes.
    Smooth,
    /// The smallest mean square error for values distributed like this histogram, stretched by a factor of at most 1.
    Kink { histogram: &'a [f64], stretch: f64 },
}

/// A polynomial on [-1, 1] and its errors, in units of the function.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) polynomial: Polynomial,
    /// The largest error on the interval.
    pub(crate) largest: f64,
    /// The root of the mean square error: for values distributed as the target says, else over the interval.
    pub(crate) rms: f64,
}

impl Target<'_> {
    /// The polynomial of a degree for `f` on [-1, 1].
    ///
    /// # Errors
    /// If `f` is not finite on the interval.
    pub(crate) fn fit(&self, f: impl Fn(f64) -> f64, degree: usize) -> Result<Fit, NetworkError> {
        let points = match self {
            Target::Smooth => POINTS * (degree + 1),
            Target::Kink { .. } => KINK_POINTS,
        };
        let nodes: Vec<f64> = (0..=points).map(|k| (PI * k as f64 / points as f64).cos()).collect();
        if let Some(x) = nodes.iter().find(|x| !f(**x).is_finite()) {
            let found = format!("the value {} at {x} of its interval", f(*x));
            return Err(NetworkError::mismatch(OPERATION, found, "finite values; use a smaller range or margin"));
        }
        let (polynomial, weights) = match self {
            Target::Smooth => (Polynomial::chebyshev_approximation(&f, -1.0, 1.0, degree)?, Vec::new()),
            Target::Kink { histogram, stretch } => {
                let weights = weights(histogram, *stretch);
                (least_squares(&f, &weights, degree)?, weights)
            }
        };
        let error = |x: f64| (polynomial.at(Complex64::from(x)).re - f(x)).abs();
        let largest = nodes.iter().map(|&x| error(x)).fold(0.0, f64::max);
        let mean = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
            let (sum, all) = pairs.fold((0.0, 0.0), |(sum, all), (x, w)| (sum + w * error(x).powi(2), all + w));
            (sum / f64::max(all, f64::MIN_POSITIVE)).sqrt()
        };
        let rms = match weights.as_slice() {
            [] => mean(&mut nodes.iter().map(|&x| (x, 1.0))),
            weights => mean(&mut weights.iter().copied()),
        };
        Ok(Fit { polynomial, largest, rms })
    }
}

/// Points and their weights, which add up to 1: the histogram, and the distribution of Chebyshev nodes.
fn weights(histogram: &[f64], stretch: f64) -> Vec<(f64, f64)> {
    let total: f64 = histogram.iter().sum();
    let (counted, spread) = if total > 0.0 { ((1.0 - SPREAD) / total, SPREAD) } else { (0.0, 1.0) };
    let centre = |bin: usize| ((bin as f64 + 0.5) / BINS as f64 * 2.0 - 1.0) * stretch;
    let node = |k: usize| ((PI * (k as f64 + 0.5) / BINS as f64).cos(), spread / BINS as f64);
    let counted = histogram.iter().enumerate().filter(|(_, count)| **count > 0.0).map(|(bin, count)| {
        // Next to a kink, the middle of a bin stands for its values well enough.
        (centre(bin), count * counted)
    });
    counted.chain((0..BINS).map(node)).collect()
}

/// The polynomial with the least weighted square error, by the normal equations in the Chebyshev basis.
///
/// Terms of degree two or more are even if that is as good as other terms: for functions whose odd part is linear, such
/// as ReLU. Then an evaluation needs fewer products.
fn least_squares(f: &impl Fn(f64) -> f64, weights: &[(f64, f64)], degree: usize) -> Result<Polynomial, NetworkError> {
    let slope = (f(1.0) - f(-1.0)) / 2.0;
    let is_linear = |x: f64| ((f(x) - f(-x)) / 2.0 - slope * x).abs() < 1e-12 * (1.0 + slope.abs());
    let odd_is_linear = (0..=64).all(|k| is_linear(k as f64 / 64.0));
    let terms: Vec<usize> = (0..=degree).filter(|&k| !odd_is_linear || k % 2 == 0).collect();
    let rest = |x: f64| f(x) - if odd_is_linear { slope * x } else { 0.0 };
    let count = terms.len();
    let (mut matrix, mut right) = (DMatrix::<f64>::zeros(count, count), DVector::<f64>::zeros(count));
    for &(x, weight) in weights {
        let angle = x.clamp(-1.0, 1.0).acos();
        let values: Vec<f64> = terms.iter().map(|&k| (k as f64 * angle).cos()).collect();
        for (i, value) in values.iter().enumerate() {
            right[i] += weight * value * rest(x);
            // Cholesky's method reads the lower half.
            values.iter().enumerate().skip(i).for_each(|(row, other)| matrix[(row, i)] += weight * value * other);
        }
    }
    let needed = "distinct points: a smaller degree";
    let factors = Cholesky::new(matrix)
        .ok_or_else(|| NetworkError::mismatch(OPERATION, format!("a singular system of degree {degree}"), needed))?;
    let solved = factors.solve(&right);
    let mut coefficients = vec![Complex64::default(); degree + 1];
    terms.iter().zip(&solved).for_each(|(&k, value)| coefficients[k] = (*value).into());
    if odd_is_linear && degree > 0 {
        coefficients[1] += slope;
    }
    Ok(Polynomial::chebyshev(&coefficients, -1.0, 1.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;

    #[test]
    fn errors_fall_with_the_degree_and_are_least_where_values_are() {
        // Values near 0, as before a ReLU.
        let near: Vec<f64> = (0..BINS).map(|bin| (-((bin as f64 - 256.0) / 80.0).powi(2)).exp()).collect();
        let relu = |x: f64| Function::Relu.value(x);
        let mut last = f64::INFINITY;
        for degree in [3, 7, 15, 31, 63] {
            let fit = Target::Kink { histogram: &near, stretch: 1.0 }.fit(relu, degree).unwrap();
            let other = Target::Smooth.fit(relu, degree).unwrap();
            let near_rms = |polynomial: &Polynomial| {
                let error = |x: f64| (polynomial.at(x.into()).re - relu(x)).powi(2);
                weights(&near, 1.0).iter().map(|(x, w)| w * error(*x)).sum::<f64>().sqrt()
            };
            assert!((fit.rms - near_rms(&fit.polynomial)).abs() < 1e-12 && fit.rms < near_rms(&other.polynomial));
            assert!(fit.rms < 0.7 * last && fit.largest < 0.13, "{degree}: {fit:?}");
            last = fit.rms;
            let odd = fit.polynomial.coefficients().iter().skip(3).step_by(2);
            assert!(odd.into_iter().all(|c| c.re == 0.0) && fit.polynomial.degree() < degree);
        }
        assert!(last < 2e-3, "{last}");
    }

    #[test]
    fn polynomials_are_found_exactly_and_poles_are_refused() {
        let cubic = |x: f64| 1.0 - 2.0 * x + 3.0 * x * x * x;
        let found = Target::Kink { histogram: &[0.0; BINS], stretch: 1.0 }.fit(cubic, 7).unwrap();
        assert!(found.largest < 1e-12, "{found:?}");
        assert!(Target::Smooth.fit(f64::ln, 3).is_err());
    }
}
