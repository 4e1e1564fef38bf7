//! Contributions, and their encryption with the collector's public key.

use std::fmt;
use std::hint::black_box;

use unspoken_encrypt::{Pool, PoolFile};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, FreshCiphertext, RlweError, ZeroEncryption};
use zeroize::Zeroizing;

use crate::columns::Column;
use crate::description::Description;
use crate::error::SumsError;

/// Bytes of the id of a contribution.
pub(crate) const ID_BYTES: usize = 16;

/// Id of a contribution: random, so that a contribution that is sent again counts once.
pub(crate) type Id = [u8; ID_BYTES];

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
    /// If the system has no randomness.
    pub fn new(description: &Description, zeros: Zeros) -> Result<Self, SumsError> {
        Ok(ContributionEncryptor { description: description.clone(), zeros, rng: SecretRng::from_os()? })
    }

    /// Encrypts the values of one contribution, one for each column. A coefficient of the message is a value, and one
    /// more is 1, which counts the contributions.
    ///
    /// # Errors
    /// If there is not one value for each column, one is out of the range of its column, or a pool fails.
    pub fn encrypt(&mut self, values: &[i64]) -> Result<Contribution, SumsError> {
        let columns = self.description.columns();
        check_values(columns, values)?;
        let mut coefficients = Zeroizing::new(Vec::with_capacity(values.len() + 1));
        coefficients.extend(values);
        coefficients.push(1);
        let (encoder, parameters) = (self.description.encoder(), self.description.parameters());
        let message = encoder.message(&encoder.encode_coefficients(&coefficients)?)?;
        let encrypted = match self.zeros.take()? {
            Some(zero) => full(zero.plus(parameters.ring(), &message)?)?,
            None => self.description.public_key().encrypt(&message, &mut self.rng)?,
        };
        let mut bytes = vec![0; ID_BYTES];
        self.rng.fill(&mut bytes);
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

/// Refuses values out of range. The only branch that depends on values is on whether there is one.
#[inline(never)]
fn check_values(columns: &[Column], values: &[i64]) -> Result<(), SumsError> {
    if columns.len() != values.len() {
        return Err(SumsError::Values { found: values.len(), needed: columns.len() });
    }
    let mut pairs = columns.iter().zip(values);
    if !any_outside(columns, values) {
        return Ok(());
    }
    let outside = |(column, value): &(&Column, &i64)| !(column.smallest()..=column.largest()).contains(value);
    Err(pairs.find(outside).map_or(SumsError::Values { found: values.len(), needed: columns.len() }, |(column, _)| {
        SumsError::Value { column: column.name().into(), smallest: column.smallest(), largest: column.largest() }
    }))
}

/// Whether a value is outside the range of its column, without a branch on one.
#[inline(never)]
fn any_outside(columns: &[Column], values: &[i64]) -> bool {
    let outside = |(column, &value): (&Column, &i64)| {
        black_box(u8::from(value < column.smallest())) | black_box(u8::from(value > column.largest()))
    };
    columns.iter().zip(values).map(outside).fold(0, |seen, bit| seen | bit) != 0
}
