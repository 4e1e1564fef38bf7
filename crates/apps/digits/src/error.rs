//! Errors of this crate.

use unspoken_cnn::CnnError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};

/// Errors of private recognition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DigitsError {
    /// The two sides do not match, a message is malformed, or an operation on keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The circuit failed.
    #[error(transparent)]
    Circuit(#[from] CnnError),
}

impl ApplicationError for DigitsError {
    fn kind(&self) -> ErrorKind {
        match self {
            DigitsError::Protocol(error) => error.kind(),
            DigitsError::Circuit(CnnError::Ckks(error)) => error.kind(),
            DigitsError::Circuit(_) => ErrorKind::Mismatch,
        }
    }
}
