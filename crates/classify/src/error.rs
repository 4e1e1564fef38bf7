//! What can go wrong with a classification.

use unspoken_ckks::CkksError;
use unspoken_fasttext::ModelError;
use unspoken_lookup::LookupError;
use unspoken_rlwe::RlweError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// The lookup failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The two sides do not fit together, or a message is malformed.
    #[error("{what}: found {found}, needed {needed}")]
    Mismatch {
        /// What was looked at.
        what: &'static str,
        /// What was there.
        found: String,
        /// What would have done.
        needed: String,
    },
}

impl ClassifyError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ClassifyError::Mismatch { what, found: found.to_string(), needed: needed.to_string() }
    }

    /// Whether the work was stopped on request.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            ClassifyError::Rlwe(RlweError::Interrupted)
                | ClassifyError::Ckks(CkksError::Rlwe(RlweError::Interrupted))
                | ClassifyError::Lookup(LookupError::Ckks(CkksError::Rlwe(RlweError::Interrupted)))
                | ClassifyError::Lookup(LookupError::Rlwe(RlweError::Interrupted))
        )
    }
}
