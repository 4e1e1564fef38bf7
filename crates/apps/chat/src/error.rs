//! Errors of this crate.

use unspoken_encrypted_llama::PassError;
use unspoken_llama::CircuitError;
use unspoken_llama_model::InputError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};

/// Errors of private text generation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The two sides do not match, a message is malformed, or an operation on keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A pass could not be prepared or run.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The model cannot be prepared.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// Tokens do not fit the model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A session does not exist or cannot be used now.
    #[error("session: found {found}, needed {needed}")]
    Session {
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// A session, or the room for one, is in use now.
    #[error("session: found {found}; ask again later")]
    Busy {
        /// What was found.
        found: &'static str,
    },
    /// The work was cancelled.
    #[error("the work was cancelled")]
    Cancelled,
}

impl ChatError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }

    pub(crate) fn session(found: impl Into<String>, needed: impl Into<String>) -> Self {
        ChatError::Session { found: found.into(), needed: needed.into() }
    }
}

impl ApplicationError for ChatError {
    fn kind(&self) -> ErrorKind {
        match self {
            ChatError::Protocol(error) => error.kind(),
            ChatError::Pass(PassError::Arithmetic { error, .. } | PassError::Ckks(error)) => error.kind(),
            ChatError::Pass(PassError::Session { .. } | PassError::Chunk { .. } | PassError::Vocabulary { .. }) => {
                ErrorKind::Mismatch
            }
            ChatError::Pass(_) | ChatError::Circuit(_) => ErrorKind::Internal,
            ChatError::Input(_) | ChatError::Session { .. } => ErrorKind::Mismatch,
            ChatError::Busy { .. } => ErrorKind::Busy,
            ChatError::Cancelled => ErrorKind::Cancelled,
        }
    }
}
