//! What can go wrong between two halves, and whose fault that is.

use std::io;

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

use crate::demands::Excess;

/// Errors that all applications have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A query could not be encrypted.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// The two sides do not fit together, or a message is malformed.
    #[error("{what}: found {found}, needed {needed}")]
    Mismatch {
        /// What was looked at.
        what: &'static str,
        /// What was there.
        found: String,
        /// What would have done.
        needed: String,
    },
}

impl ProtocolError {
    /// A [`ProtocolError::Mismatch`].
    pub fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::Mismatch { what, found: found.to_string(), needed: needed.to_string() }
    }
}

impl From<Excess> for ProtocolError {
    fn from(Excess { what, found, needed }: Excess) -> Self {
        Self::mismatch(what, found, format!("{needed}; do not trust this service"))
    }
}

/// Whose fault an error is, as far as a service must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody's: the work was stopped on request.
    Interrupted,
    /// The other side's: bytes that make no sense.
    Malformed,
    /// The other side's: bytes made for other parameters, another model or other keys.
    DoesNotFit,
    /// The system's: bytes could not be read or written.
    Unreadable(io::ErrorKind),
    /// Our own.
    Internal,
}

/// An error of an application.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// Whose fault it is.
    fn fault(&self) -> Fault;

    /// Whether the work was stopped on request.
    fn is_interrupted(&self) -> bool {
        self.fault() == Fault::Interrupted
    }
}

impl Failure for RlweError {
    fn fault(&self) -> Fault {
        match self {
            RlweError::Interrupted => Fault::Interrupted,
            RlweError::MissingKeys { .. } => Fault::DoesNotFit,
            RlweError::Io(error) => Fault::Unreadable(error.kind()),
            RlweError::Ring(RingError::Randomness(_)) => Fault::Internal,
            RlweError::Decode { .. } | RlweError::Ring(_) => Fault::Malformed,
            _ => Fault::Internal,
        }
    }
}

impl Failure for CkksError {
    fn fault(&self) -> Fault {
        match self {
            CkksError::Rlwe(RlweError::Interrupted) => Fault::Interrupted,
            _ => Fault::Malformed,
        }
    }
}

impl Failure for EncryptError {
    fn fault(&self) -> Fault {
        match self {
            EncryptError::Ckks(error) => error.fault(),
            EncryptError::Rlwe(error) => error.fault(),
            _ => Fault::Internal,
        }
    }
}

impl Failure for ProtocolError {
    fn fault(&self) -> Fault {
        match self {
            ProtocolError::Ckks(error) => error.fault(),
            ProtocolError::Rlwe(error) => error.fault(),
            ProtocolError::Encrypt(error) => error.fault(),
            ProtocolError::Mismatch { .. } => Fault::DoesNotFit,
        }
    }
}
