//! CKKS parameter sets: a chain of primes divided into levels.

use std::sync::{Arc, Weak};

use unspoken_ring::{Backend, Basis, Ring};
use unspoken_rlwe::{self as rlwe, ParametersLiteral, slot_count};

use crate::bootstrap::failure::log2_failure;
use crate::error::CkksError;

/// The unchecked values of a CKKS parameter set.
#[derive(Clone, Debug, PartialEq)]
pub struct CkksLiteral {
    /// Ring, primes, secret.
    pub rlwe: ParametersLiteral,
    /// Number of primes of level 0.
    pub base_primes: usize,
    /// Number of primes that each further level adds, from level 1 upwards: 1 or 2.
    pub level_primes: Vec<usize>,
    /// Bits of the default scale, 20 to 60.
    pub scale_bits: f64,
    /// The levels reserved for a bootstrap; `None` for a set without bootstrapping.
    pub bootstrap: Option<BootstrapLiteral>,
}

/// The levels that a parameter set reserves for a bootstrap: the lowest levels for the map from slots to coefficients,
/// the highest levels for the map from coefficients to slots, and the levels just below those for the modular
/// reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapLiteral {
    /// Number of factors, and of levels, of the map from slots to coefficients.
    pub slots_to_coefficients: usize,
    /// Number of factors, and of levels, of the map from coefficients to slots.
    pub coefficients_to_slots: usize,
    /// `log2` of the ratio of the modulus of level 0 to the scale of a message at that level. The sine approximates the
    /// modular reduction with an error of `(2 pi / 2^bits)^2 / 6` for a slot of modulus 1.
    pub message_ratio_bits: f64,
}

/// A checked CKKS parameter set. Cheap to clone.
///
/// Level 0 has the first primes of the chain, and each further level adds one or two. A product of two vectors at level
/// `l` drops the primes of level `l`. Their product is close to the default scale, except at the levels that a
/// bootstrapping preset reserves for the bootstrap.
#[derive(Clone, Debug)]
pub struct CkksParameters(Arc<Inner>);

/// Parameters that are freed when nothing else uses them.
#[derive(Debug, Default)]
pub(crate) struct WeakParameters(Weak<Inner>);

#[derive(Debug)]
struct Inner {
    rlwe: rlwe::Parameters,
    /// Number of chain primes of each level.
    chains: Vec<usize>,
    scale: f64,
    bootstrap: Option<BootstrapLiteral>,
}

/// Checks that a bootstrap of this shape can run with these levels. The error is the reason.
fn check_bootstrap(
    rlwe: &ParametersLiteral,
    base_primes: usize,
    levels: usize,
    bootstrap: BootstrapLiteral,
) -> Result<(), String> {
    let BootstrapLiteral { slots_to_coefficients, coefficients_to_slots, message_ratio_bits } = bootstrap;
    let stages = (rlwe.ring.degree / 2).trailing_zeros() as usize;
    let factors = 1..=stages;
    let needed = slots_to_coefficients + coefficients_to_slots + REDUCTION_DEPTH;
    if !factors.contains(&slots_to_coefficients) || !factors.contains(&coefficients_to_slots) {
        return Err(format!(
            "maps of {slots_to_coefficients} and {coefficients_to_slots} factors; 1 to {stages} are possible"
        ));
    }
    if levels < needed {
        return Err(format!("{levels} levels, but the bootstrap needs {needed}"));
    }
    if !(4.0..=40.0).contains(&message_ratio_bits) {
        return Err(format!("a modulus {message_ratio_bits} bits above the message; 4 to 40 are possible"));
    }
    if rlwe.encapsulation.map(|e| e.base) != Some(base_primes) {
        return Err(format!("a bootstrap from {base_primes} base primes, but no switch of these to the sparse secret"));
    }
    Ok(())
}

/// Levels that the modular reduction of a bootstrap uses, as a sine or as an exponential.
pub(crate) const REDUCTION_DEPTH: usize = 8;

/// Maximum number of primes of one level.
const MAX_LEVEL_PRIMES: usize = 2;

impl WeakParameters {
    /// The parameters, if they are still in use.
    pub(crate) fn get(&self) -> Option<CkksParameters> {
        self.0.upgrade().map(CkksParameters)
    }
}

