//! Precomputed encryptions of zero, to which messages are added later.

use std::fmt;

use unspoken_ring::{Basis, Poly, Ring, SecretRng, declassify, process_generation};
use zeroize::Zeroizing;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::codec;
use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::Parameters;
use crate::public::PublicKey;

/// An encryption of zero, to carry one message. If one encryption carried two messages, the difference of the
/// ciphertexts would be the difference of the messages, in the clear.
///
/// So it cannot be cloned, adding a message consumes it, and a forked child cannot use its copy. Its bytes
/// ([`ZeroEncryption::into_bytes`]) are for storage that gives the same guarantee. It works for every scheme whose
/// encryption is `c_0 + c_1 s = M + e`, for every meaning of `M`.
pub struct ZeroEncryption {
    inner: FreshCiphertext,
    /// The [`process_generation`] that it belongs to.
    generation: u64,
}

/// A fresh encryption, before any computation.
#[derive(Clone, Debug)]
pub enum FreshCiphertext {
    /// Made with the secret key: the uniform half is a seed.
    Seeded(SeededCiphertext),
    /// Made with a public key.
    Full(Ciphertext),
}

impl ZeroEncryption {
    /// An encryption of zero made with the secret key, for messages over at most the primes of a basis.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn seeded(secret: &SecretKey, basis: Basis, rng: &mut SecretRng) -> Result<Self, RlweError> {
        Ok(Self::new(FreshCiphertext::Seeded(SeededCiphertext::encrypt_zero(secret, basis, rng)?)))
    }

    /// An encryption of zero made with a public key, for messages over at most the primes of a basis.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn public(key: &PublicKey, basis: Basis, rng: &mut SecretRng) -> Result<Self, RlweError> {
        Ok(Self::new(FreshCiphertext::Full(key.encrypt_zero(basis, rng)?)))
    }

    fn new(inner: FreshCiphertext) -> Self {
        ZeroEncryption { inner, generation: process_generation() }
    }

    /// The inner encryption, if this is the process that it belongs to.
    fn into_inner(self, operation: &'static str) -> Result<FreshCiphertext, RlweError> {
        let own = process_generation() == self.generation;
        if own { Ok(self.inner) } else { Err(RlweError::Forked { operation }) }
    }

    /// Bytes in memory of an encryption of zero over a basis, seeded or full.
    pub fn memory_bytes(parameters: &Parameters, basis: Basis, seeded: bool) -> usize {
        let poly = parameters.ring().poly_bytes(basis);
        if seeded { poly } else { 2 * poly }
    }

    /// Number of bytes that [`ZeroEncryption::into_bytes`] returns for an encryption of zero over a basis,
    /// seeded or full.
    pub fn byte_len(parameters: &Parameters, basis: Basis, seeded: bool) -> usize {
        match seeded {
            true => SeededCiphertext::byte_len(parameters, basis),
            false => Ciphertext::byte_len(parameters, basis),
        }
    }

    /// The basis of its modulus.
    pub fn basis(&self) -> Basis {
        match &self.inner {
            FreshCiphertext::Seeded(zero) => zero.basis(),
            FreshCiphertext::Full(zero) => zero.basis(),
        }
    }

    /// An encryption of `message` (evaluation domain, no special primes), over its primes. One addition.
    ///
    /// # Errors
    /// If `message` has more primes, is in the coefficient domain or of another ring, or the encryption of zero belongs
    /// to the parent process of a fork. It is consumed on an error, too.
    pub fn plus(self, ring: &Ring, message: &Poly) -> Result<FreshCiphertext, RlweError> {
        Ok(match self.into_inner("encrypt with a zero made ahead")? {
            FreshCiphertext::Seeded(zero) => FreshCiphertext::Seeded(zero.plus(ring, message)?),
            FreshCiphertext::Full(zero) => FreshCiphertext::Full(zero.plus(ring, message)?),
        })
    }

    /// Serialises it and consumes it. The bytes must be kept secret and used only once: anyone who has them can read
    /// the message.
    ///
    /// # Errors
    /// If it belongs to other parameters, or to the parent process of a fork.
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

    /// Reads the output of [`ZeroEncryption::into_bytes`] of an encryption of zero over a basis, seeded or full. This
    /// function cannot check that the bytes are an encryption of zero, so they must come from sealed storage. No branch
    /// depends on the bytes, except on whether they are valid.
    ///
    /// # Errors
    /// If the bytes are not exactly one such encryption of zero with these parameters.
    pub fn from_bytes(
        parameters: &Parameters,
        mut bytes: Zeroizing<Vec<u8>>,
        basis: Basis,
        seeded: bool,
    ) -> Result<Self, RlweError> {
        let header = codec::fresh_header(parameters, basis, seeded);
        let differences = header.iter().zip(bytes.iter()).fold(0, |any, (a, b)| any | (a ^ b));
        if bytes.len() != Self::byte_len(parameters, basis, seeded) || declassify(differences != 0) {
            let kind = if seeded { "a seeded" } else { "a full" };
            return Err(RlweError::Decode {
                what: "an encryption of zero",
                found: format!("{} bytes that are not one", bytes.len()),
                needed: format!("{kind} one over {basis}, of preset '{}'", parameters.name()),
            });
        }
        // The same bytes, which are public now.
        bytes[..header.len()].copy_from_slice(&header);
        if seeded {
            let mut zero = SeededCiphertext::from_bytes(parameters, &bytes)?;
            zero.body.mark_secret();
            return Ok(Self::new(FreshCiphertext::Seeded(zero)));
        }
        let mut zero = Ciphertext::from_bytes(parameters, &bytes)?;
        zero.components.iter_mut().for_each(Poly::mark_secret);
        Ok(Self::new(FreshCiphertext::Full(zero)))
    }
}

impl fmt::Debug for ZeroEncryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroEncryption").field("basis", &self.basis()).finish_non_exhaustive()
    }
}
