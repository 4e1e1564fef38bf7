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
use crate::parameters::DOUBLINGS;
use crate::polynomial::{Polynomial, evaluate_to_scale, evaluate_weighted};

/// Degree of the cosine polynomial in `2 u^2 - 1`, and of the exponential polynomial in `u`.
const COSINE_DEGREE: usize = 15;
const EXPONENTIAL_DEGREE: usize = 31;

/// The polynomials of the reduction, for arguments `u = x / bound` in `[-1, 1]`.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    bound: f64,
    cosine: Polynomial,
    exponential: Polynomial,
    sine_error: f64,
}

/// Number of points between neighbouring integers at which the error of the sine is evaluated.
const SAMPLES: i32 = 64;

impl Reduction {
    /// The reduction for `|x| <= bound - 1/4` (sine) or `|x| <= bound` (exponential).
    pub(super) fn new(bound: f64) -> Result<Self, CkksError> {
        let angle = 2.0 * PI * bound / f64::from(1 << DOUBLINGS);
        let cosine = |v: f64| (angle * ((v + 1.0) / 2.0).sqrt()).cos();
        let part =
            |f: fn(f64) -> f64| Polynomial::chebyshev_approximation(|u| f(angle * u), -1.0, 1.0, EXPONENTIAL_DEGREE);
        let (real, imaginary) = (part(f64::cos)?, part(f64::sin)?);
        let at = |p: &Polynomial, k: usize| p.coefficients().get(k).copied().unwrap_or_default();
        let coefficients: Vec<Complex64> =
            (0..=EXPONENTIAL_DEGREE).map(|k| at(&real, k) + at(&imaginary, k) * Complex64::i()).collect();
        let cosine = Polynomial::chebyshev_approximation(cosine, -1.0, 1.0, COSINE_DEGREE)?;
        let last = ((bound - 0.25) * f64::from(SAMPLES)) as i32;
        let error = |step: i32| {
            let x = f64::from(step) / f64::from(SAMPLES);
            (sine_by(&cosine, bound, x) - (2.0 * PI * x).sin()).abs()
        };
        let sine_error = (-last..=last).map(error).fold(0.0, f64::max);
        Ok(Reduction { bound, cosine, exponential: Polynomial::chebyshev(&coefficients, -1.0, 1.0)?, sine_error })
    }

    /// The largest error of the computed sine, measured at many points of the interval.
    pub(super) fn sine_error(&self) -> f64 {
        self.sine_error
    }

    /// The divisor of `x`: `u = x / bound`.
    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    /// `sin(2 pi x)` of every slot `u = x / bound`, at scale `scale`, eight levels down.
    pub(super) fn sine<A: Arithmetic>(&self, a: &A, u: &A::Vector, scale: f64) -> Result<A::Vector, CkksError> {
        let shifted = a.add_constant(u, Complex64::from(-0.25 / self.bound))?;
        let v = double_angle(a, &shifted)?;
        self.doubled(a, &v, &self.cosine, scale, double_angle)
    }

    /// As [`Reduction::sine`], for slots that hold `parts` real parts and then as many imaginary parts, again and
    /// again: the sines of the imaginary parts are multiplied by `i`, at no level. The polynomial and every doubling
    /// compute their result times a power of that factor: `2 (v y)^2 - v^2 = v^2 (2 y^2 - 1)`.
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
        let first = evaluate_weighted(a, &v, &self.cosine, &factors(DOUBLINGS), start)?;
        (0..DOUBLINGS).rev().try_fold(first, |y, doublings| {
            let minus: Vec<Complex64> = factors(doublings).iter().map(|factor| -factor).collect();
            let square = a.tensor(&y, &y)?;
            a.relinearise_rescale(&a.add_values(&a.add(&square, &square)?, &minus)?)
        })
    }

    /// `exp(2 pi i x)` of every slot `u = x / bound`, at scale `scale`, eight levels down.
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
        (0..DOUBLINGS).try_fold(first, |y, _| double(a, &y))
    }

    /// The scale of the polynomial of an argument at `level` that gives the result of the doublings scale `scale`.
    fn starting_scale<A: Arithmetic>(
        &self,
        a: &A,
        level: usize,
        polynomial: &Polynomial,
        scale: f64,
    ) -> Result<f64, CkksError> {
        let needed = polynomial.depth() + DOUBLINGS;
        let Some(last) = level.checked_sub(needed) else {
            return Err(CkksError::Level { operation: "reduce modulo 1", found: level, needed });
        };
        let before = |scale: f64, level: usize| (scale * a.parameters().level_modulus(level)).sqrt();
        Ok((last + 1..=last + DOUBLINGS).fold(scale, before))
    }
}

/// Computes the sine in the clear in the same way as [`Reduction::sine`].
fn sine_by(cosine: &Polynomial, bound: f64, x: f64) -> f64 {
    let u = (x - 0.25) / bound;
    let first = cosine.at(Complex64::from(2.0 * u * u - 1.0)).re;
    (0..DOUBLINGS).fold(first, |y, _| 2.0 * y * y - 1.0)
}

/// `2 y^2 - 1`.
fn double_angle<A: Arithmetic>(a: &A, y: &A::Vector) -> Result<A::Vector, CkksError> {
    let square = a.tensor(y, y)?;
    a.relinearise_rescale(&a.plus_constant(a.add(&square, &square)?, Complex64::from(-1.0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::REDUCTION_DEPTH;

    #[test]
    fn polynomials_and_doublings_give_the_functions_and_fit_their_levels() {
        let reduction = Reduction::new(13.5).unwrap();
        assert_eq!(1 + reduction.cosine.depth() + DOUBLINGS, REDUCTION_DEPTH);
        assert_eq!(reduction.exponential.depth() + DOUBLINGS, REDUCTION_DEPTH);
        let mut exponential_error = 0f64;
        for step in -2000..=2000 {
            let x = f64::from(step) / 2000.0 * 13.5;
            let power = (0..DOUBLINGS).fold(reduction.exponential.at(Complex64::from(x / 13.5)), |y, _| y * y);
            exponential_error = exponential_error.max((power - Complex64::cis(2.0 * PI * x)).norm());
        }
        let sine_error = reduction.sine_error();
        assert!((2f64.powi(-37)..2f64.powi(-34)).contains(&sine_error), "2^{}", sine_error.log2());
        assert!(exponential_error < 2f64.powi(-35), "2^{}", exponential_error.log2());
    }
}
