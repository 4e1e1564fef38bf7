//! Modulus switching: from the modulus `Q` of a basis to a small modulus `t`, for the encoding and decoding of exact
//! schemes.
//!
//! With `z_i = x (Q/q_i)^-1 mod q_i`, the centred `x` is `sum_i z_i Q/q_i - v Q` for `v = round(sum_i z_i / q_i)`, so
//! both `round(t x / Q)` and `x` modulo `t` are a sum over the primes of products of words, plus one rounded sum of
//! fractions (Halevi, Polyakov and Shoup, "An improved RNS variant of the BFV scheme", 2019, sections 2.2 and 2.3).
//! Fractions have 64 bits, so the rounded sum is off by one only if it is within `primes * 2^-34` of one half.

use zeroize::Zeroizing;

use crate::basis::{Basis, Domain};
use crate::coefficients::check_residues;
use crate::error::RingError;
use crate::modular::{Modulus, PRIME_LIMIT, Shoup};
use crate::poly::Poly;
use crate::ring::Ring;

/// The contribution of one prime of the basis, as multiples of its digit `z_i`.
struct Term {
    /// `(Q/q_i)^-1 mod q_i`, which computes the digit from the residue.
    inverse: Shoup,
    /// Added without rounding.
    factor: u32,
    /// In units of `2^-64`; the sum over all primes is rounded.
    fraction: u64,
}

impl Ring {
    /// `round(t x / Q)` modulo `t`, in `[0, t)`, for every coefficient `x` and the modulus `Q` of the polynomial's
    /// basis. Coefficient domain, chain primes alone.
    ///
    /// # Errors
    /// If `t` is even, below 3 or not below 2^30, or the polynomial's domain or basis is not as described.
    pub fn scale_round(&self, poly: &Poly, t: u32) -> Result<Zeroizing<Vec<u32>>, RingError> {
        let modulus = self.check_modulus_switch("scale and round", poly, t)?;
        let term = |i: usize| {
            let q = self.modulus(i).q;
            let fraction = (u128::from(t % q) << 64) / u128::from(q);
            Term { inverse: self.digit_inverse(i, poly.basis()), factor: t / q, fraction: fraction as u64 }
        };
        let terms: Vec<Term> = (0..poly.basis().chain).map(term).collect();
        Ok(self.sum_of_digits(&*self.here(poly)?, &terms, &modulus, 1))
    }

