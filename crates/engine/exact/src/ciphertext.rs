//! Encrypted vectors, their noise budgets, and their serialisation.

use unspoken_rlwe::{self as rlwe, RlweError};

use crate::error::ExactError;
use crate::parameters::{ExactParameters, MIN_BUDGET_BITS, Scheme};

/// Bytes before the RLWE ciphertext: scheme (u8), plaintext modulus (u32), bound on the noise (f64, bits).
const HEAD_BYTES: usize = 1 + 4 + 8;

/// An encrypted vector: two components over the whole chain, and a bound on the noise they hold.
///
/// The bound is a worst case, not an estimate: it holds for every error that encryption can draw. An operation whose
/// result could decrypt wrong returns an error.
#[derive(Clone, Debug)]
pub struct Ciphertext {
    pub(crate) inner: rlwe::Ciphertext,
    pub(crate) parameters: ExactParameters,
    /// `log2` of the largest possible coefficient of the noise; in BGV, of message plus noise.
    pub(crate) noise_bits: f64,
}

/// An encrypted vector whose uniform half is a seed, which halves its size.
#[derive(Clone, Debug)]
pub struct SeededCiphertext {
    pub(crate) inner: rlwe::SeededCiphertext,
    pub(crate) parameters: ExactParameters,
}

/// An encrypted vector from a client.
#[derive(Clone, Debug)]
pub enum Encrypted {
    /// Made with the secret key: half the bytes.
    Seeded(SeededCiphertext),
    /// Made with a public key.
    Full(Ciphertext),
}

impl Encrypted {
    /// Converts to the form of the evaluator: expands a seeded half.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn expand(self) -> Result<Ciphertext, ExactError> {
        match self {
            Encrypted::Seeded(vector) => vector.expand(),
            Encrypted::Full(vector) => Ok(vector),
        }
    }

    /// Serialises as [`SeededCiphertext::to_bytes`] or [`Ciphertext::to_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Encrypted::Seeded(vector) => vector.to_bytes(),
            Encrypted::Full(vector) => vector.to_bytes(),
        }
    }

    /// Reads either form.
    ///
    /// # Errors
    /// As for [`Ciphertext::from_bytes`].
    pub fn from_bytes(parameters: &ExactParameters, bytes: &[u8]) -> Result<Self, ExactError> {
        let seeded = bytes.get(HEAD_BYTES..).is_some_and(rlwe::SeededCiphertext::begins);
        Ok(match seeded {
            true => Encrypted::Seeded(SeededCiphertext::from_bytes(parameters, bytes)?),
            false => Encrypted::Full(Ciphertext::from_bytes(parameters, bytes)?),
        })
    }
}

impl Ciphertext {
    /// The parameters it belongs to.
    pub fn parameters(&self) -> &ExactParameters {
        &self.parameters
    }

    /// The underlying RLWE ciphertext.
    pub fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    /// The noise budget in bits: `log2` of the smallest noise that makes the result wrong, divided by the bound on the
    /// noise. At least [`MIN_BUDGET_BITS`].
    pub fn budget_bits(&self) -> f64 {
        self.parameters.log2_noise_limit() - self.noise_bits
    }

    /// A ciphertext with the result of an operation, or an error if it could decrypt wrong.
    pub(crate) fn checked(
        operation: &'static str,
        parameters: &ExactParameters,
        inner: rlwe::Ciphertext,
        noise_bits: f64,
    ) -> Result<Self, ExactError> {
        check_noise(operation, parameters, noise_bits)?;
        Ok(Ciphertext { inner, parameters: parameters.clone(), noise_bits })
    }

    /// Serialises: scheme (u8: 0 BFV, 1 BGV), plaintext modulus (u32), bound on the noise (f64, bits), then the RLWE
    /// ciphertext.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = head(&self.parameters, self.noise_bits);
        bytes.extend(self.inner.to_bytes(self.parameters.rlwe()));
        bytes
    }

    /// Reads the output of [`Ciphertext::to_bytes`]. The bound on the noise is a claim of the sender; decryption
    /// measures the noise.
    ///
    /// # Errors
    /// If the bytes are not exactly one ciphertext with these parameters, with two components over the whole chain and
    /// a bound that leaves a noise budget.
    pub fn from_bytes(parameters: &ExactParameters, bytes: &[u8]) -> Result<Self, ExactError> {
        let (noise_bits, rest) = read_head(parameters, bytes)?;
        check_noise("read an exact ciphertext", parameters, noise_bits)?;
        let inner = rlwe::Ciphertext::from_bytes(parameters.rlwe(), rest)?;
        if inner.components().len() != 2 {
            return Err(refuse(format!("{} components", inner.components().len()), "2".into()).into());
        }
        check_chain(parameters, inner.basis().chain)?;
        Ok(Ciphertext { inner, parameters: parameters.clone(), noise_bits })
    }
}

