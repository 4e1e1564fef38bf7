//! Errors of this crate.

use unspoken_embedding::EmbeddingError;
use unspoken_lookup::LookupError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_query::{QueryError, lookup_error_kind};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// The two sides do not match, a message is malformed, or an operation on keys or ciphertexts failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The query could not be made or read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The lookup failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The head does not fit the table, or the codes are invalid.
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

impl ClassifyError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl ApplicationError for ClassifyError {
    fn kind(&self) -> ErrorKind {
        match self {
            ClassifyError::Protocol(error) => error.kind(),
            ClassifyError::Query(error) => error.kind(),
            ClassifyError::Lookup(error) => lookup_error_kind(error),
            ClassifyError::Embedding(_) => ErrorKind::Internal,
            ClassifyError::TooLong { .. } => ErrorKind::Mismatch,
        }
    }
}
