//! Errors of this crate.

use unspoken_network::NetworkError;
use unspoken_onnx::OnnxError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_store::StoreError;

/// Errors of private predictions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The two sides do not match, a message is malformed, or an operation on keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A row cannot be asked.
    #[error("{0}")]
    Row(String),
    /// An option is out of range. The message has its name on the command line.
    #[error("--{option}: found {found}, needed {needed}")]
    Option {
        /// The option, without dashes in front.
        option: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
    },
    /// A file of a compiled model is not what it should be.
    #[error("compiled model: found {found}, needed {needed}; compile the model again")]
    File {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A compiled model cannot be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The circuit failed.
    #[error(transparent)]
    Circuit(#[from] NetworkError),
    /// The model, or what a client computes from its results, is not what it should be.
    #[error(transparent)]
    Model(#[from] OnnxError),
}

impl ModelError {
    /// A file of a compiled model that is not what it should be.
    pub(crate) fn file(found: impl Into<String>, needed: impl Into<String>) -> Self {
        ModelError::File { found: found.into(), needed: needed.into() }
    }
}

impl ApplicationError for ModelError {
    fn kind(&self) -> ErrorKind {
        match self {
            ModelError::Protocol(error) => error.kind(),
            ModelError::Circuit(NetworkError::Ckks(error)) => error.kind(),
            ModelError::Row(_)
            | ModelError::Option { .. }
            | ModelError::File { .. }
            | ModelError::Store(_)
            | ModelError::Circuit(_)
            | ModelError::Model(_) => ErrorKind::Mismatch,
        }
    }
}
