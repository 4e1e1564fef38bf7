//! Polynomials made of small integers and of uniform residues, limb by limb: what is made for one prime is used up while it
//! is in the cache.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::RingError;
use crate::memory::Words;
use crate::poly::{Basis, Domain, Poly};
use crate::ring::Ring;
use crate::sampling::Seed;

impl Ring {
    /// The polynomial with the given small signed coefficients, in the evaluation domain. One transform per prime.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn evaluate_i32(&self, coefficients: &[i32], basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            self.embed_small(prime, coefficients, limb);
            self.forward(prime, &mut [limb]);
        });
        Ok(poly)
    }

    /// The polynomial with the given signed coefficients, in the evaluation domain. One transform per prime.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn evaluate_i64(&self, coefficients: &[i64], basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        let words = DoubleWords::new(coefficients.iter().copied());
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            self.embed_double(prime, &words, 1, limb);
            self.forward(prime, &mut [limb]);
        });
        Ok(poly)
    }

    /// As [`Ring::evaluate_i64`], for magnitudes up to 2^126.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn evaluate_i128(&self, coefficients: &[i128], basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        // c = low + 2^64 high with both signed.
        let low = DoubleWords::new(coefficients.iter().map(|&c| c as i64));
        let high = DoubleWords::new(coefficients.iter().map(|&c| ((c - i128::from(c as i64)) >> 64) as i64));
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb_with(
            &mut poly,
            || self.scratch(),
            |upper, _, prime, limb| {
                self.embed_double(prime, &low, 1, limb);
                self.embed_double(prime, &high, 1 << 64, upper);
                self.kernels().add_assign(self.modulus(prime), limb, upper);
                self.forward(prime, &mut [limb]);
            },
        );
        Ok(poly)
    }

    /// `small - uniform * factor` in the evaluation domain, with the uniform polynomial that [`Ring::uniform`] expands from
    /// the same seed and stream. `factor` may be over more primes. At no time is the product alone in memory.
    ///
    /// # Errors
    /// If there are not exactly `n` coefficients in `small`, or `factor` is in the coefficient domain, of another ring or
    /// not over all of `basis`.
    pub fn small_minus_uniform_product(
        &self,
        small: &[i32],
        (seed, stream): (&Seed, u32),
        factor: &Poly,
        basis: Basis,
    ) -> Result<Poly, RingError> {
        self.check_count(small.len())?;
        self.check_factor("multiply by a uniform polynomial", factor, basis)?;
        let mut result = self.blank(basis, Domain::Evaluation);
        self.for_each_limb_with(
            &mut result,
            || self.scratch(),
            |uniform, i, prime, limb| {
                let modulus = self.modulus(prime);
                seed.fill_uniform(self.kernels(), stream, modulus.q, uniform);
                self.embed_small(prime, small, limb);
                self.forward(prime, &mut [limb]);
                self.kernels().mul_sub_assign(modulus, limb, uniform, factor.limb_over(basis, i));
            },
        );
        Ok(result)
    }

    /// `small_i + factor * polys_i` for both `i`, in the evaluation domain: three transforms per prime. `polys` may be over
    /// more primes. `factor` and `small` are treated as secrets.
    ///
    /// # Errors
    /// If a list of coefficients does not have length `n`, or one of `polys` is in the coefficient domain, of another ring
    /// or not over all of `basis`.
    pub fn small_products(
        &self,
        factor: &[i32],
        polys: [&Poly; 2],
        small: [&[i32]; 2],
        basis: Basis,
    ) -> Result<[Poly; 2], RingError> {
        for list in [factor, small[0], small[1]] {
            self.check_count(list.len())?;
        }
        for poly in polys {
            self.check_factor("multiply by a small polynomial", poly, basis)?;
        }
        let mut products = [self.blank(basis, Domain::Evaluation), self.blank(basis, Domain::Evaluation)];
        let [first, second] = &mut products;
        let (stride, degree) = (self.stride(), self.degree());
        let limbs = first.words.par_chunks_mut(stride).zip(second.words.par_chunks_mut(stride));
        let primes = self.prime_indices(basis).collect::<Vec<_>>();
        limbs.zip(primes).enumerate().for_each_init(
            || self.scratch(),
            |small_factor, (i, ((first, second), prime))| {
                let modulus = self.modulus(prime);
                let (first, second) = (&mut first[..degree], &mut second[..degree]);
                self.embed_small(prime, factor, small_factor);
                self.embed_small(prime, small[0], first);
                self.embed_small(prime, small[1], second);
                self.forward(prime, &mut [&mut *small_factor, &mut *first, &mut *second]);
                for (limb, poly) in [first, second].into_iter().zip(polys) {
                    self.kernels().mul_add_assign(modulus, limb, small_factor, poly.limb_over(basis, i));
                }
            },
        );
        Ok(products)
    }

    /// Residues in Montgomery form.
    fn embed_small(&self, prime: usize, coefficients: &[i32], limb: &mut [u32]) {
        let modulus = self.modulus(prime);
        self.kernels().embed(modulus, limb, coefficients, modulus.shoup(modulus.r));
    }

    /// Residues of `factor` times double words in Montgomery form.
    fn embed_double(&self, prime: usize, words: &DoubleWords, factor: i128, limb: &mut [u32]) {
        let modulus = self.modulus(prime);
        let factor = modulus.mul(modulus.from_i128(factor), modulus.r);
        self.kernels().embed_wide(modulus, limb, &words.low, &words.high, modulus.shoup(factor));
    }

    /// Memory for one limb, wiped after use.
    fn scratch(&self) -> Words {
        let mut words = self.pool().take(self.degree());
        words.mark_secret();
        words
    }

    fn check_count(&self, found: usize) -> Result<(), RingError> {
        let what = "the list of coefficients";
        let right = found == self.degree();
        if right { Ok(()) } else { Err(RingError::Length { what, found, needed: "the ring degree" }) }
    }

    fn check_factor(&self, operation: &'static str, poly: &Poly, needed: Basis) -> Result<(), RingError> {
        self.check_domain(operation, poly, Domain::Evaluation)?;
        let found = poly.basis();
        let covers = needed.chain <= found.chain && (found.special || !needed.special);
        if covers { Ok(()) } else { Err(RingError::Basis { operation, found, needed }) }
    }
}

