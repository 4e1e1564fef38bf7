//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_rlwe::RlweError;

/// Errors of this crate: a network cannot be made, planned or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Parts of a network, rows, parameters or vectors do not fit.
    #[error("{operation}: found {found}, needed {needed}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
}

impl NetworkError {
    /// Whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, NetworkError::Ckks(CkksError::Rlwe(RlweError::Interrupted)))
    }

    pub(crate) fn mismatch(operation: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Mismatch { operation, found: found.to_string(), needed: needed.to_string() }
    }
}
