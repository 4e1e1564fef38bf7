//! Encryption with a precomputed encryption of zero, and the ciphertexts a client sends.

use unspoken_rlwe::{self as rlwe, FreshCiphertext, ZeroEncryption};

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::encoding::{Encoder, Plaintext};
use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// An encrypted vector as a client sends it.
#[derive(Clone, Debug)]
pub enum Encrypted {
    /// Encrypted with the secret, which halves the bytes.
    Seeded(SeededCiphertext),
    /// Encrypted with a public key.
    Full(Ciphertext),
}

impl Encoder {
    /// Encrypts a plaintext with one addition to an encryption of zero. The zero must have at least the primes of the
    /// plaintext ([`CkksParameters::basis`] of its level).
    ///
    /// # Errors
    /// If the zero has fewer primes, belongs to other parameters or was made in the process this one was forked from.
    /// The zero is consumed in any case.
    pub fn encrypt_with(&self, plaintext: &Plaintext, zero: ZeroEncryption) -> Result<Encrypted, CkksError> {
        let (level, scale) = (plaintext.level, plaintext.scale);
        Ok(match zero.plus(self.parameters().ring(), &plaintext.poly)? {
            FreshCiphertext::Seeded(inner) => Encrypted::Seeded(SeededCiphertext { inner, level, scale }),
            FreshCiphertext::Full(inner) => Encrypted::Full(Ciphertext { inner, level, scale }),
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

    /// The full ciphertext that circuits need. Expands a seeded ciphertext.
    pub fn expand(self, parameters: &CkksParameters) -> Ciphertext {
        match self {
            Encrypted::Seeded(vector) => vector.expand(parameters),
            Encrypted::Full(vector) => vector,
        }
    }

    /// Serialises as [`SeededCiphertext::to_bytes`] or [`Ciphertext::to_bytes`] does.
    pub fn to_bytes(&self, parameters: &CkksParameters) -> Vec<u8> {
        match self {
            Encrypted::Seeded(vector) => vector.to_bytes(parameters),
            Encrypted::Full(vector) => vector.to_bytes(parameters),
        }
    }

    /// Deserialises either form.
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
