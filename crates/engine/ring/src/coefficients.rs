//! Conversion of integer coefficients to polynomials and back, and serialisation of residues.

use zeroize::Zeroizing;

use crate::basis::{Basis, Domain};
use crate::declassify::declassify;
use crate::error::RingError;
use crate::modular::{Modulus, Shoup};
use crate::poly::Poly;
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
        let poly = &*self.here(poly)?;
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
        let poly = &*self.here(poly)?;
        let modulus = self.modulus(0);
        Ok(Zeroizing::new(poly.limb(0).iter().map(|&c| modulus.add(c, 1) as u8).collect()))
    }

    /// Number of bytes that [`Ring::write_residues`] appends for a polynomial over `basis`.
    pub fn residue_bytes(&self, basis: Basis) -> usize {
        self.some_residue_bytes(basis, self.degree())
    }

    /// Number of bytes that [`Ring::write_some_residues`] appends for `count` coefficients over `basis`.
    pub fn some_residue_bytes(&self, basis: Basis, count: usize) -> usize {
        self.primes(basis).map(|q| (count * bits_of(q) as usize).div_ceil(8)).sum()
    }

    /// Appends the residues of `poly`, limb after limb. Each residue has as many bits as its prime, least significant
    /// bit first.
    ///
    /// # Panics
    /// If only a device has it: see [`Ring::fetch`].
    pub fn write_residues(&self, poly: &Poly, bytes: &mut Vec<u8>) {
        assert!(poly.words.is_here(), "a polynomial on a device is fetched before it is written");
        bytes.reserve(self.residue_bytes(poly.basis()));
        for (limb, q) in poly.limbs().zip(self.primes(poly.basis())) {
            pack_words(limb.iter().copied(), bits_of(q), bytes);
        }
    }

    /// Appends the residues of the coefficients at `places` alone, in the order of `places`, as
    /// [`Ring::write_residues`] does. The bits of each limb are filled up to whole bytes. Coefficient domain.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain, or a place is not below the degree.
    pub fn write_some_residues(&self, poly: &Poly, places: &[usize], bytes: &mut Vec<u8>) -> Result<(), RingError> {
        self.check_domain("write coefficients", poly, Domain::Coefficient)?;
        self.check_places(places)?;
        let poly = &*self.here(poly)?;
        bytes.reserve(self.some_residue_bytes(poly.basis(), places.len()));
        for (limb, q) in poly.limbs().zip(self.primes(poly.basis())) {
            pack_words(places.iter().map(|&place| limb[place]), bits_of(q), bytes);
        }
        Ok(())
    }

    /// Reads the bytes that [`Ring::write_residues`] wrote for a polynomial over `basis` in `domain`.
    ///
    /// # Errors
    /// If `bytes` has another length, or a residue is not below its prime.
    pub fn read_residues(&self, bytes: &[u8], basis: Basis, domain: Domain) -> Result<Poly, RingError> {
        let mut poly = self.blank(basis, domain);
        let mut limbs = self.packed_limbs(bytes, basis, self.degree())?;
        for (i, prime) in self.prime_indices(basis).enumerate() {
            let q = self.modulus(prime).q;
            unpack_words(limbs.next().unwrap_or_default(), bits_of(q), poly.limb_mut(i).iter_mut());
            check_residues(poly.limb(i), q)?;
        }
        Ok(poly)
    }

    /// Reads the bytes that [`Ring::write_some_residues`] wrote. All other coefficients are zero.
    ///
    /// # Errors
    /// If a place is not below the degree, `bytes` has another length, or a residue is not below its prime.
    pub fn read_some_residues(&self, bytes: &[u8], places: &[usize], basis: Basis) -> Result<Poly, RingError> {
        self.check_places(places)?;
        let mut poly = self.zero(basis, Domain::Coefficient);
        let mut limbs = self.packed_limbs(bytes, basis, places.len())?;
        let mut residues = vec![0; places.len()];
        for (i, prime) in self.prime_indices(basis).enumerate() {
            let q = self.modulus(prime).q;
            unpack_words(limbs.next().unwrap_or_default(), bits_of(q), residues.iter_mut());
            check_residues(&residues, q)?;
            let limb = poly.limb_mut(i);
            places.iter().zip(&residues).for_each(|(&place, &residue)| limb[place] = residue);
        }
        Ok(poly)
    }

    /// The bytes of each limb of `count` packed coefficients.
    fn packed_limbs<'b>(
        &self,
        bytes: &'b [u8],
        basis: Basis,
        count: usize,
    ) -> Result<impl Iterator<Item = &'b [u8]>, RingError> {
        if bytes.len() != self.some_residue_bytes(basis, count) {
            let what = "a serialised polynomial";
            return Err(RingError::Length { what, found: bytes.len(), needed: "the bytes of its basis" });
        }
        let mut rest = bytes;
        let lengths: Vec<usize> = self.primes(basis).map(|q| (count * bits_of(q) as usize).div_ceil(8)).collect();
        Ok(lengths.into_iter().map(move |length| {
            let (limb, tail) = rest.split_at(length);
            rest = tail;
            limb
        }))
    }

    fn check_places(&self, places: &[usize]) -> Result<(), RingError> {
        match places.iter().find(|&&place| place >= self.degree()) {
            None => Ok(()),
            Some(&place) => Err(RingError::Length { what: "a place", found: place, needed: "below the ring degree" }),
        }
    }
}

/// Number of bits of a residue modulo a prime.
fn bits_of(prime: u32) -> u32 {
    prime.ilog2() + 1
}

/// Appends the lowest `bits` bits, 1 to 32, of each word, least significant bit first, filled up to whole bytes. The
/// higher bits must be zero.
fn pack_words(words: impl Iterator<Item = u32>, bits: u32, bytes: &mut Vec<u8>) {
    let (mut pending, mut filled) = (0u64, 0);
    for word in words {
        pending |= u64::from(word) << filled;
        filled += bits;
        if filled >= u32::BITS {
            bytes.extend_from_slice(&(pending as u32).to_le_bytes());
            pending >>= u32::BITS;
            filled -= u32::BITS;
        }
    }
    bytes.extend_from_slice(&pending.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Reads what [`pack_words`] wrote: one word for each place. Words beyond the bytes are zero.
fn unpack_words<'w>(packed: &[u8], bits: u32, places: impl Iterator<Item = &'w mut u32>) {
    let (words, tail) = packed.as_chunks();
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    let mut words = words.iter().chain(Some(&last)).map(|&word| u32::from_le_bytes(word));
    let (mut pending, mut filled) = (0u64, 0);
    for place in places {
        if filled < bits {
            pending |= u64::from(words.next().unwrap_or(0)) << filled;
            filled += u32::BITS;
        }
        *place = (pending & ((1 << bits) - 1)) as u32;
        pending >>= bits;
        filled -= bits;
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
