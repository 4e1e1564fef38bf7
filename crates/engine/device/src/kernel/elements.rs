//! Kernels that compute each residue from others at its position, or from images.

use super::{Address, Basis, Limbs, MAX_PRIMES, MAX_TERMS, Ring, Shoup};

/// Arguments of kernels that compute each residue from those at the same position.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ElementArgs {
    /// The ring.
    pub ring: Ring,
    /// The primes for which it is computed.
    pub basis: Basis,
    /// The result.
    pub out: Limbs,
    /// An operand.
    pub a: Limbs,
    /// An operand.
    pub b: Limbs,
}

/// Arguments of [`SCALE`](super::SCALE), [`ADD_SCALED`](super::ADD_SCALED) and [`ADD_WORDS`](super::ADD_WORDS).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FactorArgs {
    /// The other arguments.
    pub of: ElementArgs,
    /// The factor of each limb, or the word as its value.
    pub factor: [Shoup; MAX_PRIMES],
}

/// Arguments of [`TENSOR`](super::TENSOR).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TensorArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the results.
    pub basis: Basis,
    /// An operand.
    pub a: [Limbs; 2],
    /// An operand.
    pub b: [Limbs; 2],
    /// The results.
    pub out: [Address; 3],
}

/// A factor, and the two components that it multiplies.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Term {
    /// The factor.
    pub factor: Address,
    /// The components.
    pub values: [Address; 2],
}

/// Arguments of [`PRODUCT_SUMS`](super::PRODUCT_SUMS).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SumsArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// The sums.
    pub out: [Address; 2],
    /// Words from one limb of a factor to the next.
    pub factor_stride: u32,
    /// log2 of the residues that share a word of a factor.
    pub log_run: u32,
    /// 1 to add to what is there.
    pub accumulate: u32,
    /// Number of terms.
    pub terms: u32,
    /// The terms.
    pub term: [Term; MAX_TERMS],
}

/// Arguments of [`AUTOMORPHISMS`](super::AUTOMORPHISMS).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AutomorphismArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis.
    pub basis: Basis,
    /// The polynomial.
    pub source: Address,
    /// The sum.
    pub out: Address,
    /// Number of automorphisms.
    pub terms: u32,
    /// Their Galois elements.
    pub galois: [u32; MAX_TERMS],
}
