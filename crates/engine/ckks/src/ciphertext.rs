//! Encrypted vectors: encryption, decryption and serialisation.

use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{self as rlwe, PublicKey, RlweError, SecretKey};

use crate::encoding::{Encoder, Plaintext, Slots};
use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// An encrypted vector: a ciphertext with its level and scale.
#[derive(Clone, Debug)]
pub struct Ciphertext {
    pub(crate) inner: rlwe::Ciphertext,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

/// An encrypted vector whose uniform component is stored as the seed it expands from.
#[derive(Clone, Debug)]
pub struct SeededCiphertext {
    pub(crate) inner: rlwe::SeededCiphertext,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

impl Ciphertext {
    /// Its level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Its scale.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The underlying RLWE ciphertext.
    pub fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    /// Moves it to the memory of this process, if only a device has it.
    ///
    /// # Errors
    /// If the device failed.
    pub fn fetch(&mut self, parameters: &CkksParameters) -> Result<(), CkksError> {
        Ok(self.inner.fetch(parameters.rlwe())?)
    }

    /// A copy in the memory of this process.
    ///
    /// # Errors
    /// If the device failed.
    pub fn fetched(&self, parameters: &CkksParameters) -> Result<Self, CkksError> {
        let mut copy = self.clone();
        copy.fetch(parameters)?;
        Ok(copy)
    }

    /// Serialises: scale (f64), then the ciphertext.
    ///
    /// # Panics
    /// If only a device has it: see [`Ciphertext::fetch`].
    pub fn to_bytes(&self, parameters: &CkksParameters) -> Vec<u8> {
        let mut bytes = self.scale.to_le_bytes().to_vec();
        bytes.extend(self.inner.to_bytes(parameters.rlwe()));
        bytes
    }

    /// Deserialises the output of [`Ciphertext::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not exactly one ciphertext of these parameters, the scale is not usable, or no level has these
    /// primes.
    pub fn from_bytes(parameters: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let (scale, rest) = read_scale("an encrypted vector", bytes)?;
        let inner = rlwe::Ciphertext::from_bytes(parameters.rlwe(), rest)?;
        let level = level_of_basis(parameters, inner.basis())?;
        Ok(Ciphertext { inner, level, scale })
    }
}

impl SeededCiphertext {
    /// Its level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Its scale.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The public seed. No two queries may share a seed.
    pub fn seed(&self) -> &[u8; 32] {
        &self.inner.seed().0
    }

    /// The underlying RLWE ciphertext.
    pub fn inner(&self) -> &rlwe::SeededCiphertext {
        &self.inner
    }

    /// Expands the seed into the full ciphertext.
    pub fn expand(&self, parameters: &CkksParameters) -> Ciphertext {
        Ciphertext { inner: self.inner.expand(parameters.ring()), level: self.level, scale: self.scale }
    }

    /// Length in bytes of a serialised seeded vector at level `level`.
    pub fn byte_len(parameters: &CkksParameters, level: usize) -> usize {
        8 + rlwe::SeededCiphertext::byte_len(parameters.rlwe(), parameters.basis(level))
    }

    /// Serialises: scale (f64), then the seeded ciphertext.
    pub fn to_bytes(&self, parameters: &CkksParameters) -> Vec<u8> {
        let mut bytes = self.scale.to_le_bytes().to_vec();
        self.inner.append_to(parameters.rlwe(), &mut bytes);
        bytes
    }

    /// Deserialises the output of [`SeededCiphertext::to_bytes`].
    ///
    /// # Errors
    /// As for [`Ciphertext::from_bytes`].
    pub fn from_bytes(parameters: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let (scale, rest) = read_scale("an encrypted vector", bytes)?;
        let inner = rlwe::SeededCiphertext::from_bytes(parameters.rlwe(), rest)?;
        let level = level_of_basis(parameters, inner.basis())?;
        Ok(SeededCiphertext { inner, level, scale })
    }
}

fn read_scale<'a>(what: &'static str, bytes: &'a [u8]) -> Result<(f64, &'a [u8]), CkksError> {
    let refuse = |found: String| RlweError::Decode { what, found, needed: "a scale from 2^0 to 2^200".into() };
    let (head, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| refuse(format!("{} bytes", bytes.len())))?;
    let scale = f64::from_le_bytes(*head);
    let usable = scale.is_finite() && (1.0..=2f64.powi(200)).contains(&scale);
    if usable { Ok((scale, rest)) } else { Err(refuse(format!("{scale}")).into()) }
}

fn level_of_basis(parameters: &CkksParameters, basis: Basis) -> Result<usize, CkksError> {
    parameters.level_of(basis).ok_or_else(|| {
        let (found, needed) = (basis.to_string(), "the primes of a level".into());
        RlweError::Decode { what: "an encrypted vector", found, needed }.into()
    })
}

impl Encoder {
    /// Encrypts a plaintext under a fresh seed and a fresh error.
    ///
    /// # Errors
    /// If secret and plaintext belong to different parameters.
    pub fn encrypt(
        &self,
        plaintext: &Plaintext,
        secret: &SecretKey,
        rng: &mut SecretRng,
    ) -> Result<SeededCiphertext, CkksError> {
        let inner = rlwe::SeededCiphertext::encrypt(secret, &plaintext.poly, rng)?;
        Ok(SeededCiphertext { inner, level: plaintext.level, scale: plaintext.scale })
    }

    /// Encrypts a plaintext without the secret. Noisier and twice as long as [`Encoder::encrypt`]; see [`PublicKey`].
    ///
    /// # Errors
    /// If key and plaintext belong to different parameters.
    pub fn encrypt_public(
        &self,
        plaintext: &Plaintext,
        key: &PublicKey,
        rng: &mut SecretRng,
    ) -> Result<Ciphertext, CkksError> {
        let inner = key.encrypt(&plaintext.poly, rng)?;
        Ok(Ciphertext { inner, level: plaintext.level, scale: plaintext.scale })
    }

    /// Decrypts and decodes the slots, which are wiped when dropped.
    ///
    /// The result contains the encryption's noise and noise that depends on the secret. Only the key holder may see it;
    /// it must not be published unchanged (Li and Micciancio, "On the security of homomorphic encryption on approximate
    /// numbers", EUROCRYPT 2021).
    ///
    /// # Errors
    /// If secret and ciphertext belong to different parameters.
    pub fn decrypt(&self, ciphertext: &Ciphertext, secret: &SecretKey) -> Result<Slots, CkksError> {
        self.decode(&secret.decrypt(&ciphertext.inner)?, ciphertext.scale)
    }
}
