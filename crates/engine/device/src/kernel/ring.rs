//! Primes, rings, and where limbs are.

use bytemuck::NoUninit;

use super::{Address, MAX_SOURCES};

/// A constant factor with its quotient.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Shoup {
    /// The factor.
    pub value: u32,
    /// `floor(value 2^32 / q)`.
    pub quotient: u32,
}

/// A prime with its constants.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Prime {
    /// The prime.
    pub q: u32,
    /// `-1/q` modulo 2^32.
    pub neg_inv: u32,
    /// 2^32 modulo the prime.
    pub r: u32,
    /// 2^64 modulo the prime.
    pub r2: u32,
    /// To Montgomery form.
    pub to_montgomery: Shoup,
    /// `1/n` out of Montgomery form.
    pub degree_scale: Shoup,
    /// The square root of -1 at positions below `n/2`, or the root of the fold.
    pub imaginary: Shoup,
    /// Its negative.
    pub neg_imaginary: Shoup,
    /// 1/2.
    pub half: Shoup,
    /// Half of the root.
    pub half_imaginary: Shoup,
}

/// A ring in the memory of a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ring {
    /// Of [`Prime`].
    pub primes: Address,
    /// Of [`Shoup`]: for each prime the roots of the forward transform.
    pub forward: Address,
    /// The same for the inverse transform.
    pub inverse: Address,
    /// log2 of the degree.
    pub log_degree: u32,
    /// Words from one limb to the next.
    pub stride: u32,
    /// Primes of the chain.
    pub chain: u32,
    /// Primes of the chain, and terminal ones.
    pub own: u32,
    /// Primes of a digit.
    pub digit_len: u32,
    /// 1 for the conjugate-invariant ring.
    pub invariant: u32,
}

/// The primes of a polynomial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Basis {
    /// Primes of the chain.
    pub chain: u32,
    /// Primes of the chain, and terminal ones.
    pub own: u32,
}

/// Limbs that are computed with one after the other.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Many {
    /// The primes.
    pub basis: Basis,
    /// Limbs for each prime.
    pub per_prime: u32,
    /// 1 to leave the digit that a prime belongs to alone.
    pub skip: u32,
    /// How many limbs are listed; 0 for all.
    pub listed: u32,
    /// The list.
    pub list: [u32; MAX_SOURCES],
}

/// A polynomial over a basis.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Limbs {
    /// Its first word.
    pub words: Address,
    /// Its primes.
    pub basis: Basis,
}
