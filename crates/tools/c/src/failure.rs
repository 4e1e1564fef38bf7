//! Errors, with the status that each becomes.

use unspoken_pir::PirError;
use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{OpenedError, ProtocolError};

use crate::status::UnspokenPirStatus;

/// An error of a call. None contains a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A pointer that must be there is null.
    #[error("{argument} is NULL; pass a valid pointer")]
    Null { argument: &'static str },
    /// An argument cannot be used.
    #[error("{what}: found {found}, needed {needed}")]
    Argument { what: &'static str, found: String, needed: String },
    /// The client has no description yet.
    #[error("the client is not open, needed an open one; call unspoken_pir_open first")]
    NotOpen,
    /// The client has a description already.
    #[error("the client is open, needed one that is not; call unspoken_pir_update, or make another client")]
    Open,
    /// A callback that receives bytes returned an error.
    #[error("the callback that receives bytes returned {found}, needed 0; see why it failed, and call again")]
    Stopped { found: i32 },
    /// An operation of the client that decrypts nothing.
    #[error(transparent)]
    Retrieve(#[from] OpenedError<PirError>),
    /// An answer was decrypted and cannot be used.
    #[error("{0}. Do not ask again because of this, and do not let the service learn it")]
    Decrypted(OpenedError<PirError>),
    /// A panic.
    #[error("this library has a bug; free the client, open another one, and report what you did")]
    Panicked,
}

impl Failure {
    /// The status that a call returns for this error.
    pub(crate) fn status(&self) -> UnspokenPirStatus {
        match self {
            Failure::Null { .. } => UnspokenPirStatus::NullPointer,
            Failure::Argument { .. } | Failure::NotOpen | Failure::Open => UnspokenPirStatus::Argument,
            Failure::Stopped { .. } => UnspokenPirStatus::Callback,
            Failure::Retrieve(error) => status_of(error),
            Failure::Decrypted(OpenedError::Application(PirError::NoSuchIndex { .. })) => {
                UnspokenPirStatus::NoSuchIndex
            }
            Failure::Decrypted(_) => UnspokenPirStatus::Unreadable,
            Failure::Panicked => UnspokenPirStatus::Internal,
        }
    }
}

impl From<PirError> for Failure {
    fn from(error: PirError) -> Self {
        Failure::Retrieve(error.into())
    }
}

/// The status of an operation that decrypts nothing.
fn status_of(error: &OpenedError<PirError>) -> UnspokenPirStatus {
    use PirError::{Io, Pir, Protocol, Randomness};
    match error {
        OpenedError::Questions { .. } => UnspokenPirStatus::Argument,
        OpenedError::Application(Protocol(ProtocolError::Damaged { .. })) => UnspokenPirStatus::Damaged,
        OpenedError::Application(Pir(SchemeError::Kind { .. })) => UnspokenPirStatus::Argument,
        OpenedError::Application(Io { .. }) => UnspokenPirStatus::Callback,
        OpenedError::Application(Randomness(_)) => UnspokenPirStatus::Internal,
        _ => UnspokenPirStatus::Mismatch,
    }
}
