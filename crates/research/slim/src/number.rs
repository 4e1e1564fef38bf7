//! Numbers of any precision, and polynomials with such coefficients.

use std::ops::{Add, Mul, Sub};

use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;
use unspoken_ckks::Complex64;

/// A binary floating-point number. It has the precision of the operands; 0 bits stand for exact arithmetic.
pub(crate) type Real = FBig<HalfEven, 2>;

/// The number `x` with this precision, at least 53 bits, or 0 for exact arithmetic. `x` must be finite.
pub(crate) fn real(x: f64, precision: usize) -> Real {
    Real::try_from(x).unwrap_or(Real::ZERO).with_precision(precision).value()
}

/// The nearest `f64`.
pub(crate) fn to_f64(x: &Real) -> f64 {
    x.to_f64().value()
}

/// A complex number of any precision.
#[derive(Clone, Debug)]
pub(crate) struct Complex {
    pub(crate) re: Real,
    pub(crate) im: Real,
}

impl Complex {
    pub(crate) fn new(z: Complex64, precision: usize) -> Self {
        Complex { re: real(z.re, precision), im: real(z.im, precision) }
    }

    pub(crate) fn conjugate(&self) -> Self {
        Complex { re: self.re.clone(), im: -self.im.clone() }
    }

    pub(crate) fn nearest(&self) -> Complex64 {
        Complex64::new(to_f64(&self.re), to_f64(&self.im))
    }

    /// `self / divisor`, for a divisor other than 0.
    pub(crate) fn over(&self, divisor: &Complex) -> Self {
        let norm = &divisor.re * &divisor.re + &divisor.im * &divisor.im;
        let Complex { re, im } = self * &divisor.conjugate();
        Complex { re: re / &norm, im: im / norm }
    }
}

impl Mul for &Complex {
    type Output = Complex;

    fn mul(self, other: &Complex) -> Complex {
        Complex { re: &self.re * &other.re - &self.im * &other.im, im: &self.re * &other.im + &self.im * &other.re }
    }
}

impl Add for &Complex {
    type Output = Complex;

    fn add(self, other: &Complex) -> Complex {
        Complex { re: &self.re + &other.re, im: &self.im + &other.im }
    }
}

impl Sub for &Complex {
    type Output = Complex;

    fn sub(self, other: &Complex) -> Complex {
        Complex { re: &self.re - &other.re, im: &self.im - &other.im }
    }
}

/// The monomial coefficients of a Chebyshev series on `[-1, 1]`, lowest degree first.
pub(crate) fn monomial(chebyshev: &[f64], precision: usize) -> Vec<Real> {
    let zero = real(0.0, precision);
    // T_(k+1) = 2 x T_k - T_(k-1).
    let (mut before, mut current) = (vec![zero.clone()], vec![real(1.0, precision)]);
    let mut sum = vec![zero.clone(); chebyshev.len()];
    for (k, &c) in chebyshev.iter().enumerate() {
        let c = real(c, precision);
        sum.iter_mut().zip(&current).for_each(|(s, t)| *s += t * &c);
        let factor = real(if k == 0 { 1.0 } else { 2.0 }, precision);
        let mut next = vec![zero.clone()];
        next.extend(current.iter().map(|t| t * &factor));
        if k > 0 {
            next.iter_mut().zip(&before).for_each(|(n, b)| *n -= b);
        }
        before = std::mem::replace(&mut current, next);
    }
    sum
}

/// The Chebyshev coefficients on `[-1, 1]` of a polynomial with monomial coefficients, rounded at the end.
pub(crate) fn chebyshev(monomial: &[Real], precision: usize) -> Vec<f64> {
    let zero = || real(0.0, precision);
    let half = real(0.5, precision);
    // Horner's rule in the Chebyshev basis: x T_k = (T_(k+1) + T_(k-1)) / 2, x T_0 = T_1.
    let mut sum: Vec<Real> = Vec::with_capacity(monomial.len());
    for c in monomial.iter().rev() {
        let mut next = vec![zero(); sum.len() + 1];
        for (k, s) in sum.iter().enumerate() {
            if k == 0 {
                next[1] += s;
            } else {
                let s = s * &half;
                next[k + 1] += &s;
                next[k - 1] += s;
            }
        }
        next[0] += c;
        sum = next;
    }
    sum.iter().map(to_f64).collect()
}

/// The value and the derivative of a polynomial with real monomial coefficients.
pub(crate) fn horner(coefficients: &[Real], z: &Complex) -> (Complex, Complex) {
    let zero = || real(0.0, z.re.precision());
    let mut value = Complex { re: zero(), im: zero() };
    let mut derivative = value.clone();
    for c in coefficients.iter().rev() {
        derivative = &(&derivative * z) + &value;
        value = &value * z;
        value.re += c;
    }
    (value, derivative)
}

/// The value of a Chebyshev series at `u`, by Clenshaw's recurrence.
pub(crate) fn clenshaw<T>(coefficients: &[f64], u: T) -> T
where
    T: Copy + Add<f64, Output = T> + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Mul<f64, Output = T>,
{
    let zero = u * 0.0;
    let Some((head, tail)) = coefficients.split_first() else { return zero };
    let (b1, b2) = tail.iter().rev().fold((zero, zero), |(b1, b2), &c| (u * b1 * 2.0 - b2 + c, b1));
    u * b1 - b2 + *head
}

/// The Chebyshev coefficients of the derivative of a Chebyshev series.
pub(crate) fn derivative(coefficients: &[f64]) -> Vec<f64> {
    let n = coefficients.len();
    let mut result = vec![0.0; n.max(2) - 1];
    for k in (1..n).rev() {
        let above = result.get(k + 1).copied().unwrap_or(0.0);
        result[k - 1] = above + 2.0 * k as f64 * coefficients[k];
    }
    result[0] /= 2.0;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_converted_to_each_other() {
        // 3 T_0 - T_1 + 2 T_3 = 3 - 7x + 8x^3.
        let series = [3.0, -1.0, 0.0, 2.0];
        let powers = monomial(&series, 80);
        assert!(powers.iter().map(to_f64).eq([3.0, -7.0, 0.0, 8.0]));
        assert_eq!(chebyshev(&powers, 80), series);
        assert_eq!(clenshaw(&series, 0.5), 0.5);
        // The derivative -7 + 24x^2 is 5 T_0 + 12 T_2.
        assert_eq!(derivative(&series), [5.0, 0.0, 12.0]);
        let z = Complex::new(Complex64::new(0.0, 1.0), 80);
        let (value, slope) = horner(&powers, &z);
        assert_eq!((value.nearest(), slope.nearest()), (Complex64::new(3.0, -15.0), Complex64::from(-31.0)));
        assert_eq!(z.over(&Complex::new(Complex64::new(0.0, 2.0), 80)).nearest(), Complex64::from(0.5));
    }
}
