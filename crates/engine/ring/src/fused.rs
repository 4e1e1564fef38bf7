//! Fused operations: integers are reduced, transformed and multiplied limb by limb, so that each limb stays in the
//! cache.

use rayon::prelude::*;
use zeroize::{Zeroizing, zeroize_stack};

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::integer::{self, MAX_LOG2_INTEGER};
use crate::poly::Poly;
use crate::ring::{Ring, SPILLED_BYTES};
use crate::sampling::Seed;

impl Ring {
    /// The polynomial with the given small signed coefficients, in the evaluation domain. One transform per prime.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn evaluate_i32(&self, coefficients: &[i32], basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.evaluate_small(coefficients, &mut poly);
        Ok(poly)
    }

    /// As [`Ring::evaluate_i32`], for the coefficients of a secret: the result is secret.
    ///
    /// # Errors
    /// As for [`Ring::evaluate_i32`].
    pub fn evaluate_secret_i32(&self, coefficients: &[i32], basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        let mut poly = self.blank(basis, Domain::Evaluation);
        // Before the transforms, after which the stack of a secret is wiped.
        poly.mark_secret();
        self.evaluate_small(coefficients, &mut poly);
        Ok(poly)
    }

    fn evaluate_small(&self, coefficients: &[i32], poly: &mut Poly) {
        self.for_each_limb(poly, |_, prime, limb| {
            self.embed_small(prime, coefficients, limb);
            self.forward(prime, &mut [limb]);
        });
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
            self.embed_double(prime, &words, limb);
            self.forward(prime, &mut [limb]);
        });
        Ok(poly)
    }

    /// The polynomial with the given coefficients, each rounded to the nearest integer (ties to even), in the
    /// evaluation domain. One transform per prime. Magnitudes must be below `2^log2_bound`, which is at most 126.
    ///
    /// Time and memory accesses depend on the shape and on `log2_bound`, not on the coefficients. The result is secret.
    ///
    /// # Errors
    /// If there are not exactly `n` coefficients, `log2_bound` is above 126, or a coefficient is not below the bound.
    pub fn evaluate_f64(&self, coefficients: &[f64], log2_bound: u32, basis: Basis) -> Result<Poly, RingError> {
        self.check_count(coefficients.len())?;
        if log2_bound > MAX_LOG2_INTEGER {
            let (what, found) = ("the bound of coefficients", log2_bound as usize);
            return Err(RingError::Length { what, found, needed: "at most 126 bits" });
        }
        let stride = self.stride();
        let count = integer::digit_count(log2_bound);
        let mut digits = self.scratch(count * stride, true);
        let fits = integer::split(coefficients, log2_bound, &mut digits, stride);
        zeroize_stack::<{ integer::STACK_BYTES }>();
        check_bound(fits, log2_bound)?;
        let sources: Vec<&[u32]> = digits.chunks_exact(stride).map(|digit| &digit[..self.degree()]).collect();
        let mut poly = self.blank(basis, Domain::Evaluation);
        poly.mark_secret();
        self.for_each_limb(&mut poly, |_, prime, limb| {
            let target = integer::conversion_target(self.modulus(prime), count);
            self.kernels().convert(&sources, &[target], &mut [&mut *limb]);
            self.forward(prime, &mut [limb]);
        });
        Ok(poly)
    }

    /// The constant polynomial `re + im X^(n/2)`, whose complex slots are all `re + i im`, in the evaluation domain.
    /// Standard ring. Time does not depend on the integers.
    ///
    /// # Errors
    /// In the conjugate-invariant ring, which has no `i`.
    pub fn complex_constant(&self, [re, im]: [i128; 2], basis: Basis) -> Result<Poly, RingError> {
        self.check_standard("make a complex constant")?;
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            let (modulus, imaginary) = (self.modulus(prime), self.table(prime).imaginary);
            let re = modulus.to_montgomery(modulus.from_i128(re));
            let im = modulus.mul_shoup(modulus.to_montgomery(modulus.from_i128(im)), modulus.shoup(imaginary));
            let (low, high) = limb.split_at_mut(limb.len() / 2);
            low.fill(modulus.add(re, im));
            high.fill(modulus.sub(re, im));
        });
        Ok(poly)
    }

    /// `small - uniform * factor` in the evaluation domain, with the uniform polynomial that [`Ring::uniform`] expands
    /// from the same seed and stream. `factor` may be over more primes. The product alone is never in memory. The
    /// result is secret, because `small` is treated as a secret: a caller that publishes it calls
    /// [`Poly::declare_public`].
    ///
    /// # Errors
    /// If there are not exactly `n` coefficients in `small`, or `factor` is in the coefficient domain, of another ring
    /// or not over all of `basis`.
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
        result.mark_secret();
        self.for_each_limb_with(
            &mut result,
            || self.scratch(self.degree(), false),
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

    /// `small_i + factor * polys_i` for both `i`, in the evaluation domain: three transforms per prime. `polys` may be
    /// over more primes. `factor` and `small` are treated as secrets, and the results are secret.
    ///
    /// # Errors
    /// If a list of coefficients does not have length `n`, or one of `polys` is in the coefficient domain, of another
    /// ring or not over all of `basis`.
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
        products.iter_mut().for_each(Poly::mark_secret);
        let [first, second] = &mut products;
        let (stride, degree) = (self.stride(), self.degree());
        let limbs = first.words.par_chunks_mut(stride).zip(second.words.par_chunks_mut(stride));
        let primes = self.prime_indices(basis).collect::<Vec<_>>();
        limbs.zip(primes).enumerate().for_each_init(
            || self.scratch(self.degree(), true),
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
                zeroize_stack::<SPILLED_BYTES>();
            },
        );
        Ok(products)
    }

    /// Writes the residues of the coefficients in Montgomery form.
    fn embed_small(&self, prime: usize, coefficients: &[i32], limb: &mut [u32]) {
        let modulus = self.modulus(prime);
        self.kernels().embed(modulus, limb, coefficients, modulus.shoup(modulus.r));
    }

    /// Writes the residues of double words in Montgomery form.
    fn embed_double(&self, prime: usize, words: &DoubleWords, limb: &mut [u32]) {
        let modulus = self.modulus(prime);
        self.kernels().embed_wide(modulus, limb, &words.low, &words.high, modulus.shoup(modulus.r));
    }

    fn check_count(&self, found: usize) -> Result<(), RingError> {
        let what = "the list of coefficients";
        let right = found == self.degree();
        if right { Ok(()) } else { Err(RingError::Length { what, found, needed: "the ring degree" }) }
    }

    fn check_factor(&self, operation: &'static str, poly: &Poly, needed: Basis) -> Result<(), RingError> {
        self.check_domain(operation, poly, Domain::Evaluation)?;
        let found = poly.basis();
        if found.contains(needed) { Ok(()) } else { Err(RingError::Basis { operation, found, needed }) }
    }
}

