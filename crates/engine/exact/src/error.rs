//! Errors of this crate.

use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExactError {
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A ciphertext has too much noise for a correct decryption. The error does not contain the noise, because it
    /// depends on secrets.
    #[error(
        "{operation}: less than {needed:.1} bits of noise budget are left, so the result could be wrong; the \
         ciphertext was damaged, or its sender claimed less noise than it has"
    )]
    MeasuredNoise {
        /// The operation.
        operation: &'static str,
        /// Bits needed.
        needed: f64,
    },
    /// The result of an operation could be wrong.
    #[error(
        "{operation}: {found:.1} bits of noise budget are left, needed {needed:.1}; the result could be wrong. Use a \
         preset with a larger modulus, or fewer or smaller factors"
    )]
    Noise {
        /// The operation.
        operation: &'static str,
        /// Bits of noise budget.
        found: f64,
        /// Bits needed.
        needed: f64,
    },
    /// An integer is outside the range of the plaintext modulus.
    #[error(
        "{operation}: value {index} is out of range: the plaintext modulus {modulus} holds -{limit} to {limit}",
        limit = modulus / 2
    )]
    Value {
        /// The operation.
        operation: &'static str,
        /// Its index.
        index: usize,
        /// The plaintext modulus.
        modulus: u32,
    },
    /// Wrong number of values.
    #[error("{operation}: found {found} values, needed at most {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// Number of values.
        found: usize,
        /// Largest number of values.
        needed: usize,
    },
    /// A plaintext or ciphertext was made for other parameters.
    #[error("{operation}: the operand was made for {found}, needed {needed}; use one set of parameters throughout")]
    Parameters {
        /// The operation.
        operation: &'static str,
        /// The parameters of the operand.
        found: String,
        /// The parameters needed.
        needed: String,
    },
    /// A parameter set is unusable.
    #[error("parameters '{name}': {reason}")]
    Literal {
        /// Its name.
        name: String,
        /// The defect, and the values that are possible.
        reason: String,
    },
}
