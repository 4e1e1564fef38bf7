//! Errors of this crate.

use unspoken_cnn::CnnError;
use unspoken_protocol::{Failure, Fault, ProtocolError};

/// A private recognition failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DigitsError {
    /// The two sides do not fit together, a message is malformed, or keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The circuit failed.
    #[error(transparent)]
    Circuit(#[from] CnnError),
}

impl Failure for DigitsError {
    fn fault(&self) -> Fault {
        match self {
            DigitsError::Protocol(error) => error.fault(),
            DigitsError::Circuit(CnnError::Ckks(error)) => error.fault(),
            DigitsError::Circuit(_) => Fault::DoesNotFit,
        }
    }
}
