//! The element-wise arithmetic of polynomials: sums, products, multiples, and images under automorphisms.

use rayon::prelude::*;
use unspoken_device::kernel;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kind::RingKind;
use crate::modular::Shoup;
use crate::poly::{Poly, in_blocks};
use crate::ring::Ring;

impl Ring {
    /// `b` may be over more primes than `a`: the surplus limbs are ignored.
    fn check_pair(&self, operation: &'static str, a: &Poly, b: &Poly) -> Result<(), RingError> {
        self.check_own(operation, a)?;
        self.check_domain(operation, b, a.domain)?;
        if a.basis == b.basis || (a.basis.special == b.basis.special && b.basis.contains(a.basis)) {
            Ok(())
        } else {
            Err(RingError::Basis { operation, found: b.basis, needed: a.basis })
        }
    }

    // ----- arithmetic -----

    /// `a + b` over the basis of `a`. `b` may be over more primes than `a`.
    pub fn add(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_pair("add", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::SUM, a, b);
        }
        let mut sum = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut sum, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().add_assign(modulus, limb, &b[block]));
        });
        Ok(sum)
    }

    /// `a - b` over the basis of `a`. `b` may be over more primes than `a`.
    pub fn sub(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_pair("subtract", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::DIFFERENCE, a, b);
        }
        let mut difference = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut difference, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().sub_assign(modulus, limb, &b[block]));
        });
        Ok(difference)
    }

    /// `a * b` over the basis of `a`, in the evaluation domain. `b` may be over more primes than `a`.
    pub fn mul(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_domain("multiply", a, Domain::Evaluation)?;
        self.check_pair("multiply", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::PRODUCT, a, b);
        }
        let mut product = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut product, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().mul_assign(modulus, limb, &b[block]));
        });
        Ok(product)
    }

    /// `a += b`. `b` may be over more primes than `a`.
    pub fn add_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_pair("add", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::SUM, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().add_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `a -= b`. `b` may be over more primes than `a`.
    pub fn sub_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_pair("subtract", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::DIFFERENCE, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().sub_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `a = -a`.
    pub fn neg_assign(&self, a: &mut Poly) -> Result<(), RingError> {
        self.check_own("negate", a)?;
        if let Some(on) = self.on() {
            return on.unary_assign(self, kernel::NEGATIVE, a);
        }
        self.for_each_limb(a, |_, prime, limb| self.kernels().neg_assign(self.modulus(prime), limb));
        Ok(())
    }

    /// `a *= b` in the evaluation domain. `b` may be over more primes than `a`.
    pub fn mul_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_domain("multiply", a, Domain::Evaluation)?;
        self.check_pair("multiply", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::PRODUCT, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().mul_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `acc += a * b` in the evaluation domain. `a` and `b` may have more chain primes than `acc`.
    pub fn mul_add_assign(&self, acc: &mut Poly, a: &Poly, b: &Poly) -> Result<(), RingError> {
        self.check_domain("multiply-add", acc, Domain::Evaluation)?;
        self.check_pair("multiply-add", acc, a)?;
        self.check_pair("multiply-add", acc, b)?;
        acc.words.inherit(a.is_secret() || b.is_secret());
        if let Some(on) = self.on() {
            return on.add_product(self, acc, a, b);
        }
        let basis = acc.basis;
        self.for_each_limb(acc, |i, prime, limb| {
            let (a, b) = (a.limb_over(basis, i), b.limb_over(basis, i));
            self.kernels().mul_add_assign(self.modulus(prime), limb, a, b);
        });
        Ok(())
    }

    /// The tensor product `(a0 b0, a0 b1 + a1 b0, a1 b1)` over `basis`, in the evaluation domain. The operands may be
    /// over more primes.
    pub fn tensor(&self, a: [&Poly; 2], b: [&Poly; 2], basis: Basis) -> Result<[Poly; 3], RingError> {
        for operand in a.into_iter().chain(b) {
            self.check_domain("tensor product", operand, Domain::Evaluation)?;
            if !operand.basis.contains(basis) {
                return Err(RingError::Basis { operation: "tensor product", found: operand.basis, needed: basis });
            }
        }
        if let Some(on) = self.on() {
            return on.tensor(self, a, b, basis);
        }
        let operands = [a[0], a[1], b[0], b[1]];
        let mut out: [Poly; 3] = std::array::from_fn(|_| self.blank_from(&operands, basis, Domain::Evaluation));
        let [d0, d1, d2] = &mut out;
        let stride = self.stride();
        let limbs =
            d0.words.par_chunks_mut(stride).zip(d1.words.par_chunks_mut(stride)).zip(d2.words.par_chunks_mut(stride));
        let (n, index) = (self.degree(), self.prime_index(basis));
        limbs.enumerate().for_each(|(i, ((d0, d1), d2))| {
            self.kernels().tensor(
                self.modulus(index(i)),
                a.map(|p| p.limb_over(basis, i)),
                b.map(|p| p.limb_over(basis, i)),
                [&mut d0[..n], &mut d1[..n], &mut d2[..n]],
            );
        });
        Ok(out)
    }

    /// `a *= factor` for an integer factor.
    pub fn scale_assign(&self, a: &mut Poly, factor: i128) -> Result<(), RingError> {
        self.check_own("scale", a)?;
        if let Some(on) = self.on() {
            return on.scale_assign(self, a, factor);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let modulus = self.modulus(prime);
            self.kernels().scale_assign(modulus, limb, modulus.shoup(modulus.from_i128(factor)));
        });
        Ok(())
    }

    /// `sum_i factor_i * poly_i` over `basis`, for integer factors. The polynomials may be over more primes.
    ///
    /// # Errors
    /// If there are no terms, or a polynomial is of another ring, in another domain than the first or lacks primes.
    pub fn sum_of_multiples(&self, terms: &[(&Poly, i128)], basis: Basis) -> Result<Poly, RingError> {
        const OPERATION: &str = "sum of multiples";
        let Some(((first, factor), others)) = terms.split_first() else {
            return Err(RingError::Length { what: "the terms of a sum", found: 0, needed: "at least one" });
        };
        for (poly, _) in terms {
            self.check_domain(OPERATION, poly, first.domain)?;
            if !poly.basis.contains(basis) {
                return Err(RingError::Basis { operation: OPERATION, found: poly.basis, needed: basis });
            }
        }
        if let Some(on) = self.on() {
            return on.sum_of_multiples(self, terms, basis);
        }
        let mut sum = self.blank(basis, first.domain);
        sum.words.inherit(terms.iter().any(|(poly, _)| poly.is_secret()));
        self.for_each_limb(&mut sum, |i, prime, limb| {
            let (kernels, modulus) = (self.kernels(), self.modulus(prime));
            let word = |factor: i128| modulus.shoup(modulus.from_i128(factor));
            let others: Vec<(&[u32], Shoup)> = others.iter().map(|(p, f)| (p.limb_over(basis, i), word(*f))).collect();
            in_blocks(limb, first.limb_over(basis, i), |limb, block| {
                kernels.scale_assign(modulus, limb, word(*factor));
                for (poly, factor) in &others {
                    kernels.add_scaled_assign(modulus, limb, &poly[block.clone()], *factor);
                }
            });
        });
        Ok(sum)
    }

    /// `a *= X^(n/2)`, which multiplies every complex slot by `i`. Standard ring, evaluation domain.
    pub fn mul_imaginary_assign(&self, a: &mut Poly) -> Result<(), RingError> {
        self.check_domain("multiply by i", a, Domain::Evaluation)?;
        if self.kind() != RingKind::Standard {
            return Err(RingError::Galois { found: self.degree() as u64 / 2 });
        }
        if let Some(on) = self.on() {
            return on.unary_assign(self, kernel::TIMES_IMAGINARY, a);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let table = self.table(prime);
            let (low, high) = limb.split_at_mut(limb.len() / 2);
            let modulus = &table.modulus;
            self.kernels().scale_assign(modulus, low, modulus.shoup(table.imaginary));
            self.kernels().scale_assign(modulus, high, modulus.shoup(modulus.neg(table.imaginary)));
        });
        Ok(())
    }

    /// Adds the constant polynomial `constant` (an integer). Evaluation domain.
    pub fn add_constant_assign(&self, a: &mut Poly, constant: i128) -> Result<(), RingError> {
        self.check_domain("add a constant", a, Domain::Evaluation)?;
        if let Some(on) = self.on() {
            return on.add_constant(self, a, constant);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let modulus = self.modulus(prime);
            let residue = modulus.to_montgomery(modulus.from_i128(constant));
            self.kernels().add_word_assign(modulus, limb, residue);
        });
        Ok(())
    }

    /// The image under `X -> X^galois`, in the polynomial's domain.
    ///
    /// # Errors
    /// If the map is no automorphism: `galois` must be odd (1 modulo 4 in the conjugate-invariant ring) and below the
    /// order of the ring's root of unity.
    pub fn automorphism(&self, poly: &Poly, galois: u64) -> Result<Poly, RingError> {
        self.check_own("automorphism", poly)?;
        if poly.domain == Domain::Coefficient {
            return self.coefficient_automorphism(poly, galois);
        }
        let permutation = self.permutation(galois)?;
        if let Some(on) = self.on() {
            return on.automorphisms(self, poly, &[galois]);
        }
        let mut result = self.blank_from(&[poly], poly.basis, Domain::Evaluation);
        self.for_each_limb(&mut result, |i, _, limb| self.kernels().permute(&permutation, poly.limb(i), limb));
        Ok(result)
    }
}