impl SeededCiphertext {
    /// The parameters it belongs to.
    pub fn parameters(&self) -> &ExactParameters {
        &self.parameters
    }

    /// The public seed, which no two encryptions may share.
    pub fn seed(&self) -> &[u8; 32] {
        &self.inner.seed().0
    }

    /// Bytes of a seeded vector.
    pub fn byte_len(parameters: &ExactParameters) -> usize {
        HEAD_BYTES + rlwe::SeededCiphertext::byte_len(parameters.rlwe(), parameters.basis())
    }

    /// Serialises: scheme (u8: 0 BFV, 1 BGV), plaintext modulus (u32), a zero instead of a bound (f64), then the seeded
    /// RLWE ciphertext.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = head(&self.parameters, 0.0);
        bytes.extend(self.inner.to_bytes(self.parameters.rlwe()));
        bytes
    }

    /// Reads the output of [`SeededCiphertext::to_bytes`].
    ///
    /// # Errors
    /// As for [`Ciphertext::from_bytes`].
    pub fn from_bytes(parameters: &ExactParameters, bytes: &[u8]) -> Result<Self, ExactError> {
        let (zero, rest) = read_head(parameters, bytes)?;
        if zero.to_bits() != 0 {
            return Err(refuse(format!("a bound of {zero} bits"), "0, which a seeded ciphertext has".into()).into());
        }
        let inner = rlwe::SeededCiphertext::from_bytes(parameters.rlwe(), rest)?;
        check_chain(parameters, inner.basis().chain)?;
        Ok(SeededCiphertext { inner, parameters: parameters.clone() })
    }
}

pub(crate) fn check_noise(
    operation: &'static str,
    parameters: &ExactParameters,
    noise_bits: f64,
) -> Result<(), ExactError> {
    let found = parameters.log2_noise_limit() - noise_bits;
    // A budget that is NaN is refused, too.
    if found >= MIN_BUDGET_BITS { Ok(()) } else { Err(ExactError::Noise { operation, found, needed: MIN_BUDGET_BITS }) }
}

fn scheme_code(scheme: Scheme) -> u8 {
    match scheme {
        Scheme::Bfv => 0,
        Scheme::Bgv => 1,
    }
}

fn head(parameters: &ExactParameters, noise_bits: f64) -> Vec<u8> {
    let mut bytes = vec![scheme_code(parameters.scheme())];
    bytes.extend(parameters.plain_modulus().to_le_bytes());
    bytes.extend(noise_bits.to_le_bytes());
    bytes
}

fn read_head<'a>(parameters: &ExactParameters, bytes: &'a [u8]) -> Result<(f64, &'a [u8]), ExactError> {
    let Some((&[scheme, t0, t1, t2, t3, ref bound @ ..], rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err(refuse(format!("{} bytes", bytes.len()), format!("at least {HEAD_BYTES} bytes")).into());
    };
    let modulus = u32::from_le_bytes([t0, t1, t2, t3]);
    if (scheme, modulus) != (scheme_code(parameters.scheme()), parameters.plain_modulus()) {
        return Err(refuse(format!("scheme {scheme} modulo {modulus}"), parameters.describe()).into());
    }
    let noise_bits = f64::from_le_bytes(*bound);
    if !(0.0..=f64::MAX).contains(&noise_bits) {
        return Err(refuse(format!("a bound of {noise_bits} bits"), "a number that is not negative".into()).into());
    }
    Ok((noise_bits, rest))
}

fn check_chain(parameters: &ExactParameters, found: usize) -> Result<(), ExactError> {
    let needed = parameters.basis().chain;
    if found == needed { Ok(()) } else { Err(refuse(format!("{found} chain primes"), format!("{needed}")).into()) }
}

fn refuse(found: String, needed: String) -> RlweError {
    RlweError::Decode { what: "an exact ciphertext", found, needed }
}
