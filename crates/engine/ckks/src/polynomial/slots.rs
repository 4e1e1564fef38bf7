//! Polynomials that differ between slots.

use std::collections::HashMap;

use num_complex::Complex64;

use super::{Polynomial, PolynomialBasis, ceil_log2};
use crate::error::CkksError;

/// Several polynomials on [-1, 1], and for each slot the number of its polynomial.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPolynomials {
    /// By degree, lowest first, then by polynomial.
    coefficients: Vec<Vec<Complex64>>,
    slots: Vec<usize>,
}

impl SlotPolynomials {
    /// Slot `j` has polynomial `slots[j]`, in the Chebyshev basis on [-1, 1]. If a vector has more slots, `slots`
    /// repeats.
    ///
    /// # Errors
    /// If there are no slots, a slot has a polynomial that does not exist, one is in another basis, or all are
    /// constant.
    pub fn new(polynomials: &[Polynomial], slots: Vec<usize>) -> Result<Self, CkksError> {
        const OPERATION: &str = "collect the polynomials of slots";
        let refuse =
            |found: usize, needed: &str| CkksError::Shape { operation: OPERATION, found, needed: needed.into() };
        if slots.is_empty() {
            return Err(refuse(0, "one or more slots"));
        }
        if let Some(&found) = slots.iter().find(|index| **index >= polynomials.len()) {
            return Err(refuse(found, "the number of one of the polynomials"));
        }
        let basis = PolynomialBasis::Chebyshev { low: -1.0, high: 1.0 };
        if let Some(found) = polynomials.iter().position(|polynomial| polynomial.basis != basis) {
            return Err(refuse(found, "polynomials in the Chebyshev basis on [-1, 1]"));
        }
        let degree = polynomials.iter().map(Polynomial::degree).max().unwrap_or(0);
        if degree == 0 {
            return Err(refuse(0, "a polynomial of degree 1 or more"));
        }
        let coefficient =
            |polynomial: &Polynomial, k: usize| polynomial.coefficients.get(k).copied().unwrap_or_default();
        let row = |k: usize| polynomials.iter().map(|polynomial| coefficient(polynomial, k)).collect();
        Ok(SlotPolynomials { coefficients: (0..=degree).map(row).collect(), slots })
    }

    /// One polynomial, times the weight of each slot.
    pub(crate) fn weighted(polynomial: &Polynomial, weights: &[Complex64]) -> Result<Self, CkksError> {
        let (mut known, mut polynomials, mut slots) = (HashMap::new(), Vec::new(), Vec::with_capacity(weights.len()));
        for weight in weights {
            slots.push(*known.entry([weight.re.to_bits(), weight.im.to_bits()]).or_insert_with(|| {
                let coefficients = polynomial.coefficients.iter().map(|c| c * weight).collect();
                polynomials.push(Polynomial { basis: polynomial.basis, coefficients });
                polynomials.len() - 1
            }));
        }
        Self::new(&polynomials, slots)
    }

    /// Levels that an evaluation uses: `ceil(log2(degree + 1))`.
    pub fn depth(&self) -> usize {
        ceil_log2(self.coefficients.len())
    }

    pub(super) fn coefficients(&self) -> &[Vec<Complex64>] {
        &self.coefficients
    }

    /// The values of a coefficient in the slots.
    pub(super) fn values(&self, coefficient: &[Complex64]) -> Vec<Complex64> {
        self.slots.iter().map(|&polynomial| coefficient[polynomial]).collect()
    }
}
