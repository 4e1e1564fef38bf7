//! The key that a client encrypts with.

use std::sync::Arc;

use unspoken_ckks::{CkksError, Encoder, Encrypted, Plaintext};
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{Parameters, PublicKey, RlweError, SecretKey, ZeroEncryption};

use crate::error::EncryptError;

/// The key a client encrypts with. A client that holds the secret should use it: its ciphertexts have half the bytes
/// and less noise.
#[derive(Clone, Debug)]
pub enum ClientKey {
    /// The secret.
    Secret(Arc<SecretKey>),
    /// A public key, for clients that may not decrypt.
    Public(Arc<PublicKey>),
}

impl ClientKey {
    /// Whether its ciphertexts store one component as a seed.
    pub fn is_seeded(&self) -> bool {
        matches!(self, ClientKey::Secret(_))
    }

    /// The parameters it belongs to.
    pub fn parameters(&self) -> &Parameters {
        match self {
            ClientKey::Secret(secret) => secret.parameters(),
            ClientKey::Public(key) => key.parameters(),
        }
    }

    /// Makes an encryption of zero for messages over at most the primes of a basis.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn zero(&self, basis: Basis, rng: &mut SecretRng) -> Result<ZeroEncryption, RlweError> {
        match self {
            ClientKey::Secret(secret) => ZeroEncryption::seeded(secret, basis, rng),
            ClientKey::Public(key) => ZeroEncryption::public(key, basis, rng),
        }
    }

    /// Bytes of memory of an encryption of zero over a basis.
    pub(crate) fn zero_bytes(&self, basis: Basis) -> usize {
        ZeroEncryption::memory_bytes(self.parameters(), basis, self.is_seeded())
    }

    /// Encrypts without a pool.
    pub(crate) fn encrypt(
        &self,
        encoder: &Encoder,
        plaintext: &Plaintext,
        rng: &mut SecretRng,
    ) -> Result<Encrypted, CkksError> {
        Ok(match self {
            ClientKey::Secret(secret) => Encrypted::Seeded(encoder.encrypt(plaintext, secret, rng)?),
            ClientKey::Public(key) => Encrypted::Full(encoder.encrypt_public(plaintext, key, rng)?),
        })
    }

    /// Refuses a pool with the key `pool`, if it is another one than this.
    pub(crate) fn check_pool(&self, operation: &'static str, pool: &ClientKey) -> Result<(), EncryptError> {
        let same = match (self, pool) {
            (ClientKey::Secret(own), ClientKey::Secret(pool)) if Arc::ptr_eq(own, pool) => true,
            (ClientKey::Public(own), ClientKey::Public(pool)) if Arc::ptr_eq(own, pool) => true,
            _ => self.is_seeded() == pool.is_seeded() && self.identity()? == pool.identity()?,
        };
        match same {
            true => Ok(self.parameters().check_key(operation, pool.parameters())?),
            false => Err(EncryptError::OtherKey { operation }),
        }
    }

    /// Sixteen bytes that identify the key and reveal nothing else about it.
    pub(crate) fn identity(&self) -> Result<[u8; 16], RlweError> {
        Ok(match self {
            ClientKey::Secret(secret) => secret.identity()?,
            ClientKey::Public(key) => key.identity(),
        })
    }
}
