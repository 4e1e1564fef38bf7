//! Modular reduction: maps `x = I + t`, with `I` a small integer, to a function of `t` modulo 1.
//!
//! The sine is `cos(2 pi (x - 1/4))`: a polynomial approximates the cosine on an interval shortened by a power of two,
//! and `cos 2a = 2 cos^2 a - 1` doubles the angle back (Han and Ki, "Better bootstrapping for approximate homomorphic
//! encryption", CT-RSA 2020). The cosine is even, so its polynomial has half the degree in `2 u^2 - 1`. The exponential
//! `exp(2 pi i x)` is a complex polynomial on the shortened interval, followed by squarings (lookup paper, appendix
//! A.4).

use std::f64::consts::PI;

use num_complex::Complex64;

use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::parameters::BootstrapLiteral;
use crate::polynomial::Polynomial;
use crate::polynomial::evaluate::{evaluate_slots, evaluate_to_scale};
use crate::polynomial::slots::SlotPolynomials;

/// The polynomials of the reduction, for arguments `u = x / bound` in `[-1, 1]`.
#[derive(Clone, Debug)]
pub(super) struct EvalMod {
    bound: f64,
    cosine: Polynomial,
    exponential: Polynomial,
    sine_error: f64,
    doublings: usize,
}

/// The error of the polynomial that a reduction may have, over the error of the sine as an approximation of it.
const TOLERANCE: f64 = 0.25;

/// Number of points between neighbouring integers at which the error of the sine is evaluated.
const SAMPLES: i32 = 64;

impl EvalMod {
    /// The reduction for `|x| <= bound - 1/4` (sine) or `|x| <= bound` (exponential).
    pub(super) fn new(bound: f64, literal: &BootstrapLiteral) -> Result<Self, CkksError> {
        let BootstrapLiteral { eval_mod_levels, doublings, message_ratio_bits, .. } = *literal;
        // One level maps `u` to `2 u^2 - 1`.
        let levels = eval_mod_levels - doublings - 1;
        let x = 2.0 * PI * (-message_ratio_bits).exp2();
        let tolerance = TOLERANCE * (x - x.sin());
        let (cosine, sine_error) = cosine(bound, doublings, levels, tolerance)?;
        let exponential = exponential(bound, doublings, (1 << (levels + 1)) - 1)?;
        for depth in [1 + cosine.depth() + doublings, exponential.depth() + doublings] {
            if depth != eval_mod_levels {
                let needed =
                    format!("{eval_mod_levels}; the polynomial needs fewer: take fewer levels, or more doublings");
                return Err(CkksError::Shape { operation: "plan a modular reduction", found: depth, needed });
            }
        }
        Ok(EvalMod { bound, cosine, exponential, sine_error, doublings })
    }

    /// The largest error of the computed sine, measured at many points of the interval.
    pub(super) fn sine_error(&self) -> f64 {
        self.sine_error
    }

    /// The divisor of `x`: `u = x / bound`.
    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    /// `sin(2 pi x)` of every slot `u = x / bound`, at scale `scale`, all levels of the reduction down.
    pub(super) fn sine<A: Arithmetic>(&self, a: &A, u: &A::Vector, scale: f64) -> Result<A::Vector, CkksError> {
        let shifted = a.add_constant(u, Complex64::from(-0.25 / self.bound))?;
        let v = double_angle(a, &shifted)?;
        self.doubled(a, &v, &self.cosine, scale, double_angle)
    }