/// Signed double words in the layout of the kernels. Wiped when dropped.
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

/// Refuses coefficients that do not fit. The branch on whether the caller gets an error is the only branch that depends
/// on them. Not inlined, so that tools can name this function when they find the branch.
#[inline(never)]
pub(crate) fn check_bound(fits: bool, log2_bound: u32) -> Result<(), RingError> {
    if fits { Ok(()) } else { Err(RingError::Coefficient { log2_bound }) }
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
        Ring::new(RingLiteral { degree: 512, kind, chain, terminal: vec![], special, digit_len: 2 }, backend).unwrap()
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

                let mut values: Vec<f64> = (0..504).map(|i| f64::from(i - 252).powi(15) * 31.0 + 0.3).collect();
                values.extend([
                    0.5,
                    -0.5,
                    1.5,
                    2f64.powi(29),
                    -2f64.powi(59),
                    2f64.powi(62) - 512.0,
                    -2f64.powi(93),
                    -1e37,
                ]);
                let nearest: Vec<i128> = values.iter().map(|x| x.round_ties_even() as i128).collect();
                let mut expected = ring.from_i128(&nearest, Basis::extended(4)).unwrap();
                ring.to_evaluation(&mut expected).unwrap();
                let fused = ring.evaluate_f64(&values, 126, Basis::extended(4)).unwrap();
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
        let numbers = vec![0.0; 512];
        let above = |x: f64, bound: u32| {
            let mut numbers = numbers.clone();
            numbers[7] = x;
            ring.evaluate_f64(&numbers, bound, Basis::chain(1))
        };
        for (x, bound) in [(4.0, 2), (-2f64.powi(100), 100), (f64::NAN, 126), (f64::INFINITY, 126)] {
            assert!(matches!(above(x, bound), Err(RingError::Coefficient { log2_bound }) if log2_bound == bound));
        }
        assert!(above(3.4, 2).is_ok() && matches!(above(0.0, 127), Err(RingError::Length { found: 127, .. })));
        let wrong = ring.small_products(&small, [&key, &coefficients], [&small, &small], Basis::chain(1));
        assert!(matches!(wrong, Err(RingError::Domain { .. })));
    }
}
