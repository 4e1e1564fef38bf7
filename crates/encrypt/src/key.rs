//! What a client encrypts with.

use std::sync::Arc;

use unspoken_ckks::{CkksError, CkksParameters, Encoder, Encrypted, Plaintext, Zero};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};

/// The key a client encrypts with. Who holds the secret uses it: the result has half the bytes and less noise.
#[derive(Clone, Debug)]
pub enum ClientKey {
    /// The secret.
    Secret(Arc<SecretKey>),
    /// A public key, for those who may not read.
    Public(Arc<PublicKey>),
}

impl ClientKey {
    /// Whether what it makes has a seed for one half.
    pub fn is_seeded(&self) -> bool {
        matches!(self, ClientKey::Secret(_))
    }

    /// An encryption of zero for vectors of at most `level`.
    ///
    /// # Errors
    /// If the key belongs to other parameters.
    pub fn zero(&self, parameters: &CkksParameters, level: usize, rng: &mut SecretRng) -> Result<Zero, CkksError> {
        match self {
            ClientKey::Secret(secret) => Zero::seeded(parameters, secret, level, rng),
            ClientKey::Public(key) => Zero::public(parameters, key, level, rng),
        }
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

    /// Sixteen bytes that tell keys apart and tell nothing else.
    pub(crate) fn identity(&self) -> Result<[u8; 16], CkksError> {
        Ok(match self {
            ClientKey::Secret(secret) => secret.identity()?,
            ClientKey::Public(key) => key.identity(),
        })
    }
}
