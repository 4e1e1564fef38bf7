//! Encryptions of zero made ahead of the messages they will carry, and what a client sends.

use std::fmt;

use unspoken_ring::{Poly, SecretRng, process_generation};
use unspoken_rlwe::{self as rlwe, PublicKey, RlweError, SecretKey};

use crate::encoding::{Encoder, Plaintext};
use crate::error::CkksError;
use crate::parameters::CkksParameters;
use crate::vector::{Ciphertext, SeededCiphertext, level_of_chain};

/// An encryption of zero, to carry one message. With two messages on it, the difference of the ciphertexts is the
/// difference of the messages, in the clear.
///
/// So it cannot be cloned, adding a message consumes it, and a forked child, which has a copy, cannot use it. Bytes of it
/// ([`Zero::into_bytes`]) are for storage that keeps the same promise.
pub struct Zero {
    inner: Inner,
    /// The process it belongs to.
    generation: u64,
}

enum Inner {
    Seeded(rlwe::SeededCiphertext),
    Full(rlwe::Ciphertext),
}

/// An encrypted vector as a client sends it.
#[derive(Clone, Debug)]
pub enum Encrypted {
    /// Made with the secret: half the bytes.
    Seeded(SeededCiphertext),
    /// Made with a public key.
    Full(Ciphertext),
}

impl Zero {
    /// Made with the secret, for vectors of at most `level`.
    ///
    /// # Errors
    /// If the secret belongs to other parameters.
    pub fn seeded(
        parameters: &CkksParameters,
        secret: &SecretKey,
        level: usize,
        rng: &mut SecretRng,
    ) -> Result<Self, CkksError> {
        parameters.rlwe().check_key("make an encryption of zero", secret.parameters())?;
        let chain = parameters.chain(level);
        Ok(Self::new(Inner::Seeded(rlwe::SeededCiphertext::encrypt_zero(secret, chain, rng)?)))
    }

    /// Made with a public key, for vectors of at most `level`.
    ///
    /// # Errors
    /// If the key belongs to other parameters.
    pub fn public(
        parameters: &CkksParameters,
        key: &PublicKey,
        level: usize,
        rng: &mut SecretRng,
    ) -> Result<Self, CkksError> {
        parameters.rlwe().check_key("make an encryption of zero", key.parameters())?;
        Ok(Self::new(Inner::Full(key.encrypt_zero(parameters.chain(level), rng)?)))
    }

    fn new(inner: Inner) -> Self {
        Zero { inner, generation: process_generation() }
    }

    /// What it is, if this is the process it belongs to.
    fn into_inner(self, operation: &'static str) -> Result<Inner, RlweError> {
        let own = process_generation() == self.generation;
        if own { Ok(self.inner) } else { Err(RlweError::Forked { operation }) }
    }

    /// Bytes of it in memory at `level`, seeded or full.
    pub fn memory_bytes(parameters: &CkksParameters, level: usize, seeded: bool) -> usize {
        let poly = parameters.ring().poly_bytes(unspoken_ring::Basis::chain(parameters.chain(level)));
        if seeded { poly } else { 2 * poly }
    }

    /// Bytes [`Zero::into_bytes`] gives at `level`, seeded or full.
    pub fn byte_len(parameters: &CkksParameters, level: usize, seeded: bool) -> usize {
        let chain = parameters.chain(level);
        match seeded {
            true => rlwe::SeededCiphertext::byte_len(parameters.rlwe(), chain),
            false => rlwe::Ciphertext::byte_len(parameters.rlwe(), chain),
        }
    }

    /// Its bytes; it is gone. They must be kept from others until they are used, once: whoever has them reads the message.
    ///
    /// # Errors
    /// If it belongs to other parameters, or to the process this one was forked from.
    pub fn into_bytes(self, parameters: &CkksParameters) -> Result<Vec<u8>, CkksError> {
        const OPERATION: &str = "store an encryption of zero";
        let (ring, rlwe) = (parameters.ring(), parameters.rlwe());
        Ok(match self.into_inner(OPERATION)? {
            Inner::Seeded(zero) => {
                ring.check_own(OPERATION, zero.body())?;
                zero.to_bytes(rlwe)
            }
            Inner::Full(zero) => {
                zero.components().iter().try_for_each(|component| ring.check_own(OPERATION, component))?;
                zero.to_bytes(rlwe)
            }
        })
    }

