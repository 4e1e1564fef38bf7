//! Errors of calls to a service.

use std::error::Error;
use std::io;
use std::path::Path;

use unspoken_protocol::{ApplicationError, ErrorKind};

use crate::transport;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An error of the service, or of the connection to it.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// An error of the application: keys, queries or answers. [`ClientError::application`] returns it as its own type.
    #[error("{0}{advice}", advice = advice(.0.kind()))]
    Application(Box<dyn ApplicationError>),
    /// The service offers an application of another kind under this name.
    #[error("{url} offers {application}, which is of kind {found}; this client asks applications of kind {needed}")]
    OtherKind {
        /// The service.
        url: String,
        /// Name of the application.
        application: String,
        /// Kind of the application.
        found: String,
        /// Kind that the client needs.
        needed: &'static str,
    },
    /// The answers of one call may be too large to keep. Nothing was sent.
    #[error(
        "ask: found answers of up to {found} bytes, needed at most {needed}; ask at most {questions} questions a call"
    )]
    TooMuch {
        /// Bytes of all answers of the call, at most.
        found: u64,
        /// Bytes of answers that one call keeps, at most.
        needed: u64,
        /// Number of questions of one call, at most.
        questions: u64,
    },
    /// The stored secret key does not fit the application, or is damaged.
    #[error(
        "secret key in {path}: {reason}; restore the file from a copy, or delete it: then the client makes a new \
         secret and sends new keys. A database that was uploaded with the old secret can be read with that one alone"
    )]
    SecretKey {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: Box<dyn ApplicationError>,
    },
    /// An error of the client's own files.
    #[error("client state in {path}: {source}")]
    State {
        /// The directory.
        path: String,
        /// What went wrong.
        source: io::Error,
    },
}

/// What an error of a decrypted answer needs besides its own text.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unreadable => ". Do not ask again because of this, and do not let the service learn it",
        _ => "",
    }
}

impl ClientError {
    /// The error of a file or directory of the state, for `map_err`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| ClientError::State { path: path.display().to_string(), source }
    }

    /// Wraps an application's error.
    pub fn of_application(error: impl ApplicationError) -> Self {
        ClientError::Application(Box::new(error))
    }

    /// The application's error, if it is of type `E`.
    pub fn application<E: ApplicationError>(&self) -> Option<&E> {
        let ClientError::Application(error) = self else { return None };
        let error: &(dyn Error + 'static) = &**error;
        error.downcast_ref()
    }

    /// Whether the caller cancelled.
    pub fn is_cancelled(&self) -> bool {
        match self {
            ClientError::Transport(transport::Error::Cancelled) => true,
            ClientError::Application(error) => error.kind() == ErrorKind::Cancelled,
            _ => false,
        }
    }
}
