//! Errors of this crate.

use unspoken_ckks::CkksError;

/// Errors of this crate: an encrypted network cannot be prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CnnError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Network, parameters, images or vectors do not match.
    #[error("{operation}: found {found}, needed {needed}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
}

impl CnnError {
    pub(crate) fn mismatch(operation: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Mismatch { operation, found: found.to_string(), needed: needed.to_string() }
    }
}
