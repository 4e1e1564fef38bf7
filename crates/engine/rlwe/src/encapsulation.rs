//! The sparse secret of a bootstrap, and the key switches to it and from it.
//!
//! Raising the modulus of `(c_0, c_1)` from `q` adds `q I` to the message, where `I` is a sum of one rounded term for
//! each non-zero coefficient of the secret. So the raise is done under a sparse secret, which is safe only for a small
//! modulus: a ciphertext of the lowest level is switched to the sparse secret, raised, and switched back at once
//! (Bossuat, Troncoso-Pastoriza and Hubaux, "Bootstrapping for approximate homomorphic encryption with negligible
//! failure-probability by using sparse-secret encapsulation", ACNS 2022).
//!
//! The sparse secret is derived from the main one with a hash, so it is never stored, and both switching keys can be
//! made at any time. Like every evaluation key, the two switching keys together assume circular security.

use unspoken_ring::{Basis, Poly, Ring};

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;
use crate::parameters::{EncapsulationLiteral, Parameters};
use crate::secured::{DerivedSecret, query_degree};
use crate::security::SPARSE_WEIGHT;

impl Parameters {
    /// The shape of the keys under the sparse secret.
    ///
    /// # Errors
    /// If these parameters are not made for bootstrapping.
    pub fn encapsulation(&self) -> Result<EncapsulationLiteral, RlweError> {
        let none = || RlweError::Encapsulation { name: self.name().into(), reason: "no such keys are defined".into() };
        self.literal().encapsulation.ok_or_else(none)
    }

    /// Checks that these parameters have keys of this kind over `chain` chain primes. Under the sparse secret only the
    /// number of primes in the parameters is safe, even if a service asks for another number. Under the secret of the
    /// ring of half the degree, every number of primes is safe that leaves 128 bits of security.
    ///
    /// # Errors
    /// [`RlweError::NoSpecialPrimes`], [`RlweError::Encapsulation`] or an error of
    /// [`Parameters::check_half_ring`](Self::check_half_ring) if not.
    pub fn check_kind(&self, kind: KeyKind, chain: usize) -> Result<(), RlweError> {
        if self.ring().special().is_empty() {
            return Err(RlweError::NoSpecialPrimes { name: self.name().into(), kind });
        }
        let needed = match kind {
            KeyKind::Relinearisation | KeyKind::Galois { .. } => return Ok(()),
            KeyKind::Decapsulation => return self.encapsulation().map(drop),
            KeyKind::SubringQuery => return query_degree(self).map(drop),
            KeyKind::HalfRing => return self.check_half_ring(chain),
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => self.encapsulation()?.primes,
        };
        if chain == needed {
            return Ok(());
        }
        let reason = format!("{kind} over {chain} primes, but only {needed} are safe and useful");
        Err(RlweError::Encapsulation { name: self.name().into(), reason })
    }
}

impl SecretKey {
    /// The sparse secret, over the whole extended basis, in the evaluation domain.
    pub(crate) fn sparse_secret(&self) -> Result<Poly, RlweError> {
        self.parameters().encapsulation()?;
        let degree = self.parameters().ring().degree();
        self.lift_secret(&self.derive(DerivedSecret::Sparse)?.sparse_ternary(degree, SPARSE_WEIGHT))
    }

    /// The message of an encapsulation key over `chain` primes: the secret that the key switches from, times the primes
    /// that the ciphertexts do not have.
    pub(crate) fn encapsulated_message(&self, kind: KeyKind, message: &Poly, chain: usize) -> Result<Poly, RlweError> {
        let ring = self.parameters().ring();
        let mut scaled = ring.restricted(message, Basis::chain(chain))?;
        let auxiliary = ring.chain()[switched_primes(self.parameters(), kind)?..chain].iter();
        for &prime in auxiliary {
            ring.scale_assign(&mut scaled, i128::from(prime))?;
        }
        Ok(scaled)
    }
}

/// Switches a ciphertext with the one row of an encapsulation key.
pub(crate) fn switch_by_row(ring: &Ring, [c0, c1]: [&Poly; 2], row: &[Poly; 2]) -> Result<Ciphertext, RlweError> {
    let basis = c1.basis();
    let digit = ring.extend_basis(c1, row[0].basis())?;
    let mut k0 = ring.divide_round(&ring.mul(&digit, &row[0])?, basis)?;
    ring.add_assign(&mut k0, c0)?;
    let k1 = ring.divide_round(&ring.mul(&digit, &row[1])?, basis)?;
    Ok(Ciphertext { components: vec![k0, k1] })
}

/// Number of chain primes of the ciphertexts that an encapsulation key switches.
fn switched_primes(parameters: &Parameters, kind: KeyKind) -> Result<usize, RlweError> {
    let EncapsulationLiteral { base, .. } = parameters.encapsulation()?;
    Ok(if kind == KeyKind::QueryEncapsulation { 1 } else { base })
}

impl Ciphertext {
    /// Switches a ciphertext of the lowest level to the sparse secret: from the main secret
    /// ([`KeyKind::Encapsulation`]) or from the secret of compact queries ([`KeyKind::QueryEncapsulation`]).
    ///
    /// # Errors
    /// If there are not two components over the primes that this kind of key switches, or the key is missing.
    pub fn encapsulate(
        &self,
        parameters: &Parameters,
        kind: KeyKind,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "encapsulate";
        let ring = parameters.ring();
        let EncapsulationLiteral { primes, .. } = parameters.encapsulation()?;
        let needed = Basis::chain(switched_primes(parameters, kind)?);
        let [c0, c1] = self.pair(OPERATION)?;
        let found = c1.basis();
        if found != needed {
            return Err(unspoken_ring::RingError::Basis { operation: OPERATION, found, needed }.into());
        }
        switch_by_row(ring, [c0, c1], keys.single_digit(OPERATION, kind, primes)?)
    }

    /// The same torus elements modulo the first `chain` primes: message and modulus are multiplied by the primes that
    /// the ciphertext does not have.
    ///
    /// # Errors
    /// If the ciphertext has more primes.
    pub fn scale_modulus(&self, ring: &Ring, chain: usize) -> Result<Ciphertext, RlweError> {
        let own = self.basis().chain;
        let grow = |component: &Poly| {
            let mut grown = ring.extend_basis(component, Basis::chain(chain))?;
            for &prime in ring.chain().iter().take(chain).skip(own) {
                ring.scale_assign(&mut grown, i128::from(prime))?;
            }
            Ok(grown)
        };
        Ok(Ciphertext { components: self.components.iter().map(grow).collect::<Result<_, RlweError>>()? })
    }

    /// Raises a ciphertext under the sparse secret to a larger basis and switches it to the main secret. The message
    /// becomes `m + q I`, with `q` the modulus before and `I` a polynomial of small integers.
    ///
    /// # Errors
    /// If there are not two components, or the decapsulation key is missing.
    pub fn raise(&self, parameters: &Parameters, to: Basis, keys: &EvaluationKeys) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "raise the modulus";
        let ring = parameters.ring();
        let key = keys.get(OPERATION, ring, KeyKind::Decapsulation, to)?;
        let [c0, c1] = self.pair(OPERATION)?;
        let switched = ring.gadget_product(&ring.extend_basis(c1, to)?, key)?;
        let mut k0 = ring.divide_round(&switched[0], to)?;
        ring.add_assign(&mut k0, &ring.extend_basis(c0, to)?)?;
        Ok(Ciphertext { components: vec![k0, ring.divide_round(&switched[1], to)?] })
    }
}
