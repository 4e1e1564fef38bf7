//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_exact::ExactError;
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Approximate encryption failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Exact encryption failed.
    #[error(transparent)]
    Exact(#[from] ExactError),
    /// A pool failed.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A value or a number is outside the range of an operation.
    #[error("{operation}: found {found}, needed {needed}")]
    Range {
        /// The operation.
        operation: &'static str,
        /// The value found.
        found: String,
        /// The allowed values.
        needed: String,
    },
}
