//! Roots of polynomials that are positive on the real line.
//!
//! The method is Aberth's ("Iteration methods for finding all zeros of a polynomial simultaneously", Mathematics of
//! Computation 1973) and Ehrlich's, first in `f64` on the Chebyshev series, which is well conditioned near the
//! interval, then on the monomial coefficients in many bits.

use std::f64::consts::PI;

use unspoken_ckks::Complex64;

use crate::number::{Complex, Real, clenshaw, derivative, horner};

/// Iterations in `f64`, and in many bits. Each iteration in many bits at least doubles the correct bits.
const STEPS: usize = 400;
const PRECISE_STEPS: usize = 60;

/// Relative size of a step in `f64` that ends the iteration.
const COARSE: f64 = 1e-12;

/// Relative size of a step in many bits that ends the iteration.
const FINE: f64 = 1e-36;

/// Smallest distance to the real line, relative to the absolute value: a closer root may be real.
const REAL_LINE: f64 = 1e-9;

/// The roots in the upper half-plane of a polynomial of even degree that has no real root. `chebyshev` and `monomial`
/// are its coefficients. None if the iteration does not converge, or finds a root too close to the real line.
pub(crate) fn upper_roots(chebyshev: &[f64], monomial: &[Real], precision: usize) -> Option<Vec<Complex>> {
    let coarse = coarse_roots(chebyshev);
    let mut roots: Vec<Complex> = coarse.iter().map(|z| Complex::new(*z, precision)).collect();
    let mut near = coarse;
    for _ in 0..PRECISE_STEPS {
        let mut largest = 0.0f64;
        for i in 0..roots.len() {
            let (value, slope) = horner(monomial, &roots[i]);
            let repulsion = Complex::new(repulsion(&near, i), precision);
            // The step of Aberth and Ehrlich, with one division: p / (p' - p r).
            let divisor = &slope - &(&value * &repulsion);
            if divisor.nearest() == Complex64::default() {
                return None;
            }
            let step = value.over(&divisor);
            let mut root = &roots[i] - &step;
            if root.im < Real::ZERO {
                root = root.conjugate();
            }
            near[i] = root.nearest();
            if !near[i].is_finite() {
                return None;
            }
            roots[i] = root;
            largest = largest.max(step.nearest().norm() / near[i].norm().max(1.0));
        }
        if largest < FINE {
            let apart = near.iter().all(|z| z.im > REAL_LINE * z.norm().max(1.0));
            return apart.then_some(roots);
        }
    }
    None
}

/// The sum of `1 / (z_i - z)` over all other points and all conjugates.
fn repulsion(points: &[Complex64], i: usize) -> Complex64 {
    let z = points[i];
    let others = points.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, w)| (z - w).inv());
    others.sum::<Complex64>() + points.iter().map(|w| (z - w.conj()).inv()).sum::<Complex64>()
}

/// Approximate roots in the upper half-plane.
pub(crate) fn coarse_roots(chebyshev: &[f64]) -> Vec<Complex64> {
    let count = (chebyshev.len() - 1) / 2;
    let slope = derivative(chebyshev);
    let mut points = starting_points(chebyshev, count);
    for _ in 0..STEPS {
        let mut largest = 0.0f64;
        for i in 0..count {
            let z = points[i];
            let ratio = clenshaw(chebyshev, z) / clenshaw(&slope, z);
            let mut step = ratio / (1.0 - ratio * repulsion(&points, i));
            if !step.is_finite() {
                step = Complex64::new(0.0, 1e-3 * z.norm());
            }
            let moved = z - step;
            points[i] = Complex64::new(moved.re, moved.im.abs().max(1e-12));
            largest = largest.max(step.norm() / points[i].norm().max(1.0));
        }
        if largest < COARSE {
            break;
        }
    }
    points
}

/// Points on the ellipse around `[-1, 1]` on which the last coefficient is as large as all others together. Roots of
/// truncated Chebyshev series lie close to such an ellipse.
fn starting_points(chebyshev: &[f64], count: usize) -> Vec<Complex64> {
    let largest = chebyshev.iter().fold(0.0f64, |most, c| most.max(c.abs()));
    let last = chebyshev[chebyshev.len() - 1].abs();
    let radius = (largest / last).powf(0.5 / count as f64).clamp(1.02, 1e6);
    let angle = |j: usize| PI * (j as f64 + 0.5) / count as f64;
    (0..count).map(|j| Complex64::from_polar(radius, angle(j))).map(|w| (w + w.inv()) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{chebyshev, real};

    const PRECISION: usize = 320;

    #[test]
    fn roots_of_cyclotomic_and_even_polynomials() {
        // x^16 + 1 and (x^2 + 1)(x^2 + 4).
        let mut sixteenth = [0.0; 17];
        (sixteenth[0], sixteenth[16]) = (1.0, 1.0);
        for coefficients in [&sixteenth[..], &[4.0, 0.0, 5.0, 0.0, 1.0]] {
            let monomial: Vec<Real> = coefficients.iter().map(|c| real(*c, PRECISION)).collect();
            let roots = upper_roots(&chebyshev(&monomial, PRECISION), &monomial, PRECISION).unwrap();
            assert_eq!(2 * roots.len(), coefficients.len() - 1);
            for (i, root) in roots.iter().enumerate() {
                let (value, slope) = horner(&monomial, root);
                assert!(root.im > Real::ZERO && value.over(&slope).nearest().norm() < 1e-40);
                let apart = |other: &Complex| (root.nearest() - other.nearest()).norm() > 1e-3;
                assert!(roots[..i].iter().all(apart));
            }
        }
    }

    #[test]
    fn polynomials_with_real_roots_have_no_upper_roots() {
        // x^4 - 1, and (x^2 - 1)^2 with double real roots.
        for coefficients in [[-1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, -2.0, 0.0, 1.0]] {
            let monomial: Vec<Real> = coefficients.iter().map(|c| real(*c, PRECISION)).collect();
            assert!(upper_roots(&chebyshev(&monomial, PRECISION), &monomial, PRECISION).is_none());
        }
    }
}
