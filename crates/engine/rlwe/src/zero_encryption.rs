//! Encryptions of zero made ahead of the messages they will carry.

use std::fmt;

use unspoken_ring::{Basis, Poly, Ring, SecretRng, process_generation};
use zeroize::Zeroizing;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::Parameters;
use crate::public::PublicKey;

/// An encryption of zero, to carry one message. With two messages on it, the difference of the ciphertexts is the
/// difference of the messages, in the clear.
///
/// So it cannot be cloned, adding a message consumes it, and a forked child, which has a copy, cannot use it. Bytes of
/// it ([`ZeroEncryption::into_bytes`]) are for storage that keeps the same promise. It serves every scheme whose
/// encryption is `c_0 + c_1 s = M + e`: what `M` means, it does not know.
pub struct ZeroEncryption {
    inner: FreshCiphertext,
    /// The process it belongs to.
    generation: u64,
}

/// An encryption as it was made, before anything was computed with it.
#[derive(Clone, Debug)]
pub enum FreshCiphertext {
    /// Made with the secret: the uniform half is a seed.
    Seeded(SeededCiphertext),
    /// Made with a public key.
    Full(Ciphertext),
}

impl ZeroEncryption {
    /// Made with the secret, for messages over at most the first `chain` primes.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn seeded(secret: &SecretKey, chain: usize, rng: &mut SecretRng) -> Result<Self, RlweError> {
        Ok(Self::new(FreshCiphertext::Seeded(SeededCiphertext::encrypt_zero(secret, chain, rng)?)))
    }

    /// Made with a public key, for messages over at most the first `chain` primes.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn public(key: &PublicKey, chain: usize, rng: &mut SecretRng) -> Result<Self, RlweError> {
        Ok(Self::new(FreshCiphertext::Full(key.encrypt_zero(chain, rng)?)))
    }

    fn new(inner: FreshCiphertext) -> Self {
        ZeroEncryption { inner, generation: process_generation() }
    }

    /// What it is, if this is the process it belongs to.
    fn into_inner(self, operation: &'static str) -> Result<FreshCiphertext, RlweError> {
        let own = process_generation() == self.generation;
        if own { Ok(self.inner) } else { Err(RlweError::Forked { operation }) }
    }

    /// Bytes in memory of one over `chain` primes, seeded or full.
    pub fn memory_bytes(parameters: &Parameters, chain: usize, seeded: bool) -> usize {
        let poly = parameters.ring().poly_bytes(Basis::chain(chain));
        if seeded { poly } else { 2 * poly }
    }

    /// Bytes [`ZeroEncryption::into_bytes`] gives of one over `chain` primes, seeded or full.
    pub fn byte_len(parameters: &Parameters, chain: usize, seeded: bool) -> usize {
        match seeded {
            true => SeededCiphertext::byte_len(parameters, chain),
            false => Ciphertext::byte_len(parameters, chain),
        }
    }

    /// Chain primes of its modulus.
    pub fn chain(&self) -> usize {
        match &self.inner {
            FreshCiphertext::Seeded(zero) => zero.chain(),
            FreshCiphertext::Full(zero) => zero.chain(),
        }
    }

    /// An encryption of `message` (evaluation domain, chain basis), over its primes. One addition.
    ///
    /// # Errors
    /// If `message` has more primes, is in the coefficient domain or of another ring, or the zero belongs to the
    /// process this one was forked from; it is gone all the same.
    pub fn plus(self, ring: &Ring, message: &Poly) -> Result<FreshCiphertext, RlweError> {
        Ok(match self.into_inner("encrypt with a zero made ahead")? {
            FreshCiphertext::Seeded(zero) => FreshCiphertext::Seeded(zero.plus(ring, message)?),
            FreshCiphertext::Full(zero) => FreshCiphertext::Full(zero.plus(ring, message)?),
        })
    }

    /// Its bytes; it is gone. They must be kept from others until they are used, once: whoever has them reads the
    /// message.
    ///
    /// # Errors
    /// If it belongs to other parameters, or to the process this one was forked from.
    pub fn into_bytes(self, parameters: &Parameters) -> Result<Zeroizing<Vec<u8>>, RlweError> {
        const OPERATION: &str = "store an encryption of zero";
        let ring = parameters.ring();
        Ok(Zeroizing::new(match self.into_inner(OPERATION)? {
            FreshCiphertext::Seeded(zero) => {
                ring.check_own(OPERATION, &zero.body)?;
                zero.to_bytes(parameters)
            }
            FreshCiphertext::Full(zero) => {
                zero.components().iter().try_for_each(|component| ring.check_own(OPERATION, component))?;
                zero.to_bytes(parameters)
            }
        }))
    }

    /// Reads what [`ZeroEncryption::into_bytes`] gave. Whether the bytes are an encryption of zero, they do not tell:
    /// they must come from storage that is sealed.
    ///
    /// # Errors
    /// For anything that is not exactly such bytes, of these parameters.
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        if SeededCiphertext::begins(bytes) {
            let mut zero = SeededCiphertext::from_bytes(parameters, bytes)?;
            zero.body.mark_secret();
            return Ok(Self::new(FreshCiphertext::Seeded(zero)));
        }
        let mut zero = Ciphertext::from_bytes(parameters, bytes)?;
        let found = zero.components().len();
        if found != 2 {
            return Err(RlweError::Components { operation: "read an encryption of zero", found, needed: 2 });
        }
        zero.components.iter_mut().for_each(Poly::mark_secret);
        Ok(Self::new(FreshCiphertext::Full(zero)))
    }
}

impl fmt::Debug for ZeroEncryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroEncryption").field("chain", &self.chain()).finish_non_exhaustive()
    }
}