impl CkksParameters {
    pub(crate) fn downgrade(&self) -> WeakParameters {
        WeakParameters(Arc::downgrade(&self.0))
    }

    /// Checks the literal and builds its ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the chain cannot be divided into levels, or as for [`rlwe::Parameters::new`].
    pub fn new(literal: CkksLiteral) -> Result<Self, CkksError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`CkksParameters::new`], with the given backend.
    ///
    /// # Errors
    /// As for [`CkksParameters::new`], or if the backend is not available on this machine.
    pub fn with_backend(literal: CkksLiteral, backend: Backend) -> Result<Self, CkksError> {
        let CkksLiteral { rlwe, base_primes, level_primes, scale_bits, bootstrap } = literal;
        let refuse = |reason: String| CkksError::Parameters { name: rlwe.name.clone(), reason };
        if let Some(bad) = level_primes.iter().find(|primes| !(1..=MAX_LEVEL_PRIMES).contains(*primes)) {
            return Err(refuse(format!("{bad} primes in a level; 1 to {MAX_LEVEL_PRIMES} are possible")));
        }
        let mut chains = vec![base_primes];
        chains.extend(level_primes.iter().scan(base_primes, |chain, primes| {
            *chain += primes;
            Some(*chain)
        }));
        let (chain, needed) = (rlwe.ring.chain.len(), chains[chains.len() - 1]);
        if base_primes == 0 || chain != needed {
            return Err(refuse(format!("{chain} primes, but base and levels need {needed}, the base at least one")));
        }
        if !(20.0..=60.0).contains(&scale_bits) {
            return Err(refuse(format!("a scale of {scale_bits} bits; 20 to 60 are possible")));
        }
        if let Some(bootstrap) = bootstrap {
            check_bootstrap(&rlwe, base_primes, level_primes.len(), bootstrap).map_err(refuse)?;
        }
        let rlwe = rlwe::Parameters::with_backend(rlwe, backend)?;
        Ok(CkksParameters(Arc::new(Inner { rlwe, chains, scale: scale_bits.exp2(), bootstrap })))
    }

    /// The underlying RLWE parameters.
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

    /// The highest level: the number of sequential products.
    pub fn max_level(&self) -> usize {
        self.0.chains.len() - 1
    }

    /// The default scale.
    pub fn scale(&self) -> f64 {
        self.0.scale
    }

    /// The highest level of circuits. The levels above it are those of the bootstrap, if there is one.
    pub fn circuit_level(&self) -> usize {
        let spent = |b: BootstrapLiteral| b.coefficients_to_slots + REDUCTION_DEPTH;
        self.max_level() - self.bootstrap().map_or(0, spent)
    }

    /// The levels reserved for a bootstrap; `None` for a set without bootstrapping.
    pub fn bootstrap(&self) -> Option<BootstrapLiteral> {
        self.0.bootstrap
    }

    /// `log2` of a bound on the probability that a bootstrap of a ciphertext fails. `None` for parameters without
    /// bootstrapping: levelled arithmetic has noise, which the simulator predicts, but no failure event.
    pub fn log2_failure(&self) -> Option<f64> {
        self.bootstrap().map(|_| log2_failure(self.ring().degree()))
    }

    /// Number of primes that level `level` has in addition to the level below; 0 at level 0.
    pub fn level_primes(&self, level: usize) -> usize {
        self.chain(level) - self.chain(level.saturating_sub(1))
    }

    /// Number of chain primes of a ciphertext at level `level`, which is clamped to [`CkksParameters::max_level`].
    pub fn chain(&self, level: usize) -> usize {
        self.0.chains[level.min(self.max_level())]
    }

    /// The product of the primes that level `level` has in addition to the level below, for a level of at least 1.
    pub fn level_modulus(&self, level: usize) -> f64 {
        let range = self.chain(level.saturating_sub(1))..self.chain(level);
        self.ring().chain()[range].iter().map(|&q| f64::from(q)).product()
    }

    /// Bits of the modulus at `level`.
    pub fn log2_modulus(&self, level: usize) -> f64 {
        self.rlwe().log2_modulus(Basis::chain(self.chain(level)))
    }
}
