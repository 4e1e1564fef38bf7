//! Errors of this crate.

use unspoken_lookup::LookupError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_query::{QueryError, lookup_error_kind};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The two sides do not match, a message is malformed, or an operation on keys or ciphertexts failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The query could not be made or read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The lookup failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

impl ScoreError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl ApplicationError for ScoreError {
    fn kind(&self) -> ErrorKind {
        match self {
            ScoreError::Protocol(error) => error.kind(),
            ScoreError::Query(error) => error.kind(),
            ScoreError::Lookup(error) => lookup_error_kind(error),
        }
    }
}
