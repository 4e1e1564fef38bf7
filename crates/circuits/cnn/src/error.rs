//! Errors of this crate.

use unspoken_ckks::CkksError;

/// An encrypted network could not be prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CnnError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Network, parameters, images and vectors do not fit together.
    #[error("{operation}: found {found}, needed {needed}")]
    Mismatch {
        /// What was done.
        operation: &'static str,
        /// What was there.
        found: String,
        /// What would have done.
        needed: String,
    },
}

impl CnnError {
    pub(crate) fn mismatch(operation: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Mismatch { operation, found: found.to_string(), needed: needed.to_string() }
    }
}
