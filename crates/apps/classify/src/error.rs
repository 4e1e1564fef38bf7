//! What can go wrong with a classification.

use unspoken_fasttext::ModelError;
use unspoken_lookup::LookupError;
use unspoken_protocol::{Failure, Fault, ProtocolError};
use unspoken_query::{QueryError, lookup_fault};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// The two sides do not fit together, a message is malformed, or keys or ciphertexts failed.
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

impl Failure for ClassifyError {
    fn fault(&self) -> Fault {
        match self {
            ClassifyError::Protocol(error) => error.fault(),
            ClassifyError::Query(error) => error.fault(),
            ClassifyError::Lookup(error) => lookup_fault(error),
            ClassifyError::Model(_) => Fault::Internal,
        }
    }
}
