//! Sums of automorphisms, computed limb by limb so that intermediate results stay in the cache.

use rayon::prelude::*;

use crate::basis::Domain;
use crate::error::RingError;
use crate::gadget::RnsDigits;
use crate::gadget_key::GadgetKey;
use crate::poly::Poly;
use crate::ring::Ring;

impl Ring {
    /// `sum_i sigma_i(digits * key_i)` for the automorphisms `sigma_i: X -> X^galois_i`: both components, over the
    /// extended basis, times `P`. The digits are raised once for all terms.
    ///
    /// # Errors
    /// If there are no terms, a key covers fewer chain primes than the digits, or a Galois element does not fit the
    /// ring.
    pub fn hoisted_sum(&self, digits: &RnsDigits, terms: &[(&GadgetKey, u64)]) -> Result<[Poly; 2], RingError> {
        const OPERATION: &str = "hoisted sum";
        if terms.is_empty() {
            return Err(RingError::Length { what: "the terms of a hoisted sum", found: 0, needed: "at least one" });
        }
        for (key, _) in terms {
            self.check_key(OPERATION, digits.basis, key)?;
        }
        self.check_words(OPERATION, &digits.words)?;
        if let Some(on) = self.on() {
            terms.iter().try_for_each(|&(_, galois)| self.permutation(galois).map(drop))?;
            return on.key_products(self, digits, terms);
        }
        let permutations = terms.iter().map(|&(_, galois)| self.permutation(galois)).collect::<Result<Vec<_>, _>>()?;
        let basis = self.switching_basis(digits.basis);
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let (n, stride) = (self.degree(), self.stride());
        let secret = digits.words.is_secret() || terms.iter().any(|(key, _)| key.is_secret());
        let mut out: [Poly; 2] = std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
        out.iter_mut().for_each(|poly| poly.words.inherit(secret));
        let [out0, out1] = &mut out;
        let outputs = out0.words.par_chunks_mut(stride).zip(out1.words.par_chunks_mut(stride));
        let raised = digits.words.par_chunks_exact(digits.digits * stride);
        let scratch = || [(); 3].map(|()| self.scratch(n, secret));
        outputs.zip(raised).zip(&primes).for_each_init(scratch, |scratch, (((out0, out1), raised), &prime)| {
            let limbs: Vec<&[u32]> = raised.chunks_exact(stride).map(|limb| &limb[..n]).collect();
            let [product0, product1, image] = scratch;
            for (i, ((key, _), permutation)) in terms.iter().zip(&permutations).enumerate() {
                self.multiply_digits(prime, &limbs, key, [product0, product1]);
                for (product, out) in [(&product0, &mut out0[..n]), (&product1, &mut out1[..n])] {
                    if i == 0 {
                        self.kernels().permute(permutation, product, out);
                    } else {
                        self.kernels().permute(permutation, product, image);
                        self.kernels().add_assign(self.modulus(prime), out, image);
                    }
                }
            }
        });
        Ok(out)
    }

    /// `sum_i sigma_i(poly)` for the automorphisms `sigma_i: X -> X^galois_i`, in the evaluation domain.
    ///
    /// # Errors
    /// If there are no automorphisms, an element does not fit the ring, or the polynomial is in the coefficient domain
    /// or of another ring.
    pub fn automorphism_sum(&self, poly: &Poly, galois: &[u64]) -> Result<Poly, RingError> {
        self.check_domain("sum of automorphisms", poly, Domain::Evaluation)?;
        if galois.is_empty() {
            return Err(RingError::Length { what: "the automorphisms of a sum", found: 0, needed: "at least one" });
        }
        if let Some(on) = self.on() {
            galois.iter().try_for_each(|&galois| self.permutation(galois).map(drop))?;
            return on.automorphisms(self, poly, galois);
        }
        let permutations = galois.iter().map(|&galois| self.permutation(galois)).collect::<Result<Vec<_>, _>>()?;
        let mut sum = self.blank_from(&[poly], poly.basis, Domain::Evaluation);
        let (n, stride) = (self.degree(), self.stride());
        let primes: Vec<usize> = self.prime_indices(poly.basis).collect();
        let limbs = sum.words.par_chunks_mut(stride).zip(&primes).enumerate();
        limbs.for_each_init(
            || self.scratch(n, poly.is_secret()),
            |image, (i, (out, &prime))| {
                let out = &mut out[..n];
                for (term, permutation) in permutations.iter().enumerate() {
                    if term == 0 {
                        self.kernels().permute(permutation, poly.limb(i), out);
                    } else {
                        self.kernels().permute(permutation, poly.limb(i), image);
                        self.kernels().add_assign(self.modulus(prime), out, image);
                    }
                }
            },
        );
        Ok(sum)
    }
}
