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
    /// This client refused the content of an answer before. The error is final: the refusal depends on the decrypted
    /// answer, so each further question would tell the service something about it.
    #[error(
        "ask: found a client that refused an answer of this service, needed one that refused none; nothing was sent. \
         Each refusal tells a dishonest service something about the text, so do not send this text to this service \
         again, also not with another client; prepare the model on more text of its kind first"
    )]
    Refused,
    /// The work was cancelled.
    #[error("the work was cancelled")]
    Cancelled,
}

impl ChatError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }

    /// The error of an answer whose content is refused.
    pub(crate) fn unreadable(found: &'static str, needed: impl Into<String>) -> Self {
        ProtocolError::Unreadable { found, needed: needed.into() }.into()
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
            ChatError::Refused => ErrorKind::Unreadable,
            ChatError::Cancelled => ErrorKind::Cancelled,
        }
    }
}
