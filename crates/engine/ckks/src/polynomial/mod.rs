//! Polynomials that are evaluated on every slot.

pub(crate) mod evaluate;
mod plan;
mod powers;
pub(crate) mod slots;

use std::f64::consts::PI;

use num_complex::Complex64;

use crate::error::CkksError;

/// A polynomial in the monomial or the Chebyshev basis.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    basis: PolynomialBasis,
    /// The coefficients, lowest degree first. The last is not zero, unless it is the only one.
    coefficients: Vec<Complex64>,
}

/// The basis of a [`Polynomial`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolynomialBasis {
    /// `x^k`.
    Monomial,
    /// `T_k(u)`, with `u` the image of `x` under the affine map of `[low, high]` onto `[-1, 1]`.
    Chebyshev {
        /// The smallest `x`.
        low: f64,
        /// The largest `x`.
        high: f64,
    },
}

impl Polynomial {
    /// `sum_k coefficients[k] x^k`.
    ///
    /// # Errors
    /// If a coefficient is not finite.
    pub fn monomial(coefficients: &[Complex64]) -> Result<Self, CkksError> {
        Self::new(PolynomialBasis::Monomial, coefficients)
    }

    /// `sum_k coefficients[k] T_k(u)`, with `u = (2x - low - high) / (high - low)`.
    ///
    /// # Errors
    /// If a coefficient is not finite or the interval is empty.
    pub fn chebyshev(coefficients: &[Complex64], low: f64, high: f64) -> Result<Self, CkksError> {
        Self::new(PolynomialBasis::Chebyshev { low, high }, coefficients)
    }

    /// The polynomial of degree `degree` or less that equals `f` at the Chebyshev nodes of `[low, high]`: it is close
    /// to the best approximation inside the interval and invalid outside. Coefficients that consist of rounding errors
    /// only are set to zero, so approximations of odd and even functions are odd and even.
    ///
    /// # Errors
    /// If `f` is not finite at a node or the interval is empty.
    pub fn chebyshev_approximation(
        f: impl Fn(f64) -> f64,
        low: f64,
        high: f64,
        degree: usize,
    ) -> Result<Self, CkksError> {
        let count = degree + 1;
        let angle = |j: usize| PI * (j as f64 + 0.5) / count as f64;
        let (middle, radius) = ((low + high) / 2.0, (high - low) / 2.0);
        let values: Vec<f64> = (0..count).map(|j| f(middle + radius * angle(j).cos())).collect();
        let coefficient = |k: usize| {
            let sum: f64 = values.iter().enumerate().map(|(j, v)| v * (k as f64 * angle(j)).cos()).sum();
            sum * if k == 0 { 1.0 } else { 2.0 } / count as f64
        };
        let noise = values.iter().fold(0.0f64, |max, v| max.max(v.abs())) * f64::EPSILON * (count as f64).sqrt();
        let clean = |c: f64| Complex64::from(if c.abs() <= noise { 0.0 } else { c });
        let coefficients: Vec<Complex64> = (0..count).map(|k| clean(coefficient(k))).collect();
        Self::chebyshev(&coefficients, low, high)
    }

    fn new(basis: PolynomialBasis, coefficients: &[Complex64]) -> Result<Self, CkksError> {
        const OPERATION: &str = "make a polynomial";
        if let PolynomialBasis::Chebyshev { low, high } = basis
            && !(low < high && (high - low).is_finite())
        {
            let needed = "an interval of positive, finite length";
            return Err(CkksError::Value { operation: OPERATION, index: 0, needed });
        }
        if let Some(index) = coefficients.iter().position(|c| !c.is_finite()) {
            return Err(CkksError::Value { operation: OPERATION, index, needed: "a finite coefficient" });
        }
        let len = coefficients.iter().rposition(|c| *c != Complex64::default()).map_or(0, |last| last + 1);
        let mut coefficients = coefficients[..len].to_vec();
        if coefficients.is_empty() {
            coefficients.push(Complex64::default());
        }
        Ok(Polynomial { basis, coefficients })
    }

    /// Its basis.
    pub fn basis(&self) -> PolynomialBasis {
        self.basis
    }

    /// Its coefficients, lowest degree first.
    pub fn coefficients(&self) -> &[Complex64] {
        &self.coefficients
    }

    /// Its degree; 0 for the zero polynomial.
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// Levels that [`evaluate`](crate::evaluate) uses: `ceil(log2(degree + 1))`, and one more if the interval does not
    /// have length 2.
    ///
    /// To save that level, fold the factor `2 / (high - low)` into the operation that produces the argument (a matrix,
    /// a plaintext product, the encoding), and give the polynomial on `[low, high]` divided by half that length.
    pub fn depth(&self) -> usize {
        if self.degree() == 0 {
            return 0;
        }
        self.product_depth() + usize::from(self.affine_map().0 != 1.0)
    }

    /// The value of the polynomial at `x`, in the clear.
    pub fn at(&self, x: Complex64) -> Complex64 {
        let (factor, offset) = self.affine_map();
        let u = x * factor + offset;
        let (head, tail) = (self.coefficients[0], &self.coefficients[1..]);
        match self.basis {
            PolynomialBasis::Monomial => tail.iter().rev().fold(Complex64::default(), |sum, c| (sum + c) * u) + head,
            // Clenshaw's recurrence.
            PolynomialBasis::Chebyshev { .. } => {
                let zero = (Complex64::default(), Complex64::default());
                let (b1, b2) = tail.iter().rev().fold(zero, |(b1, b2), c| (c + u * b1 * 2.0 - b2, b1));
                head + u * b1 - b2
            }
        }
    }

    /// Levels used after the affine map.
    fn product_depth(&self) -> usize {
        ceil_log2(self.degree() + 1)
    }

    /// `(factor, offset)` of the map of `x` to the variable of the basis.
    fn affine_map(&self) -> (f64, f64) {
        match self.basis {
            PolynomialBasis::Monomial => (1.0, 0.0),
            PolynomialBasis::Chebyshev { low, high } => (2.0 / (high - low), -(low + high) / (high - low)),
        }
    }
}

/// The smallest `e` with `2^e >= x`, for `x >= 1`.
fn ceil_log2(x: usize) -> usize {
    x.next_power_of_two().trailing_zeros() as usize
}
