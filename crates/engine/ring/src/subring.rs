//! Polynomials in a power of `X`, stored by their distinct values.
//!
//! In the order of the evaluation domain, the values of a polynomial in `X^run` come in runs of `run` equal ones. In
//! the standard ring these are the encodings of vectors whose slots repeat.

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::fused::check_bound;
use crate::integer::{self, MAX_LOG2_INTEGER};
use crate::kernels::Kernels;
use crate::kernels::portable::Portable;
use crate::kind::RingKind;
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

    /// The polynomial in `X^run` with these coefficients (`n / run` of them, rounded to the nearest integers), in the
    /// evaluation domain: the same as [`Ring::into_subring`] makes of [`Ring::evaluate_f64`], with the work of a ring
    /// that is smaller by `run`. The polynomial is public.
    ///
    /// The first stages of the transform see every `run`-th coefficient only, and later ones copy values over a run. So
    /// a transform of these coefficients alone, with the roots of the first stages, has the distinct values.
    ///
    /// # Errors
    /// If `run` is no power of two from [`SubringPoly::MIN_RUN`] to the degree, there are not `n / run`
    /// coefficients, `log2_bound` is above 126, or a coefficient is not below `2^log2_bound` in magnitude.
    pub fn evaluate_subring_f64(
        &self,
        coefficients: &[f64],
        log2_bound: u32,
        basis: Basis,
        run: usize,
    ) -> Result<SubringPoly, RingError> {
        if !run.is_power_of_two() || !(SubringPoly::MIN_RUN..=self.degree()).contains(&run) {
            let needed = "a power of two from 16 to the degree";
            return Err(RingError::Length { what: "a run of equal values", found: run, needed });
        }
        let stride = self.degree() / run;
        if coefficients.len() != stride {
            let (what, needed) = ("coefficients of a power of X", "the degree divided by the run");
            return Err(RingError::Length { what, found: coefficients.len(), needed });
        }
        if log2_bound > MAX_LOG2_INTEGER {
            let (what, found) = ("the bound of coefficients", log2_bound as usize);
            return Err(RingError::Length { what, found, needed: "at most 126 bits" });
        }
        let mut digits = self.scratch(integer::digit_count(log2_bound) * stride, false);
        check_bound(integer::split(coefficients, log2_bound, &mut digits, stride), log2_bound)?;
        let sources: Vec<&[u32]> = digits.chunks_exact(stride).collect();
        let index = self.prime_index(basis);
        let mut words = self.scratch(self.limb_count(basis) * stride, false);
        for (limb, values) in words.chunks_exact_mut(stride).enumerate() {
            let table = self.table(index(limb));
            let target = integer::conversion_target(&table.modulus, sources.len());
            // Limbs are shorter than the vector kernels allow, and the work is small.
            Portable.convert(&sources, &[target], &mut [&mut *values]);
            // A constant is no sum of powers and their inverses.
            if self.kind() == RingKind::ConjugateInvariant && stride > 1 {
                Portable.fold(&table.modulus, table.modulus.shoup(table.imaginary), values);
            }
            Portable.ntt_forward(table, &mut [values]);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::primes_descending;
    use crate::{Backend, RingLiteral};

    #[test]
    fn values_in_runs_are_those_of_the_whole_ring() {
        for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
            for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
                let mut primes = primes_descending(1 << 20, 1 << 30, kind.prime_step(512));
                let (chain, special) = (primes.by_ref().take(4).collect(), primes.take(2).collect());
                let literal = RingLiteral { degree: 512, kind, chain, terminal: vec![], special, digit_len: 2 };
                let ring = Ring::new(literal, backend).unwrap();
                let basis = Basis::chain(3).with_special();
                for run in [16, 32, 128, 256, 512] {
                    let mut whole = vec![0.0; 512];
                    whole.iter_mut().step_by(run).enumerate().for_each(|(k, x)| *x = ((k + 1) as f64).sin() * 1e18);
                    let short: Vec<f64> = whole.iter().step_by(run).copied().collect();
                    let found = ring.evaluate_subring_f64(&short, 61, basis, run).unwrap();
                    let expected = ring.into_subring(ring.evaluate_f64(&whole, 61, basis).unwrap(), run).unwrap();
                    assert_eq!(found.words[..], expected.words[..], "{kind:?}, {backend:?}, runs of {run}");
                    assert!(!found.is_secret() && (found.run(), found.basis()) == (run, basis));
                }
                let refused = |count: usize, bound: u32, run: usize| {
                    ring.evaluate_subring_f64(&vec![2f64.powi(50); count], bound, basis, run).is_err()
                };
                assert!(refused(32, 40, 16), "a coefficient above the bound");
                assert!(refused(31, 60, 16) && refused(64, 60, 8) && refused(1, 60, 1024) && refused(32, 127, 16));
                assert!(!refused(32, 60, 16));
            }
        }
    }
}
