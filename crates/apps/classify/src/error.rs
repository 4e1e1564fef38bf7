//! Errors of this crate.

use unspoken_fasttext::ModelError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_scores::ScoreError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// The two sides do not match, a message is malformed, or an operation on keys or ciphertexts failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The scores could not be computed, or the query not be made or read.
    #[error(transparent)]
    Scores(ScoreError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl ClassifyError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl From<ScoreError> for ClassifyError {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Protocol(error) => ClassifyError::Protocol(error),
            error => ClassifyError::Scores(error),
        }
    }
}

impl ApplicationError for ClassifyError {
    fn kind(&self) -> ErrorKind {
        match self {
            ClassifyError::Protocol(error) => error.kind(),
            ClassifyError::Scores(error) => error.kind(),
            ClassifyError::Model(_) => ErrorKind::Internal,
        }
    }
}
