//! Conversions between bases, divisions, and products with keys.

use bytemuck::NoUninit;

use super::{Address, Basis, Limbs, MAX_KEYS, Ring, Shoup};

/// The primes of a digit, in a list of limbs.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Digit {
    /// The first in the list.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Arguments of [`CONVERT`](super::CONVERT).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvertArgs {
    /// The ring.
    pub ring: Ring,
    /// The primes of the results.
    pub basis: Basis,
    /// How many of them.
    pub targets: u32,
    /// Number of digits.
    pub digits: u32,
    /// Plain residues.
    pub source: Address,
    /// Of [`Digit`].
    pub digit: Address,
    /// Words: the list of limbs.
    pub limbs: Address,
    /// Words: `[target][digit]`.
    pub offsets: Address,
    /// Words: `[target]`, as the list.
    pub factors: Address,
    /// Length of the list.
    pub listed: u32,
    /// The polynomial of the digits; no words if no target is in a digit.
    pub own: Limbs,
    /// `[target][digit]`.
    pub out: Address,
}

/// Arguments of [`QUOTIENT`](super::QUOTIENT).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QuotientArgs {
    /// The ring.
    pub ring: Ring,
    /// `count` limbs, then the limb of the result.
    pub words: Address,
    /// Number of sources.
    pub count: u32,
    /// Fixed-point position.
    pub shift: u32,
    /// Words.
    pub reciprocals: Address,
}

/// A prime that a division keeps.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct Kept {
    /// The limb of the dividend, or [`NO_LIMB`](super::NO_LIMB).
    pub limb: u32,
    /// The factor.
    pub inverse: Shoup,
}

/// Arguments of [`DIVIDE`](super::DIVIDE).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DivideArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the result.
    pub basis: Basis,
    /// The dividend.
    pub dividend: Address,
    /// The remainder, over the basis of the result.
    pub remainder: Address,
    /// The result.
    pub out: Address,
    /// Of [`Kept`], one for each limb.
    pub kept: Address,
}

/// A key, and the automorphism after the product with it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KeyTerm {
    /// The key.
    pub key: Address,
    /// Its basis.
    pub basis: Basis,
    /// Its digits.
    pub digits: u32,
    /// A Galois element, 1 for none.
    pub galois: u32,
}

/// Arguments of [`KEY_PRODUCTS`](super::KEY_PRODUCTS).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeyArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the results.
    pub basis: Basis,
    /// `[prime][digit]`.
    pub raised: Address,
    /// Number of digits.
    pub digits: u32,
    /// The results.
    pub out: [Address; 2],
    /// 1 to add to what is there.
    pub accumulate: u32,
    /// Number of keys.
    pub terms: u32,
    /// The keys.
    pub term: [KeyTerm; MAX_KEYS],
}
