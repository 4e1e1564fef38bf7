//! Errors, as exceptions of JavaScript.

use js_sys::{Error, Reflect};
use unspoken_protocol::{AnyError, ApplicationError, ErrorKind, OpenedError};
use wasm_bindgen::JsValue;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An argument is wrong.
    #[error("{what}: found {found}, needed {needed}")]
    Argument {
        /// What was checked.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// A request or an answer cannot be used.
    #[error("{0}")]
    Refused(String),
    /// An operation of an application failed.
    #[error("{0}")]
    Application(AnyError),
    /// A model could not be read.
    #[error("{0}")]
    Model(String),
    /// The callback that receives bytes failed.
    #[error("pass on bytes: the callback failed, so that no more are made")]
    Callback(JsValue),
    /// The system has no randomness.
    #[error("draw random bytes: {0}; use a browser that has crypto.getRandomValues")]
    Randomness(#[from] unspoken_ring::RingError),
}

impl Failure {
    /// An error of an application.
    pub(crate) fn of(error: impl ApplicationError) -> Self {
        Failure::Application(Box::new(error))
    }

    /// A stable name of the kind, the field `code` of exceptions.
    fn code(&self) -> &'static str {
        match self {
            Failure::Argument { .. } | Failure::Refused(_) => "argument",
            Failure::Model(_) => "model",
            Failure::Callback(_) => "callback",
            Failure::Randomness(_) => "randomness",
            Failure::Application(error) => match error.kind() {
                ErrorKind::Cancelled => "cancelled",
                ErrorKind::Busy => "busy",
                ErrorKind::Exhausted { .. } => "exhausted",
                ErrorKind::Malformed => "malformed",
                ErrorKind::Mismatch => "mismatch",
                ErrorKind::Refused { .. } => "refused",
                ErrorKind::Unreadable => "unreadable",
                ErrorKind::Io(_) => "io",
                ErrorKind::Internal => "internal",
            },
        }
    }
}

impl<E: ApplicationError> From<OpenedError<E>> for Failure {
    fn from(error: OpenedError<E>) -> Self {
        match error {
            OpenedError::Application(error) => Failure::of(error),
            refused => Failure::Refused(refused.to_string()),
        }
    }
}

impl From<Failure> for JsValue {
    /// An `Error` with the field `code`; for a callback that failed, what it threw.
    fn from(failure: Failure) -> Self {
        if let Failure::Callback(thrown) = failure {
            return thrown;
        }
        let error = Error::new(&failure.to_string());
        // A plain error object takes any field.
        let _ = Reflect::set(&error, &"code".into(), &failure.code().into());
        error.into()
    }
}