/// Signed double words as kernels take them. Wiped when dropped.
struct DoubleWords {
    low: Zeroizing<Vec<u32>>,
    high: Zeroizing<Vec<i32>>,
}

impl DoubleWords {
    fn new(values: impl ExactSizeIterator<Item = i64> + Clone) -> Self {
        let low = Zeroizing::new(values.clone().map(|c| c as u32).collect());
        DoubleWords { low, high: Zeroizing::new(values.map(|c| (c >> 32) as i32).collect()) }
    }
}

impl Poly {
    /// The limb for the same prime as limb `i` of a polynomial over `basis`, which is contained in this one's.
    fn limb_over(&self, basis: Basis, i: usize) -> &[u32] {
        self.limb(if i < basis.chain { i } else { i + self.basis.chain - basis.chain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::primes_descending;
    use crate::{Backend, RingKind, RingLiteral, SecretRng};

    fn ring(kind: RingKind, backend: Backend) -> Ring {
        let mut primes = primes_descending(1 << 20, 1 << 30, kind.prime_step(512));
        let chain = primes.by_ref().take(4).collect();
        let special = primes.take(2).collect();
        Ring::new(RingLiteral { degree: 512, kind, chain, special, digit_len: 2 }, backend).unwrap()
    }

    fn residues(ring: &Ring, poly: &Poly) -> Vec<u8> {
        let mut bytes = Vec::new();
        ring.write_residues(poly, &mut bytes);
        bytes
    }

    #[test]
    fn each_agrees_with_the_steps_it_joins() {
        for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
            for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
                let ring = ring(kind, backend);
                let mut rng = SecretRng::insecure_from_seed(7);
                let (u, e0, e1) = (rng.ternary(512), rng.gaussian(512), rng.gaussian(512));
                for basis in [Basis::chain(3), Basis::extended(3)] {
                    let slow = |coefficients: &[i32]| {
                        let mut poly = ring.from_i32(coefficients, basis).unwrap();
                        ring.to_evaluation(&mut poly).unwrap();
                        poly
                    };
                    assert_eq!(residues(&ring, &ring.evaluate_i32(&e0, basis).unwrap()), residues(&ring, &slow(&e0)));

                    let seed = rng.seed();
                    let key = ring.uniform(&rng.seed(), 1, Basis::extended(4));
                    let fused = ring.small_minus_uniform_product(&e0, (&seed, 5), &key, basis).unwrap();
                    let mut product = ring.uniform(&seed, 5, basis);
                    ring.mul_assign(&mut product, &ring.restricted(&key, basis).unwrap()).unwrap();
                    let expected = ring.sub(&slow(&e0), &product).unwrap();
                    assert_eq!(residues(&ring, &fused), residues(&ring, &expected));

                    let other = ring.uniform(&rng.seed(), 1, Basis::extended(3));
                    let [first, second] = ring.small_products(&u, [&key, &other], [&e0, &e1], basis).unwrap();
                    for (fused, poly, small) in [(first, &key, &e0), (second, &other, &e1)] {
                        let mut expected = slow(small);
                        let poly = ring.restricted(poly, basis).unwrap();
                        ring.mul_add_assign(&mut expected, &slow(&u), &poly).unwrap();
                        assert_eq!(residues(&ring, &fused), residues(&ring, &expected));
                    }
                }
                let wide: Vec<i64> = (0..512).map(|i: i64| (i - 256).pow(7) * 31 - i).collect();
                let mut expected = ring.from_i64(&wide, Basis::extended(4)).unwrap();
                ring.to_evaluation(&mut expected).unwrap();
                let fused = ring.evaluate_i64(&wide, Basis::extended(4)).unwrap();
                assert_eq!(residues(&ring, &fused), residues(&ring, &expected));

                let ends = [1 << 126, -1 << 126, (1 << 126) - 1, 1 << 63, -1 << 63, (1 << 64) - 1, 0, -1];
                let wide = (0..504).map(|i: i128| (i - 252).pow(15) * 31 - i).chain(ends).collect::<Vec<i128>>();
                let mut expected = ring.from_i128(&wide, Basis::extended(4)).unwrap();
                ring.to_evaluation(&mut expected).unwrap();
                let fused = ring.evaluate_i128(&wide, Basis::extended(4)).unwrap();
                assert_eq!(residues(&ring, &fused), residues(&ring, &expected));
            }
        }
    }

    #[test]
    fn wrong_operands_are_refused() {
        let ring = ring(RingKind::Standard, Backend::Portable);
        let (small, seed) = (vec![0; 512], Seed([0; 32]));
        let key = ring.uniform(&seed, 0, Basis::chain(2));
        assert!(matches!(ring.evaluate_i32(&small[1..], Basis::chain(1)), Err(RingError::Length { found: 511, .. })));
        let too_wide = ring.small_minus_uniform_product(&small, (&seed, 0), &key, Basis::chain(3));
        assert!(matches!(too_wide, Err(RingError::Basis { .. })));
        let special = ring.small_products(&small, [&key, &key], [&small, &small], Basis::extended(1));
        assert!(matches!(special, Err(RingError::Basis { .. })));
        let coefficients = ring.zero(Basis::chain(2), Domain::Coefficient);
        let wrong = ring.small_products(&small, [&key, &coefficients], [&small, &small], Basis::chain(1));
        assert!(matches!(wrong, Err(RingError::Domain { .. })));
    }
}
