//! What can go wrong with an embedding lookup.

use unspoken_ckks::CkksError;
use unspoken_embedding::EmbeddingError;
use unspoken_lookup::LookupError;
use unspoken_rlwe::RlweError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// The lookup failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The compressed table, or a token, failed.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
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

impl EmbedError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        EmbedError::Mismatch { what, found: found.to_string(), needed: needed.to_string() }
    }

    /// Whether the work was stopped on request.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            EmbedError::Rlwe(RlweError::Interrupted)
                | EmbedError::Ckks(CkksError::Rlwe(RlweError::Interrupted))
                | EmbedError::Lookup(LookupError::Ckks(CkksError::Rlwe(RlweError::Interrupted)))
                | EmbedError::Lookup(LookupError::Rlwe(RlweError::Interrupted))
        )
    }
}
