//! Errors of this crate.

use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_symmetric_pir::SymmetricPirError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OprfError {
    /// The two sides do not match, or a message is malformed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// An operation of the pseudorandom function failed.
    #[error(transparent)]
    Sealed(#[from] SymmetricPirError),
    /// A client has used up its evaluations.
    #[error(
        "ask for keys of records: {found} were asked for, more than this client has left of its {needed} in \
         {window_seconds} s; ask for them again in {wait_seconds} s"
    )]
    Exhausted {
        /// Keys asked for.
        found: u32,
        /// Keys that a client may ask for within a window.
        needed: u32,
        /// Seconds of the window.
        window_seconds: u32,
        /// Seconds after which the client has enough evaluations for this request.
        wait_seconds: u32,
    },
    /// The service cannot count the evaluations of another client: its memory for clients is full.
    #[error(
        "ask for keys of records: found {clients} clients that asked for keys lately, needed fewer; ask again later"
    )]
    Crowded {
        /// Clients that are counted.
        clients: usize,
    },
    /// The service counts no further client without a token from this address: their number is at its limit.
    #[error(
        "ask for keys of records: found {clients} clients without a token that asked from this address lately, needed \
         fewer; ask again later, or get a token"
    )]
    CrowdedNetwork {
        /// Clients of the address that are counted.
        clients: usize,
    },
    /// The request was cancelled. Nothing was charged.
    #[error("cancelled; nothing was charged")]
    Cancelled,
}

impl OprfError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl ApplicationError for OprfError {
    fn kind(&self) -> ErrorKind {
        match self {
            OprfError::Protocol(error) => error.kind(),
            OprfError::Sealed(SymmetricPirError::Randomness(_) | SymmetricPirError::Oprf(_)) => ErrorKind::Internal,
            OprfError::Sealed(_) => ErrorKind::Malformed,
            OprfError::Exhausted { wait_seconds, .. } => ErrorKind::Exhausted { wait_seconds: *wait_seconds },
            OprfError::Crowded { .. } | OprfError::CrowdedNetwork { .. } => ErrorKind::Busy,
            OprfError::Cancelled => ErrorKind::Cancelled,
        }
    }
}
