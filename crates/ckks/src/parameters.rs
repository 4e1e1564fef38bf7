//! CKKS parameter sets: a chain of primes cut into levels.

use std::sync::Arc;

use unspoken_ring::{Backend, Basis, Ring};
use unspoken_rlwe::{self as rlwe, ParametersLiteral, slot_count};

use crate::error::CkksError;

/// The numbers of a CKKS parameter set.
#[derive(Clone, Debug, PartialEq)]
pub struct CkksLiteral {
    /// Ring, primes, secret.
    pub rlwe: ParametersLiteral,
    /// Primes of level 0.
    pub base_primes: usize,
    /// Primes each further level adds: 1 or 2.
    pub primes_per_level: usize,
    /// Bits of the default scale, 20 to 60.
    pub scale_bits: f64,
}

/// A checked CKKS parameter set. Cheap to clone.
///
/// A ciphertext of level `l` lives over the first `base + l * primes_per_level` primes. A product of two vectors at level
/// `l` loses the primes of level `l`, whose product is close to the default scale.
#[derive(Clone, Debug)]
pub struct CkksParameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rlwe: rlwe::Parameters,
    base_primes: usize,
    primes_per_level: usize,
    scale: f64,
}

impl CkksParameters {
    /// Checks the literal and builds its ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the chain cannot be cut into levels, or as for [`rlwe::Parameters::new`].
    pub fn new(literal: CkksLiteral) -> Result<Self, CkksError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`CkksParameters::new`], on a backend of choice.
    ///
    /// # Errors
    /// As for [`CkksParameters::new`], or if the backend is not available here.
    pub fn with_backend(literal: CkksLiteral, backend: Backend) -> Result<Self, CkksError> {
        let CkksLiteral { rlwe, base_primes, primes_per_level, scale_bits } = literal;
        let refuse = |reason: String| CkksError::Parameters { name: rlwe.name.clone(), reason };
        let chain = rlwe.ring.chain.len();
        if !(1..=2).contains(&primes_per_level) {
            return Err(refuse(format!("{primes_per_level} primes per level; 1 or 2 are possible")));
        }
        if base_primes == 0 || base_primes > chain || !(chain - base_primes).is_multiple_of(primes_per_level) {
            return Err(refuse(format!("{chain} primes with a base of {base_primes} are not whole levels")));
        }
        if !(20.0..=60.0).contains(&scale_bits) {
            return Err(refuse(format!("a scale of {scale_bits} bits; 20 to 60 are possible")));
        }
        let rlwe = rlwe::Parameters::with_backend(rlwe, backend)?;
        Ok(CkksParameters(Arc::new(Inner { rlwe, base_primes, primes_per_level, scale: scale_bits.exp2() })))
    }

    /// The parameters below.
    pub fn rlwe(&self) -> &rlwe::Parameters {
        &self.0.rlwe
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        self.0.rlwe.ring()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.rlwe.name()
    }

    /// Slots of a vector: `n/2` complex ones, or `n` real ones in the conjugate-invariant ring.
    pub fn slots(&self) -> usize {
        slot_count(self.ring())
    }

    /// The highest level, that is the number of products one after the other.
    pub fn max_level(&self) -> usize {
        (self.ring().chain().len() - self.0.base_primes) / self.0.primes_per_level
    }

    /// The default scale.
    pub fn scale(&self) -> f64 {
        self.0.scale
    }

    /// Primes per level.
    pub fn primes_per_level(&self) -> usize {
        self.0.primes_per_level
    }

    /// Chain primes of a ciphertext of level `level`.
    pub fn chain(&self, level: usize) -> usize {
        self.0.base_primes + level * self.0.primes_per_level
    }

    /// The product of the primes that level `level` has more than the one below; at least level 1.
    pub fn level_modulus(&self, level: usize) -> f64 {
        let range = self.chain(level.saturating_sub(1))..self.chain(level);
        self.ring().chain()[range].iter().map(|&q| f64::from(q)).product()
    }

    /// Bits of the modulus at `level`.
    pub fn log2_modulus(&self, level: usize) -> f64 {
        self.rlwe().log2_modulus(Basis::chain(self.chain(level)))
    }
}