    /// `x / Q` in units of `2^-32`, rounded, for every coefficient `x` and the modulus `Q` of the polynomial's basis.
    /// Coefficient domain, chain primes alone.
    ///
    /// # Errors
    /// If the polynomial's domain or basis is not as described.
    pub fn fractions(&self, poly: &Poly) -> Result<Zeroizing<Vec<u32>>, RingError> {
        const OPERATION: &str = "read fractions";
        self.check_domain(OPERATION, poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), Basis::chain(poly.basis().chain));
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        // x / Q is sum_i z_i / q_i modulo 1. With reciprocals rounded to nearest, the error of each term is less than
        // 2^-34. Its mean is subtracted: words of a mask multiply the bits of a secret, whose mean is not zero.
        let terms: Vec<(Shoup, u64)> =
            (0..found.chain).map(|i| (self.digit_inverse(i, found), reciprocal(self.modulus(i).q))).collect();
        let mean: i64 =
            terms.iter().enumerate().map(|(i, &(_, reciprocal))| mean_error(self.modulus(i).q, reciprocal)).sum();
        let start = (1u64 << 31).wrapping_sub(mean.cast_unsigned());
        let poly = &*self.here(poly)?;
        let coefficient = |x: usize| {
            let sum = terms.iter().enumerate().fold(start, |sum, (i, &(inverse, reciprocal))| {
                let digit = self.modulus(i).mul_shoup(poly.limb(i)[x], inverse);
                sum.wrapping_add(u64::from(digit).wrapping_mul(reciprocal))
            });
            (sum >> 32) as u32
        };
        Ok(Zeroizing::new((0..self.degree()).map(coefficient).collect()))
    }

    /// `x` modulo `t`, in `[0, t)`, for every coefficient `x` in `(-Q/2, Q/2]` with the modulus `Q` of the polynomial's
    /// basis. Coefficient domain, chain primes alone.
    ///
    /// # Errors
    /// As for [`Ring::scale_round`].
    pub fn remainders(&self, poly: &Poly, t: u32) -> Result<Zeroizing<Vec<u32>>, RingError> {
        let modulus = self.check_modulus_switch("take remainders", poly, t)?;
        let primes = 0..poly.basis().chain;
        let product = |skipped: Option<usize>| {
            let others = primes.clone().filter(|&i| Some(i) != skipped);
            others.fold(1, |product, i| modulus.mul(product, self.modulus(i).q % t))
        };
        let term = |i: usize| Term {
            inverse: self.digit_inverse(i, poly.basis()),
            factor: product(Some(i)),
            fraction: ((1u128 << 64) / u128::from(self.modulus(i).q)) as u64,
        };
        let terms: Vec<Term> = primes.clone().map(term).collect();
        Ok(self.sum_of_digits(&*self.here(poly)?, &terms, &modulus, -i64::from(product(None))))
    }

    /// `a *= factor^-1` modulo every prime of its basis, in any domain.
    ///
    /// # Errors
    /// If a prime of the basis divides the factor.
    pub fn unscale_assign(&self, a: &mut Poly, factor: u32) -> Result<(), RingError> {
        const OPERATION: &str = "divide by a constant";
        self.check_own(OPERATION, a)?;
        if self.primes(a.basis()).any(|q| factor.is_multiple_of(q)) {
            let needed = "a number that no prime of the basis divides";
            return Err(RingError::Factor { operation: OPERATION, found: factor, needed });
        }
        if let Some(on) = self.on() {
            return on.scale_assign_by(self, a, |prime| {
                let modulus = self.modulus(prime);
                modulus.shoup(modulus.inv(factor % modulus.q))
            });
        }
        self.for_each_limb(a, |_, prime, limb| {
            let modulus = self.modulus(prime);
            self.kernels().scale_assign(modulus, limb, modulus.shoup(modulus.inv(factor % modulus.q)));
        });
        Ok(())
    }

    /// The coefficients of a polynomial over the first prime, as plain residues.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain or over other primes.
    pub fn residues(&self, poly: &Poly) -> Result<Zeroizing<Vec<u32>>, RingError> {
        const OPERATION: &str = "read residues";
        self.check_domain(OPERATION, poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), Basis::chain(1));
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        Ok(Zeroizing::new(self.here(poly)?.limb(0).to_vec()))
    }

    /// The values of a polynomial over the first prime at the roots of unity, as plain residues in bit-reversed order:
    /// position `i` holds the value at `psi^(2 rev(i) + 1)` in the standard ring.
    ///
    /// # Errors
    /// If the polynomial is in the coefficient domain or over other primes.
    pub fn to_values(&self, poly: &Poly) -> Result<Zeroizing<Vec<u32>>, RingError> {
        const OPERATION: &str = "read values";
        self.check_domain(OPERATION, poly, Domain::Evaluation)?;
        let (found, needed) = (poly.basis(), Basis::chain(1));
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        let modulus = self.modulus(0);
        let poly = &*self.here(poly)?;
        Ok(Zeroizing::new(poly.limb(0).iter().map(|&x| modulus.from_montgomery(x)).collect()))
    }

    /// The polynomial over the first prime with the given values, in the order of [`Ring::to_values`]. Evaluation
    /// domain.
    ///
    /// # Errors
    /// If there are not exactly `n` values or one is not below the prime.
    pub fn from_values(&self, values: &[u32]) -> Result<Poly, RingError> {
        let modulus = self.modulus(0);
        if values.len() != self.degree() {
            return Err(RingError::Length {
                what: "the list of values",
                found: values.len(),
                needed: "the ring degree",
            });
        }
        check_residues(values, modulus.q)?;
        let mut poly = self.blank(Basis::chain(1), Domain::Evaluation);
        poly.limb_mut(0).iter_mut().zip(values).for_each(|(x, &value)| *x = modulus.to_montgomery(value));
        Ok(poly)
    }

    fn check_modulus_switch(&self, operation: &'static str, poly: &Poly, t: u32) -> Result<Modulus, RingError> {
        self.check_domain(operation, poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), Basis::chain(poly.basis().chain));
        if found != needed {
            return Err(RingError::Basis { operation, found, needed });
        }
        if t.is_multiple_of(2) || !(3..PRIME_LIMIT).contains(&t) {
            let needed = "an odd modulus from 3 to 2^30";
            return Err(RingError::Factor { operation, found: t, needed });
        }
        Ok(Modulus::new(t))
    }

    /// `(Q/q_i)^-1 mod q_i`.
    fn digit_inverse(&self, i: usize, basis: Basis) -> Shoup {
        let modulus = self.modulus(i);
        let others = (0..basis.chain).filter(|&j| j != i);
        let product = others.fold(1, |product, j| modulus.mul(product, self.modulus(j).q % modulus.q));
        modulus.shoup(modulus.inv(product))
    }

    /// `sum_i factor_i z_i + whole * round(sum_i fraction_i z_i)` modulo `t`. No branch depends on a coefficient,
    /// because coefficients are a client's messages.
    fn sum_of_digits(&self, poly: &Poly, terms: &[Term], t: &Modulus, whole: i64) -> Zeroizing<Vec<u32>> {
        let coefficient = |x: usize| {
            let (mut sum, mut fraction) = (0u128, 1u128 << 63);
            for (i, term) in terms.iter().enumerate() {
                let digit = self.modulus(i).mul_shoup(poly.limb(i)[x], term.inverse);
                sum += u128::from(u64::from(digit) * u64::from(term.factor));
                fraction += u128::from(digit) * u128::from(term.fraction);
            }
            t.from_i128(sum as i128 + i128::from(whole) * (fraction >> 64) as i128)
        };
        Zeroizing::new((0..self.degree()).map(coefficient).collect())
    }
}

/// `2^64 / q`, rounded to nearest.
fn reciprocal(q: u32) -> u64 {
    (((1u128 << 64) + u128::from(q / 2)) / u128::from(q)) as u64
}

/// The mean error of a uniform residue times the rounded reciprocal of its prime, in units of `2^-64`.
fn mean_error(q: u32, reciprocal: u64) -> i64 {
    // The low word of q r is q r - 2^64, below q / 2 in magnitude.
    reciprocal.wrapping_mul(q.into()).cast_signed() / 2
}
