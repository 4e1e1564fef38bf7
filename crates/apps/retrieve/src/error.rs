//! What can go wrong between client and service of a database.

use std::io;

use unspoken_pir::{LayoutError, PirError};
use unspoken_protocol::{Failure, Fault, ProtocolError};
use unspoken_ring::RingError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrieveError {
    /// The two sides do not fit together, or a message is malformed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Keys, queries or responses failed.
    #[error(transparent)]
    Pir(#[from] PirError),
    /// An index, a key or a cell does not fit the database.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Keys could not be written, or the numbers of session queries not be stored.
    #[error("{what}: {source}")]
    Io {
        /// What was written.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
    /// The operating system has no randomness to give.
    #[error(transparent)]
    Randomness(#[from] RingError),
}

impl RetrieveError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl Failure for RetrieveError {
    fn fault(&self) -> Fault {
        match self {
            RetrieveError::Protocol(error) => error.fault(),
            RetrieveError::Pir(error) | RetrieveError::Layout(LayoutError::Pir(error)) => pir_fault(error),
            RetrieveError::Layout(_) => Fault::Malformed,
            RetrieveError::Io { source, .. } => Fault::Unreadable(source.kind()),
            RetrieveError::Randomness(_) => Fault::Internal,
        }
    }
}

fn pir_fault(error: &PirError) -> Fault {
    match error {
        PirError::Interrupted => Fault::Interrupted,
        PirError::Table { .. } => Fault::Internal,
        PirError::Mode { .. } | PirError::OtherParameters { .. } | PirError::Failure { .. } => Fault::DoesNotFit,
        PirError::Format { .. } | PirError::Index { .. } | PirError::Range { .. } | PirError::Ring(_) => {
            Fault::Malformed
        }
        error => match error.read_failure() {
            Some(io::ErrorKind::UnexpectedEof) => Fault::Malformed,
            Some(kind) => Fault::Unreadable(kind),
            None if matches!(error, PirError::Gsw(_)) => Fault::Malformed,
            None => Fault::Internal,
        },
    }
}
