//! Errors that the two halves share, and their kinds.

use std::borrow::Cow;
use std::{fmt, io};

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_pir_scheme::SchemeError;
use unspoken_ring::{DeviceError, RingError};
use unspoken_rlwe::RlweError;

use crate::limits::LimitExceeded;

/// Errors that all applications share.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A query could not be encrypted.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// An operation of private retrieval failed.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The two sides do not match, or a message is malformed.
    #[error("{what}: found {found}, needed {needed}")]
    Mismatch {
        /// What was checked.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value needed.
        needed: String,
    },
    /// The checksum of a message does not match its bytes.
    #[error(
        "{what}: found damaged bytes, whose checksum is wrong; needed the bytes as they were written: send or copy \
         them again"
    )]
    Damaged {
        /// The message.
        what: &'static str,
    },
    /// What an answer decrypts to is not what a sound answer has. The kind is [`ErrorKind::Unreadable`]: do not ask
    /// again because of it.
    #[error("answer: found {found}, needed {needed}")]
    Unreadable {
        /// What it decrypts to.
        found: &'static str,
        /// What a sound answer has, and what to do.
        needed: String,
    },
}

impl ProtocolError {
    /// A [`ProtocolError::Mismatch`].
    pub fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::Mismatch { what, found: found.to_string(), needed: needed.to_string() }
    }

    /// The error of a description that allows less than an earlier one of the same service. A client whose question no
    /// longer fits ends with an error, so a service that describes any bound it likes could find the size of the
    /// question by bisection: [`ClientHalf::check_change`](crate::ClientHalf::check_change) refuses such a description.
    pub fn lowered(found: impl ToString, before: impl fmt::Display) -> Self {
        let needed = format!(
            "{before}, as before; do not trust this service, unless its owner confirms the change: then delete this \
             client's state directory"
        );
        Self::mismatch("description", found, needed)
    }
}

impl From<LimitExceeded> for ProtocolError {
    fn from(LimitExceeded { what, found, needed }: LimitExceeded) -> Self {
        Self::mismatch(what, found, format!("{needed}; do not trust this service"))
    }
}

/// Kind of an error, as far as a service or a caller needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The work was cancelled.
    Cancelled,
    /// What is needed is in use: the same request may succeed later.
    Busy,
    /// The client has used up what it may ask for; the same request may succeed later.
    Exhausted {
        /// Seconds until then.
        wait_seconds: u32,
    },
    /// Bytes from the other side are malformed.
    Malformed,
    /// Bytes from the other side are for other parameters, another model or other keys. It follows from what both sides
    /// know, never from decrypted data.
    Mismatch,
    /// An answer was decrypted, and is not one that an honest service gives to these keys. Whether it is can depend on
    /// the question: a client that asked again, or let the service see this error, would answer the service's question
    /// about it. It is final.
    Unreadable,
    /// The request is right, but what the application holds, or who asks, does not allow it. It changed nothing.
    Refused {
        /// What the client can do.
        remedy: Cow<'static, str>,
    },
    /// Files or streams could not be read or written.
    Io(io::ErrorKind),
    /// An error inside this program or its system.
    Internal,
}

/// An error of an application.
pub trait ApplicationError: std::error::Error + Send + Sync + 'static {
    /// Kind of the error.
    fn kind(&self) -> ErrorKind;

    /// Whether the work was cancelled.
    fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }
}

/// An error of any application: its kind and its text, all that a service needs to know of it. Also the error type of
/// applications that need no type of their own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PlainError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// What was found and what was needed.
    pub text: String,
}

impl PlainError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        PlainError { kind, text: text.into() }
    }

    /// Kind and text of an error.
    pub fn of(error: &impl ApplicationError) -> Self {
        PlainError { kind: error.kind(), text: error.to_string() }
    }
}

impl ApplicationError for PlainError {
    fn kind(&self) -> ErrorKind {
        self.kind.clone()
    }
}

impl From<io::Error> for PlainError {
    fn from(error: io::Error) -> Self {
        PlainError::new(ErrorKind::Io(error.kind()), error.to_string())
    }
}

impl ApplicationError for RingError {
    fn kind(&self) -> ErrorKind {
        match self {
            // Other answers may have the memory, and the processor computes the next ones.
            RingError::Device(DeviceError::Memory { .. } | DeviceError::Replaced { .. }) => ErrorKind::Busy,
            RingError::Device(_)
            | RingError::OnDevice { .. }
            | RingError::SecretOnDevice
            | RingError::Randomness(_) => ErrorKind::Internal,
            _ => ErrorKind::Malformed,
        }
    }
}

impl ApplicationError for RlweError {
    fn kind(&self) -> ErrorKind {
        match self {
            RlweError::Interrupted => ErrorKind::Cancelled,
            RlweError::MissingKeys { .. } => ErrorKind::Mismatch,
            RlweError::Io(error) => ErrorKind::Io(error.kind()),
            RlweError::Ring(error) => error.kind(),
            RlweError::Decode { .. } => ErrorKind::Malformed,
            _ => ErrorKind::Internal,
        }
    }
}

impl ApplicationError for CkksError {
    fn kind(&self) -> ErrorKind {
        match self {
            CkksError::Rlwe(RlweError::Interrupted) => ErrorKind::Cancelled,
            CkksError::InGroup { error, .. } => error.kind(),
            CkksError::Rlwe(RlweError::Ring(error)) | CkksError::Ring(error) => error.kind(),
            _ => ErrorKind::Malformed,
        }
    }
}

impl ApplicationError for EncryptError {
    fn kind(&self) -> ErrorKind {
        match self {
            EncryptError::Ckks(error) => error.kind(),
            EncryptError::Rlwe(error) => error.kind(),
            _ => ErrorKind::Internal,
        }
    }
}

impl ApplicationError for ProtocolError {
    fn kind(&self) -> ErrorKind {
        match self {
            ProtocolError::Ckks(error) => error.kind(),
            ProtocolError::Rlwe(error) => error.kind(),
            ProtocolError::Encrypt(error) => error.kind(),
            ProtocolError::Scheme(error) => error.kind(),
            ProtocolError::Mismatch { .. } => ErrorKind::Mismatch,
            ProtocolError::Damaged { .. } => ErrorKind::Malformed,
            ProtocolError::Unreadable { .. } => ErrorKind::Unreadable,
        }
    }
}
