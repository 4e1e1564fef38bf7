//! Encryption onto a zero made ahead, and what a client sends.

use unspoken_rlwe::{self as rlwe, FreshCiphertext, ZeroEncryption};

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::encoding::{Encoder, Plaintext};
use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// An encrypted vector as a client sends it.
#[derive(Clone, Debug)]
pub enum Encrypted {
    /// Made with the secret: half the bytes.
    Seeded(SeededCiphertext),
    /// Made with a public key.
    Full(Ciphertext),
}

impl Encoder {
    /// Encrypts a plaintext with an encryption of zero over its primes or more
    /// ([`CkksParameters::chain`] of its level): one addition.
    ///
    /// # Errors
    /// If the zero has fewer primes, belongs to other parameters or to the process this one was forked from; it is gone
    /// all the same.
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