impl Ring {
    /// Coefficient `i` moves to `i * galois`, with the sign of `X^n = -1`; in the conjugate-invariant ring `X^i + X^-i`
    /// moves to `X^(i galois) + X^(-i galois)`.
    fn coefficient_automorphism(&self, poly: &Poly, galois: u64) -> Result<Poly, RingError> {
        self.permutation(galois)?;
        if let Some(on) = self.on() {
            return on.coefficient_map(self, poly, galois as u32, 0);
        }
        let n = self.degree() as u64;
        let half = u64::from(self.kind().prime_step(self.degree())) / 2;
        let mut result = self.blank_from(&[poly], poly.basis, Domain::Coefficient);
        self.for_each_limb(&mut result, |i, prime, limb| {
            let modulus = self.modulus(prime);
            for (k, &coefficient) in poly.limb(i).iter().enumerate() {
                // X^half = -1; in the conjugate-invariant ring, where half = 2n, X^e = -X^-(2n - e).
                let exponent = k as u64 * galois % (2 * half);
                let (mut exponent, mut negative) = (exponent % half, exponent >= half);
                if exponent > n {
                    (exponent, negative) = (half - exponent, !negative);
                }
                limb[exponent as usize] = if negative { modulus.neg(coefficient) } else { coefficient };
            }
        });
        Ok(result)
    }
}
