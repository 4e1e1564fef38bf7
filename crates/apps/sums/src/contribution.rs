//! Contributions, and their encryption with the collector's public key.
//!
//! A contribution is one BGV ciphertext under the public key (`unspoken-exact`). Its coefficients are the values, then
//! a 1, which counts contributions inside the encryption, then zeros. The parameters are secure. Among the parameters
//! for which no sum can leave the plaintext modulus and the worst noise of a sum fits, they have the smallest
//! ciphertexts: 92 KB for sums up to 2^29 in up to 4,095 columns.
//!
//! In BGV the message has no rounding, and coefficients do not wrap around. So the sum of ciphertexts is the sum of the
//! values plus noise that does not depend on them: the collector, who can see that noise, learns nothing else from it.
//!
//! A contributor sends no claim about its noise. The service counts each as an honest encryption; the collector
//! measures the noise of the sum.

use std::fmt;

use unspoken_encrypt::{Pool, PoolFile, PoolOptions};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, FreshCiphertext, RlweError, ZeroEncryption};
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::SumsError;
use crate::format::ID_BYTES;

/// An encrypted contribution: ready to be sent, also several times, and counted once. Nobody but the collector can
/// read it; the collector gets the sum only.
#[derive(Clone, PartialEq, Eq)]
pub struct Contribution {
    /// Id and RLWE ciphertext, as they are sent.
    bytes: Vec<u8>,
}

impl Contribution {
    /// As it is sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Contribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contribution").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Where the encryptions of zero of contributions come from. A pool must have the key and the primes of
/// [`Description::client_key`]. If it is empty, one is made when it is needed.
pub enum Zeros {
    /// Made when they are needed.
    OnDemand,
    /// Made ahead, in memory.
    Memory(Pool),
    /// Made ahead, in a file.
    File(PoolFile),
}

impl Zeros {
    /// A pool in memory of `entries` entries, which a thread keeps full while contributions are on their way.
    ///
    /// # Errors
    /// If there are no entries, or the system has no randomness or no thread.
    pub fn in_memory(description: &Description, entries: usize) -> Result<Self, SumsError> {
        let (key, basis) = description.client_key();
        let entry = ZeroEncryption::memory_bytes(key.parameters(), basis, key.is_seeded());
        let options = PoolOptions { basis, capacity_bytes: entry.saturating_mul(entries), background: true };
        Ok(Zeros::Memory(Pool::new(key, options)?))
    }

    /// Refuses a pool of another key.
    fn check(&self, description: &Description) -> Result<(), SumsError> {
        let (key, _) = description.client_key();
        match self {
            Zeros::OnDemand => {}
            Zeros::Memory(pool) => pool.check_key(&key)?,
            Zeros::File(pool) => pool.check_key(&key)?,
        }
        Ok(())
    }

    /// One that was made ahead, if there is one.
    fn take(&mut self) -> Result<Option<ZeroEncryption>, SumsError> {
        Ok(match self {
            Zeros::OnDemand => None,
            Zeros::Memory(pool) => pool.take()?,
            Zeros::File(pool) => pool.take()?,
        })
    }
}

/// Encrypts contributions with the collector's public key.
pub struct ContributionEncryptor {
    description: Description,
    zeros: Zeros,
    rng: SecretRng,
}

impl ContributionEncryptor {
    /// An encryptor for a collection.
    ///
    /// # Errors
    /// If the pool belongs to another key, or the system has no randomness.
    pub fn new(description: &Description, zeros: Zeros) -> Result<Self, SumsError> {
        zeros.check(description)?;
        Ok(ContributionEncryptor { description: description.clone(), zeros, rng: SecretRng::from_os()? })
    }

    /// Encrypts the values of one contribution, one for each column. A coefficient of the message is a value, and one
    /// more is 1, which counts the contributions.
    ///
    /// # Errors
    /// If there is not one value for each column, one is out of the range of its column, or a pool fails.
    pub fn encrypt(&mut self, values: &[i64]) -> Result<Contribution, SumsError> {
        let mut id = [0; ID_BYTES];
        self.rng.fill(&mut id);
        self.encrypt_as(id, values)
    }

    /// Like [`ContributionEncryptor::encrypt`], under an id that the caller remembers. The service adds the first
    /// contribution with an id and no other, so a caller that may have sent one can encrypt and send it again. Nobody
    /// else may know or guess an id that is not used yet.
    ///
    /// # Errors
    /// As for [`ContributionEncryptor::encrypt`].
    pub fn encrypt_as(&mut self, id: [u8; 16], values: &[i64]) -> Result<Contribution, SumsError> {
        self.description.check(values)?;
        let mut coefficients = Zeroizing::new(Vec::with_capacity(values.len() + 1));
        coefficients.extend(values);
        coefficients.push(1);
        let (encoder, parameters) = (self.description.encoder(), self.description.parameters());
        let message = encoder.message(&encoder.encode_coefficients(&coefficients)?)?;
        let encrypted = match self.zeros.take()? {
            Some(zero) => full(zero.plus(parameters.ring(), &message)?)?,
            None => self.description.public_key().encrypt(&message, &mut self.rng)?,
        };
        let mut bytes = id.to_vec();
        bytes.extend(encrypted.to_bytes(parameters.rlwe()));
        Ok(Contribution { bytes })
    }

    /// The pool in a file, to fill it again.
    pub fn into_zeros(self) -> Zeros {
        self.zeros
    }
}

/// The ciphertext of an encryption with a public key.
fn full(fresh: FreshCiphertext) -> Result<rlwe::Ciphertext, SumsError> {
    match fresh {
        FreshCiphertext::Full(ciphertext) => Ok(ciphertext),
        // Seeded ones are made with a secret key, which contributors do not have.
        FreshCiphertext::Seeded(_) => Err(SumsError::from(RlweError::Decode {
            what: "an encryption of zero",
            found: "one that was made with a secret key".into(),
            needed: "one of a pool with the collector's public key".into(),
        })),
    }
}
