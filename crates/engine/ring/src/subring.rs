//! Polynomials in a power of `X`, stored by their distinct values.
//!
//! In the order of the evaluation domain, the values of a polynomial in `X^run` come in runs of `run` equal ones. In
//! the standard ring these are the encodings of vectors whose slots repeat.

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;

/// A polynomial in the evaluation domain whose values come in runs of equal ones. One value of each run is stored.
pub struct SubringPoly {
    pub(crate) words: Words,
    pub(crate) stride: usize,
    pub(crate) basis: Basis,
    pub(crate) run: usize,
}

impl SubringPoly {
    /// Least length of the runs of [`Ring::into_subring`] that is more than 1: vector instructions process one run at a
    /// time.
    pub const MIN_RUN: usize = 16;

    /// The primes it is represented over.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Number of equal values in each run.
    pub fn run(&self) -> usize {
        self.run
    }

    /// Whether it was made from a polynomial that is marked secret.
    pub fn is_secret(&self) -> bool {
        self.words.is_secret()
    }
}

impl Ring {
    /// Keeps one of each `run` equal values of a polynomial. A run of 1 keeps all. Evaluation domain.
    ///
    /// # Errors
    /// If the polynomial is in the coefficient domain or of another ring, `run` is neither 1 nor a power of two from
    /// [`SubringPoly::MIN_RUN`] to the degree, or the values do not come in such runs.
    pub fn into_subring(&self, mut poly: Poly, run: usize) -> Result<SubringPoly, RingError> {
        self.check_domain("keep one value of each run", &poly, Domain::Evaluation)?;
        self.fetch(&mut poly)?;
        let Poly { stride, basis, limbs, .. } = poly;
        if run == 1 {
            return Ok(SubringPoly { words: poly.words, stride, basis, run });
        }
        let what = "a run of equal values";
        if !run.is_power_of_two() || !(SubringPoly::MIN_RUN..=self.degree()).contains(&run) {
            return Err(RingError::Length { what, found: run, needed: "1, or a power of two from 16 to the degree" });
        }
        let equal = |values: &[u32]| values.iter().all(|value| *value == values[0]);
        if !poly.limbs().all(|limb| limb.chunks_exact(run).all(equal)) {
            return Err(RingError::Length { what, found: run, needed: "a run of values that are equal" });
        }
        let stride = self.degree() / run;
        let mut words = self.pool().take(limbs * stride);
        words.inherit(poly.is_secret());
        let values = poly.limbs().flat_map(|limb| limb.chunks_exact(run).map(|values| values[0]));
        words.iter_mut().zip(values).for_each(|(word, value)| *word = value);
        Ok(SubringPoly { words, stride, basis, run })
    }

    /// Bytes in memory of a [`SubringPoly`] over `basis` with this run.
    pub fn subring_bytes(&self, basis: Basis, run: usize) -> usize {
        match run {
            1 => self.poly_bytes(basis),
            run => self.limb_count(basis) * (self.degree() / run) * size_of::<u32>(),
        }
    }
}
