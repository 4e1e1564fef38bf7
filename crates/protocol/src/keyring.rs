//! A client's secret key, and all that is done with it.

use std::io::Write;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Complex64, Encoder, Plaintext};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, RlweError, SecretKey};

use crate::error::ProtocolError;
use crate::terms::Terms;
use crate::transfer::read_output;

/// The secret key of one client for one service's terms.
pub struct Keyring {
    terms: Terms,
    encoder: Encoder,
    secret: SecretKey,
}

/// Keyed anew for every use: a copy of the process (a fork, a restored snapshot) never draws what this one drew.
///
/// # Errors
/// If the operating system has no randomness.
pub fn fresh_randomness() -> Result<SecretRng, ProtocolError> {
    Ok(SecretRng::from_os().map_err(RlweError::from)?)
}

impl Keyring {
    /// With the stored secret key, whose switching keys the server may have already, or a new one.
    ///
    /// # Errors
    /// If the key does not belong to the terms' preset, or the operating system has no randomness.
    pub fn new(terms: Terms, stored: Option<&[u8]>) -> Result<Self, ProtocolError> {
        let parameters = terms.parameters();
        let secret = match stored {
            Some(bytes) => SecretKey::from_bytes(parameters.rlwe(), bytes)?,
            None => SecretKey::generate(parameters.rlwe(), &mut fresh_randomness()?)?,
        };
        Ok(Keyring { encoder: Encoder::new(parameters), terms, secret })
    }

    /// The terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The encoder of the terms' parameters.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The secret key.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// The secret key's bytes, to store: whoever has them reads every query.
    ///
    /// # Errors
    /// Only if the key's parameters refuse, which their own check rules out.
    pub fn secret_bytes(&self) -> Result<impl Deref<Target = Vec<u8>> + use<>, ProtocolError> {
        Ok(self.secret.to_bytes()?)
    }

    /// Bytes of the key bundle [`Keyring::write_keys`] writes.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.terms.parameters().rlwe(), self.terms.key_plan())
    }

    /// Makes the switching keys and writes them as a bundle, one at a time; `progress` is told how many of how many are
    /// done. Every call makes new keys for the same secret.
    ///
    /// # Errors
    /// If writing fails, or when `cancel` is set.
    pub fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), ProtocolError> {
        let plan = self.terms.key_plan();
        Ok(KeyBundle::write(&self.secret, plan, &mut fresh_randomness()?, out, progress, cancel)?)
    }

    /// Encrypts a plaintext under a seed of its own: its bytes for a query.
    ///
    /// # Errors
    /// If the plaintext is of other parameters, or the operating system has no randomness.
    pub fn encrypt(&self, plaintext: &Plaintext) -> Result<Vec<u8>, ProtocolError> {
        let seeded = self.encoder.encrypt(plaintext, &self.secret, &mut fresh_randomness()?)?;
        Ok(seeded.to_bytes(self.terms.parameters()))
    }

    /// Decrypts one vector of an answer: its slots.
    ///
    /// # Errors
    /// If its bytes are malformed or of other parameters.
    pub fn open(&self, vector: &[u8]) -> Result<Vec<Complex64>, ProtocolError> {
        let (ciphertext, scale) = read_output(self.terms.parameters(), vector)?;
        Ok(self.encoder.decode(&self.secret.decrypt(&ciphertext)?, scale)?)
    }

    /// Refuses numbers beyond the terms' bound, which come of other keys than this secret's.
    ///
    /// # Errors
    /// If there is one.
    pub fn check_bound(&self, mut numbers: impl Iterator<Item = f64>) -> Result<(), ProtocolError> {
        let bound = self.terms.bound() * (1.0 + 1e-6) + 1e-6;
        if numbers.all(|number| number.abs() <= bound) {
            return Ok(());
        }
        let needed = format!("numbers up to {bound:.3e}; make new keys");
        Err(ProtocolError::mismatch("answer", "one that this secret key does not open", needed))
    }
}
