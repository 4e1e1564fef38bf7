//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_lookup::LookupError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_rlwe::RlweError;

/// A query could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The two sides do not match, a message is malformed, or an operation on keys or ciphertexts failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The lookup refused the query.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

impl QueryError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl From<CkksError> for QueryError {
    fn from(error: CkksError) -> Self {
        QueryError::Protocol(error.into())
    }
}

impl From<RlweError> for QueryError {
    fn from(error: RlweError) -> Self {
        QueryError::Protocol(error.into())
    }
}

impl From<EncryptError> for QueryError {
    fn from(error: EncryptError) -> Self {
        QueryError::Protocol(error.into())
    }
}

impl ApplicationError for QueryError {
    fn kind(&self) -> ErrorKind {
        match self {
            QueryError::Protocol(error) => error.kind(),
            QueryError::Lookup(error) => lookup_error_kind(error),
        }
    }
}

/// Kind of a lookup's error.
pub fn lookup_error_kind(error: &LookupError) -> ErrorKind {
    match error {
        LookupError::Ckks(error) => error.kind(),
        LookupError::Query { .. } => ErrorKind::Mismatch,
        _ => ErrorKind::Internal,
    }
}