    /// As [`EvalMod::sine`], for slots that hold `parts` real parts, then `parts` imaginary parts, and so on: the sines
    /// of the imaginary parts are multiplied by `i`, at no level. The polynomial and every doubling compute their
    /// result times a power of that factor: `2 (v y)^2 - v^2 = v^2 (2 y^2 - 1)`.
    pub(super) fn sine_of_parts<A: Arithmetic>(
        &self,
        a: &A,
        u: &A::Vector,
        (parts, scale): (usize, f64),
    ) -> Result<A::Vector, CkksError> {
        let shifted = a.add_constant(u, Complex64::from(-0.25 / self.bound))?;
        let v = double_angle(a, &shifted)?;
        let factors = |doublings: usize| -> Vec<Complex64> {
            let turn = Complex64::cis(PI / 2.0 / f64::from(1 << doublings));
            [vec![Complex64::from(1.0); parts], vec![turn; parts]].concat()
        };
        let start = self.starting_scale(a, a.level(&v), &self.cosine, scale)?;
        let first = evaluate_slots(a, &v, &SlotPolynomials::weighted(&self.cosine, &factors(self.doublings))?, start)?;
        (0..self.doublings).rev().try_fold(first, |y, doublings| {
            let minus: Vec<Complex64> = factors(doublings).iter().map(|factor| -factor).collect();
            let square = a.tensor(&y, &y)?;
            a.relinearise_rescale(&a.add_values(&a.add(&square, &square)?, &minus)?)
        })
    }

    /// `exp(2 pi i x)` of every slot `u = x / bound`, at scale `scale`, all levels of the reduction down.
    pub(super) fn exponential<A: Arithmetic>(&self, a: &A, u: &A::Vector, scale: f64) -> Result<A::Vector, CkksError> {
        self.doubled(a, u, &self.exponential, scale, |a, y| a.multiply(y, y))
    }

    /// Evaluates the polynomial, then the doublings.
    fn doubled<A: Arithmetic>(
        &self,
        a: &A,
        u: &A::Vector,
        polynomial: &Polynomial,
        scale: f64,
        double: impl Fn(&A, &A::Vector) -> Result<A::Vector, CkksError>,
    ) -> Result<A::Vector, CkksError> {
        let start = self.starting_scale(a, a.level(u), polynomial, scale)?;
        let first = evaluate_to_scale(a, u, polynomial, start)?;
        (0..self.doublings).try_fold(first, |y, _| double(a, &y))
    }

    /// The scale of the polynomial of an argument at `level` that gives the result of the doublings scale `scale`.
    fn starting_scale<A: Arithmetic>(
        &self,
        a: &A,
        level: usize,
        polynomial: &Polynomial,
        scale: f64,
    ) -> Result<f64, CkksError> {
        let needed = polynomial.depth() + self.doublings;
        let Some(last) = level.checked_sub(needed) else {
            return Err(CkksError::Level { operation: "reduce modulo 1", found: level, needed });
        };
        let before = |scale: f64, level: usize| (scale * a.parameters().level_modulus(level)).sqrt();
        Ok((last + 1..=last + self.doublings).fold(scale, before))
    }
}

/// The cosine of the angle before the doublings as a polynomial in `2 u^2 - 1` that uses `levels`, and the largest
/// error of the sine. Its degree is the smallest for which the error is within the tolerance, or the largest.
fn cosine(bound: f64, doublings: usize, levels: usize, tolerance: f64) -> Result<(Polynomial, f64), CkksError> {
    let angle = largest_angle(bound, doublings);
    let of_degree = |degree: usize| {
        let cosine = |v: f64| (angle * ((v + 1.0) / 2.0).sqrt()).cos();
        let cosine = Polynomial::chebyshev_approximation(cosine, -1.0, 1.0, degree)?;
        let last = ((bound - 0.25) * f64::from(SAMPLES)) as i32;
        let error = |step: i32| {
            let x = f64::from(step) / f64::from(SAMPLES);
            (sine_by(&cosine, (bound, doublings), x) - (2.0 * PI * x).sin()).abs()
        };
        let error = (-last..=last).map(error).fold(0.0, f64::max);
        Ok::<_, CkksError>((cosine, error))
    };
    let mut found = of_degree((1 << levels) - 1)?;
    for degree in (1 << (levels - 1)..(1 << levels) - 1).rev() {
        let smaller = of_degree(degree)?;
        if smaller.1 > tolerance {
            break;
        }
        found = smaller;
    }
    Ok(found)
}

