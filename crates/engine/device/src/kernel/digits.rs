//! Signed digits, and maps of coefficients.

use super::{Address, Basis, MAX_KEYS, Ring, Shoup};

/// Arguments of [`SIGNED_DIGITS`](super::SIGNED_DIGITS).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DigitArgs {
    /// The ring.
    pub ring: Ring,
    /// Coefficients over one or two primes.
    pub source: Address,
    /// Words from the residues modulo the first prime to the residues modulo the second.
    pub source_prime: u64,
    /// `[prime][component][level]`.
    pub out: Address,
    /// One or two.
    pub primes: u32,
    /// Levels of all components.
    pub rows: u32,
    /// The first row of this component.
    pub first: u32,
    /// Levels of a component.
    pub levels: u32,
    /// Bits of a digit.
    pub log2_base: u32,
    /// Bits that are rounded away.
    pub drop: u32,
    /// Half the modulus.
    pub half: u64,
    /// The modulus.
    pub product: u64,
    /// Added to magnitudes.
    pub offset: i64,
    /// The first of two primes.
    pub first_prime: u32,
    /// A multiple of the second that is no less.
    pub lift: u32,
    /// 1 / the first, modulo the second.
    pub inverse: Shoup,
}

/// A key, and the exponent that its product is rotated by.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RotationTerm {
    /// The key.
    pub key: Address,
    /// The exponent.
    pub exponent: u32,
}

/// Arguments of [`ROTATED_DIFFERENCES`](super::ROTATED_DIFFERENCES).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RotationArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// `[prime][digit]`.
    pub raised: Address,
    /// Number of digits.
    pub digits: u32,
    /// Words: for each prime the powers of its root of unity.
    pub powers: Address,
    /// What is added to.
    pub out: [Address; 2],
    /// Number of terms.
    pub terms: u32,
    /// The terms.
    pub term: [RotationTerm; MAX_KEYS],
}

/// Arguments of [`COEFFICIENT_MAP`](super::COEFFICIENT_MAP).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis.
    pub basis: Basis,
    /// The polynomial.
    pub source: Address,
    /// Its image.
    pub out: Address,
    /// A Galois element.
    pub galois: u32,
    /// The exponent of the power of `X`.
    pub shift: u32,
}
