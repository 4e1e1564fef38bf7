//! Errors, with the status that each becomes.

use unspoken_model::ModelError;
use unspoken_pir::PirError;
use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{AnyError, ApplicationError, ErrorKind, OpenedError, ProtocolError};
use unspoken_search::SearchError;

use crate::status::UnspokenStatus;

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
    #[error(
        "the client is not open, needed an open one; call unspoken_pir_open, unspoken_search_open or \
         unspoken_model_open first"
    )]
    NotOpen,
    /// The client has a description already.
    #[error("the client is open, needed one that is not; call unspoken_update, or make another client")]
    Open,
    /// The client is of another application.
    #[error("the client was opened by {found}, needed one of {needed}")]
    Kind { found: &'static str, needed: &'static str },
    /// A callback that receives bytes returned an error.
    #[error("the callback that receives bytes returned {found}, needed 0; see why it failed, and call again")]
    Stopped { found: i32 },
    /// An operation of the client that decrypts nothing.
    #[error("{text}")]
    Refused { status: UnspokenStatus, text: String },
    /// An answer was decrypted and cannot be used.
    #[error("{text}. Do not ask again because of this, and do not let the service learn it")]
    Decrypted { status: UnspokenStatus, text: String },
    /// A panic.
    #[error("this library has a bug; free the client, open another one, and report what you did")]
    Panicked,
}

impl Failure {
    /// The status that a call returns for this error.
    pub(crate) fn status(&self) -> UnspokenStatus {
        match self {
            Failure::Null { .. } => UnspokenStatus::NullPointer,
            Failure::Argument { .. } | Failure::NotOpen | Failure::Open | Failure::Kind { .. } => {
                UnspokenStatus::Argument
            }
            Failure::Stopped { .. } => UnspokenStatus::Callback,
            Failure::Refused { status, .. } | Failure::Decrypted { status, .. } => *status,
            Failure::Panicked => UnspokenStatus::Internal,
        }
    }

    /// The error of an answer that was decrypted.
    pub(crate) fn decrypted<E: StatusError>(error: OpenedError<E>) -> Self {
        let text = error.to_string();
        let status = match error {
            OpenedError::Application(error) => error.decrypted_status(),
            _ => UnspokenStatus::Unreadable,
        };
        Failure::Decrypted { status, text }
    }
}

/// An error of an application that has a status.
pub(crate) trait StatusError: ApplicationError {
    /// The status of an operation that decrypts nothing.
    fn status(&self) -> UnspokenStatus;

    /// The status of an answer that was decrypted.
    fn decrypted_status(&self) -> UnspokenStatus {
        UnspokenStatus::Unreadable
    }
}

impl StatusError for PirError {
    fn status(&self) -> UnspokenStatus {
        use PirError::{Io, Pir, Protocol, Randomness};
        match self {
            Protocol(ProtocolError::Damaged { .. }) => UnspokenStatus::Damaged,
            Pir(SchemeError::Kind { .. }) => UnspokenStatus::Argument,
            Io { .. } => UnspokenStatus::Callback,
            Randomness(_) => UnspokenStatus::Internal,
            _ => UnspokenStatus::Mismatch,
        }
    }

    fn decrypted_status(&self) -> UnspokenStatus {
        match self {
            PirError::NoSuchIndex { .. } => UnspokenStatus::NoSuchIndex,
            _ => UnspokenStatus::Unreadable,
        }
    }
}

impl StatusError for SearchError {
    fn status(&self) -> UnspokenStatus {
        match self {
            SearchError::Protocol(ProtocolError::Damaged { .. }) => UnspokenStatus::Damaged,
            SearchError::Randomness(_) => UnspokenStatus::Internal,
            _ => UnspokenStatus::Mismatch,
        }
    }
}

impl StatusError for ModelError {
    fn status(&self) -> UnspokenStatus {
        match self {
            ModelError::Protocol(ProtocolError::Damaged { .. }) => UnspokenStatus::Damaged,
            _ => UnspokenStatus::Mismatch,
        }
    }
}

impl<E: StatusError> From<OpenedError<E>> for Failure {
    fn from(error: OpenedError<E>) -> Self {
        let text = error.to_string();
        let status = match error {
            OpenedError::Questions { .. } => UnspokenStatus::Argument,
            OpenedError::Application(error) => error.status(),
            _ => UnspokenStatus::Mismatch,
        };
        Failure::Refused { status, text }
    }
}

impl<E: StatusError> From<E> for Failure {
    fn from(error: E) -> Self {
        OpenedError::Application(error).into()
    }
}

/// Of making keys, or of storing a secret.
impl From<AnyError> for Failure {
    fn from(error: AnyError) -> Self {
        let status = match error.kind() {
            ErrorKind::Io(_) => UnspokenStatus::Callback,
            ErrorKind::Internal => UnspokenStatus::Internal,
            _ => UnspokenStatus::Mismatch,
        };
        Failure::Refused { status, text: error.to_string() }
    }
}
