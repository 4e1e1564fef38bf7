//! Errors of this crate.

use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError, ShardProblem};
use unspoken_ring::RingError;
use unspoken_search_index::IndexError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The two sides do not match, or a message is malformed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A query, its vector, or scores cannot be used.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The service has another index than the one that it described, or documents of another version of it. Nothing was
    /// found.
    #[error("search: the collection of the service was changed meanwhile; ask again in a few seconds")]
    Replaced,
    /// A shard of the index does not answer, or does not fit the others.
    #[error(transparent)]
    Shard(#[from] ShardProblem),
    /// A fetched record is no document.
    #[error(transparent)]
    Document(IndexError),
    /// The operating system has no randomness.
    #[error(transparent)]
    Randomness(#[from] RingError),
}

impl SearchError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl ApplicationError for SearchError {
    fn kind(&self) -> ErrorKind {
        match self {
            SearchError::Protocol(error) => error.kind(),
            SearchError::Scheme(error) => error.kind(),
            SearchError::Replaced => ErrorKind::Mismatch,
            // It may be over soon: a shard is restarted, or all are being replaced.
            SearchError::Shard(_) => ErrorKind::Busy,
            SearchError::Document(_) => ErrorKind::Unreadable,
            SearchError::Randomness(_) => ErrorKind::Internal,
        }
    }
}
