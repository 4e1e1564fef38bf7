//! Errors of this crate.

use unspoken_fasttext::ModelError;
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
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
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
            ClassifyError::Model(_) => ErrorKind::Internal,
        }
    }
}
