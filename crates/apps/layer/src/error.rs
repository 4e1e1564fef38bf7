//! Errors of this crate.

use unspoken_embedding::{EmbeddingError, HeadError};
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_scores::ScoreError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The two sides do not match, a message is malformed, or an operation on keys or ciphertexts failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The scores could not be computed, or the query not be made or read.
    #[error(transparent)]
    Scores(ScoreError),
    /// The head does not fit the table.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The codes are invalid.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
    /// A text has more tokens than the service reads. An empty text was sent in its place, so that the service does not
    /// learn that it is too long.
    #[error(
        "ask about a text: found {found} tokens in text {position}, needed at most {most}; shorten it, or cut texts \
         (--cut, in Python cut=True), which ignores the rest. The service was asked about empty texts instead, and did \
         not learn this"
    )]
    TooLong {
        /// Position of the text, from 1.
        position: usize,
        /// Number of its tokens.
        found: usize,
        /// Tokens that the service reads.
        most: usize,
    },
}

impl LayerError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl From<ScoreError> for LayerError {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Protocol(error) => LayerError::Protocol(error),
            error => LayerError::Scores(error),
        }
    }
}

impl ApplicationError for LayerError {
    fn kind(&self) -> ErrorKind {
        match self {
            LayerError::Protocol(error) => error.kind(),
            LayerError::Scores(error) => error.kind(),
            LayerError::Head(_) | LayerError::Embedding(_) => ErrorKind::Internal,
            LayerError::TooLong { .. } => ErrorKind::Mismatch,
        }
    }
}