    /// Reads what [`Zero::into_bytes`] gave. Whether the bytes are an encryption of zero, they do not tell: they must come
    /// from storage that is sealed.
    ///
    /// # Errors
    /// For anything that is not exactly such bytes, of these parameters, of a whole level.
    pub fn from_bytes(parameters: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let inner = if rlwe::SeededCiphertext::begins(bytes) {
            let mut zero = rlwe::SeededCiphertext::from_bytes(parameters.rlwe(), bytes)?;
            zero.mark_secret();
            Inner::Seeded(zero)
        } else {
            let mut zero = rlwe::Ciphertext::from_bytes(parameters.rlwe(), bytes)?;
            if zero.components().len() != 2 {
                return Err(rlwe::RlweError::Components { operation: "read", found: 3, needed: 2 }.into());
            }
            zero.components_mut().iter_mut().for_each(Poly::mark_secret);
            Inner::Full(zero)
        };
        let zero = Self::new(inner);
        level_of_chain(parameters, zero.chain())?;
        Ok(zero)
    }

    fn chain(&self) -> usize {
        match &self.inner {
            Inner::Seeded(zero) => zero.chain(),
            Inner::Full(zero) => zero.chain(),
        }
    }
}

impl fmt::Debug for Zero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zero").field("chain", &self.chain()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Encrypts a plaintext with an encryption of zero of its level or a higher one: one addition.
    ///
    /// # Errors
    /// If the zero has a lower level, belongs to other parameters or to the process this one was forked from; it is gone all
    /// the same.
    pub fn encrypt_with(&self, plaintext: &Plaintext, zero: Zero) -> Result<Encrypted, CkksError> {
        let (ring, level, scale) = (self.parameters().ring(), plaintext.level, plaintext.scale);
        Ok(match zero.into_inner("encrypt with a zero made ahead")? {
            Inner::Seeded(zero) => {
                Encrypted::Seeded(SeededCiphertext { inner: zero.plus(ring, &plaintext.poly)?, level, scale })
            }
            Inner::Full(zero) => Encrypted::Full(Ciphertext { inner: zero.plus(ring, &plaintext.poly)?, level, scale }),
        })
    }
}

impl Encrypted {
    /// Its level.
    pub fn level(&self) -> usize {
        match self {
            Encrypted::Seeded(vector) => vector.level(),
            Encrypted::Full(vector) => vector.level(),
        }
    }

    /// Its scale.
    pub fn scale(&self) -> f64 {
        match self {
            Encrypted::Seeded(vector) => vector.scale(),
            Encrypted::Full(vector) => vector.scale(),
        }
    }

    /// As circuits take it: a seeded half is expanded.
    pub fn expand(self, parameters: &CkksParameters) -> Ciphertext {
        match self {
            Encrypted::Seeded(vector) => vector.expand(parameters),
            Encrypted::Full(vector) => vector,
        }
    }

    /// Serialises as [`SeededCiphertext::to_bytes`] or [`Ciphertext::to_bytes`] do.
    pub fn to_bytes(&self, parameters: &CkksParameters) -> Vec<u8> {
        match self {
            Encrypted::Seeded(vector) => vector.to_bytes(parameters),
            Encrypted::Full(vector) => vector.to_bytes(parameters),
        }
    }

    /// Reads either form.
    ///
    /// # Errors
    /// As for [`Ciphertext::from_bytes`].
    pub fn from_bytes(parameters: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let seeded = bytes.get(size_of::<f64>()..).is_some_and(rlwe::SeededCiphertext::begins);
        Ok(match seeded {
            true => Encrypted::Seeded(SeededCiphertext::from_bytes(parameters, bytes)?),
            false => Encrypted::Full(Ciphertext::from_bytes(parameters, bytes)?),
        })
    }
}