/// The exponential before the doublings as a polynomial in `u`.
fn exponential(bound: f64, doublings: usize, degree: usize) -> Result<Polynomial, CkksError> {
    let angle = largest_angle(bound, doublings);
    let part = |f: fn(f64) -> f64| Polynomial::chebyshev_approximation(|u| f(angle * u), -1.0, 1.0, degree);
    let (real, imaginary) = (part(f64::cos)?, part(f64::sin)?);
    let at = |p: &Polynomial, k: usize| p.coefficients().get(k).copied().unwrap_or_default();
    let coefficients: Vec<Complex64> =
        (0..=degree).map(|k| at(&real, k) + at(&imaginary, k) * Complex64::i()).collect();
    Polynomial::chebyshev(&coefficients, -1.0, 1.0)
}

/// The angle of `u = 1` before the doublings.
fn largest_angle(bound: f64, doublings: usize) -> f64 {
    2.0 * PI * bound / f64::from(1 << doublings)
}

/// Computes the sine in the clear in the same way as [`EvalMod::sine`].
fn sine_by(cosine: &Polynomial, (bound, doublings): (f64, usize), x: f64) -> f64 {
    let u = (x - 0.25) / bound;
    let first = cosine.at(Complex64::from(2.0 * u * u - 1.0)).re;
    (0..doublings).fold(first, |y, _| 2.0 * y * y - 1.0)
}

/// `2 y^2 - 1`.
fn double_angle<A: Arithmetic>(a: &A, y: &A::Vector) -> Result<A::Vector, CkksError> {
    let square = a.tensor(y, y)?;
    a.relinearise_rescale(&a.plus_constant(a.add(&square, &square)?, Complex64::from(-1.0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: f64 = 13.5;

    fn literal(eval_mod_levels: usize, doublings: usize, message_ratio_bits: f64) -> BootstrapLiteral {
        let factors = 3;
        BootstrapLiteral {
            slots_to_coeffs: factors,
            coeffs_to_slots: factors,
            raised_stages: factors,
            message_ratio_bits,
            eval_mod_levels,
            doublings,
        }
    }

    #[test]
    fn polynomials_and_doublings_give_the_functions_and_fit_their_levels() {
        // Levels, doublings, and bits of the errors of the sine and the exponential.
        for (levels, doublings, sine_bits, exponential_bits) in [(8, 3, 34, 35), (7, 1, 21, 20), (7, 0, 40, 40)] {
            let reduction = EvalMod::new(BOUND, &literal(levels, doublings, 20.0)).unwrap();
            assert_eq!(1 + reduction.cosine.depth() + doublings, levels);
            assert_eq!(reduction.exponential.depth() + doublings, levels);
            let mut exponential_error = 0f64;
            for step in -2000..=2000 {
                let x = f64::from(step) / 2000.0 * BOUND;
                let power = (0..doublings).fold(reduction.exponential.at(Complex64::from(x / BOUND)), |y, _| y * y);
                exponential_error = exponential_error.max((power - Complex64::cis(2.0 * PI * x)).norm());
            }
            let bits = [reduction.sine_error(), exponential_error].map(|error| -error.log2());
            assert!((0.0..4.0).contains(&(bits[0] - f64::from(sine_bits))), "{levels}, {doublings}: {bits:?}");
            assert!((-1.0..4.0).contains(&(bits[1] - f64::from(exponential_bits))), "{levels}, {doublings}: {bits:?}");
        }
    }

    #[test]
    fn levels_that_a_polynomial_does_not_use_are_refused() {
        let error = EvalMod::new(BOUND, &literal(11, 5, 20.0)).unwrap_err();
        assert!(error.to_string().contains("take fewer levels"), "{error}");
    }

    #[test]
    fn the_degree_is_as_small_as_the_ratio_allows() {
        let degree = |ratio: f64| EvalMod::new(BOUND, &literal(7, 0, ratio)).unwrap().cosine.degree();
        assert!(degree(8.0) < degree(10.0) && degree(10.0) < degree(12.0), "{} {}", degree(8.0), degree(10.0));
        let reduction = EvalMod::new(BOUND, &literal(7, 0, 8.0)).unwrap();
        let x = 2.0 * PI / 256.0;
        assert!(reduction.sine_error() <= TOLERANCE * (x - x.sin()));
    }
}
