//! Conversion of integer coefficients to polynomials and back, and serialisation of residues.

use zeroize::Zeroizing;

use crate::declassify::declassify;
use crate::error::RingError;
use crate::modular::{Modulus, Shoup};
use crate::poly::{Basis, Domain, Poly};
use crate::ring::Ring;

impl Ring {
    /// The polynomial with the given small signed coefficients, in the coefficient domain.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn from_i32(&self, coefficients: &[i32], basis: Basis) -> Result<Poly, RingError> {
        self.embed(coefficients, basis, |modulus, &c| modulus.from_i32(c))
    }

    /// The polynomial with the given signed coefficients, in the coefficient domain.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn from_i64(&self, coefficients: &[i64], basis: Basis) -> Result<Poly, RingError> {
        self.embed(coefficients, basis, |modulus, &c| modulus.from_i64(c))
    }

    /// The polynomial with the given signed coefficients, in the coefficient domain.
    ///
    /// # Errors
    /// If there are not exactly `n` of them.
    pub fn from_i128(&self, coefficients: &[i128], basis: Basis) -> Result<Poly, RingError> {
        self.embed(coefficients, basis, |modulus, &c| modulus.from_i128(c))
    }

    fn embed<T: Sync>(
        &self,
        coefficients: &[T],
        basis: Basis,
        residue: impl Fn(&crate::modular::Modulus, &T) -> u32 + Sync,
    ) -> Result<Poly, RingError> {
        if coefficients.len() != self.degree() {
            let what = "the list of coefficients";
            return Err(RingError::Length { what, found: coefficients.len(), needed: "the ring degree" });
        }
        let mut poly = self.blank(basis, Domain::Coefficient);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            let modulus = self.modulus(prime);
            limb.iter_mut().zip(coefficients).for_each(|(x, c)| *x = residue(modulus, c));
        });
        Ok(poly)
    }

    /// The coefficients as integers in `(-Q/2, Q/2]`, rounded to the nearest double. Coefficient domain.
    ///
    /// Exact for coefficients below 2^53, for every modulus: with centred mixed-radix digits the upper digits of a
    /// small number are zero.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain or over special primes.
    pub fn to_f64(&self, poly: &Poly) -> Result<Zeroizing<Vec<f64>>, RingError> {
        self.check_domain("read coefficients", poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), poly.basis().without_special());
        if found != needed {
            return Err(RingError::Basis { operation: "read coefficients", found, needed });
        }
        let moduli: Vec<&Modulus> = self.prime_indices(found).map(|prime| self.modulus(prime)).collect();
        let count = moduli.len();
        // inverses[i][j] = q_j^-1 mod q_i
        let inverses: Vec<Vec<Shoup>> = (0..count)
            .map(|i| {
                let modulus = moduli[i];
                (0..i).map(|j| modulus.shoup(modulus.inv(moduli[j].q % modulus.q))).collect()
            })
            .collect();
        let prime = |i: usize| f64::from(moduli[i].q);
        let mut digits = Zeroizing::new(vec![0i64; count]);
        // No branch and no division depends on a coefficient, because coefficients are a client's messages.
        let coefficient = |x: usize| {
            for i in 0..count {
                let modulus = moduli[i];
                let mut residue = poly.limb(i)[x];
                for j in 0..i {
                    let difference = modulus.sub(residue, modulus.from_i64(digits[j]));
                    residue = modulus.mul_shoup(difference, inverses[i][j]);
                }
                digits[i] = modulus.centred(residue);
            }
            // The lowest two digits fit 60 bits. They are summed exactly, so that small coefficients are exact.
            let low = digits[0] + if count > 1 { digits[1] * i64::from(moduli[0].q) } else { 0 };
            let high = (2..count).rev().fold(0.0, |sum, i| sum * prime(i) + digits[i] as f64);
            let step = if count > 1 { prime(0) * prime(1) } else { 1.0 };
            high * step + low as f64
        };
        Ok(Zeroizing::new((0..self.degree()).map(coefficient).collect()))
    }

    /// The coefficients of a ternary polynomial plus one, as 0, 1 or 2, without a branch on them. Coefficient domain.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain.
    pub fn ternary_digits(&self, poly: &Poly) -> Result<Zeroizing<Vec<u8>>, RingError> {
        self.check_domain("read ternary coefficients", poly, Domain::Coefficient)?;
        let modulus = self.modulus(0);
        Ok(Zeroizing::new(poly.limb(0).iter().map(|&c| modulus.add(c, 1) as u8).collect()))
    }

    /// Number of bytes that [`Ring::write_residues`] appends for a polynomial over `basis`.
    pub fn residue_bytes(&self, basis: Basis) -> usize {
        let bits = |q: u32| q.ilog2() as usize + 1;
        self.primes(basis).map(|q| (self.degree() * bits(q)).div_ceil(8)).sum()
    }

    /// Appends the residues of `poly`, limb after limb. Each residue has as many bits as its prime, least significant
    /// bit first.
    pub fn write_residues(&self, poly: &Poly, bytes: &mut Vec<u8>) {
        bytes.reserve(self.residue_bytes(poly.basis()));
        for (limb, q) in poly.limbs().zip(self.primes(poly.basis())) {
            let bits = q.ilog2() + 1;
            let (mut pending, mut filled) = (0u64, 0);
            for &residue in limb {
                pending |= u64::from(residue) << filled;
                filled += bits;
                // Degrees are multiples of 32, so that a limb ends with a whole word.
                if filled >= u32::BITS {
                    bytes.extend_from_slice(&(pending as u32).to_le_bytes());
                    pending >>= u32::BITS;
                    filled -= u32::BITS;
                }
            }
        }
    }

    /// Reads the bytes that [`Ring::write_residues`] wrote for a polynomial over `basis` in `domain`.
    ///
    /// # Errors
    /// If `bytes` has another length, or a residue is not below its prime.
    pub fn read_residues(&self, bytes: &[u8], basis: Basis, domain: Domain) -> Result<Poly, RingError> {
        if bytes.len() != self.residue_bytes(basis) {
            let what = "a serialised polynomial";
            return Err(RingError::Length { what, found: bytes.len(), needed: "the bytes of its basis" });
        }
        let mut poly = self.blank(basis, domain);
        let mut rest = bytes;
        for (i, prime) in self.prime_indices(basis).enumerate() {
            let q = self.modulus(prime).q;
            let bits = q.ilog2() + 1;
            let (packed, tail) = rest.split_at((self.degree() * bits as usize).div_ceil(8));
            rest = tail;
            let mut words = packed.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
            let (mut pending, mut filled) = (0u64, 0);
            for residue in poly.limb_mut(i) {
                if filled < bits {
                    pending |= u64::from(words.next().unwrap_or(0)) << filled;
                    filled += u32::BITS;
                }
                *residue = (pending & ((1 << bits) - 1)) as u32;
                pending >>= bits;
                filled -= bits;
            }
            check_residues(poly.limb(i), q)?;
        }
        Ok(poly)
    }
}

/// Checks that residues are below their prime. No branch depends on one of them, except on whether all are valid.
pub(crate) fn check_residues(residues: &[u32], modulus: u32) -> Result<(), RingError> {
    let largest = residues.iter().fold(0, |largest: u32, &residue| largest.max(residue));
    if declassify(largest < modulus) {
        return Ok(());
    }
    let index = residues.iter().position(|&residue| residue >= modulus).unwrap_or(0);
    Err(RingError::Residue { index, modulus })
}
