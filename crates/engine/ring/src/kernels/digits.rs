//! The constants of a decomposition into signed digits.

use crate::modular::{Modulus, Shoup};

/// The constants with which kernels decompose coefficients into digits.
pub(crate) struct DigitTable {
    pub(crate) log2_base: u32,
    pub(crate) drop: u32,
    /// Half the modulus, rounded down.
    pub(crate) half: u64,
    /// The modulus.
    pub(crate) product: u64,
    /// Added to a magnitude: makes the digits non-negative and rounds away the lowest `drop` bits.
    pub(crate) offset: i64,
    /// The second prime, and the constants that combine the residues modulo both primes into an integer.
    pub(crate) second: Option<Composition>,
}

impl DigitTable {
    /// Number of primes of the modulus.
    pub(crate) fn primes(&self) -> usize {
        if self.second.is_some() { 2 } else { 1 }
    }
}

/// `x = x_1 + q_1 ((x_2 - x_1) / q_1 mod q_2)`.
pub(crate) struct Composition {
    pub(crate) modulus: Modulus,
    /// `q_1`.
    pub(crate) first: u32,
    /// A multiple of `q_2` that is at least `q_1`.
    pub(crate) lift: u32,
    /// `1 / q_1 mod q_2`.
    pub(crate) inverse: Shoup,
}
