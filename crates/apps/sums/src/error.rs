//! Errors of this crate.

use std::io;

use unspoken_encrypt::EncryptError;
use unspoken_exact::ExactError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says what was found, what was needed and what to do. None contains a value of a
/// contribution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SumsError {
    /// The two sides do not match, or a message is malformed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Exact arithmetic failed.
    #[error(transparent)]
    Exact(#[from] ExactError),
    /// A pool of encryptions of zero failed.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// A collection cannot be made so.
    #[error("{what}: found {found}, needed {needed}")]
    Collection {
        /// What was checked.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// A value of a contribution is out of the range of its column.
    #[error("encrypt a contribution: the value of '{column}' is out of range, needed {smallest} to {largest}")]
    Value {
        /// The column.
        column: String,
        /// Its smallest value.
        smallest: i64,
        /// Its largest value.
        largest: i64,
    },
    /// A contribution has another number of values than there are columns.
    #[error("encrypt a contribution: found {found} values, needed {needed}, one for each column")]
    Values {
        /// Values found.
        found: usize,
        /// Columns.
        needed: usize,
    },
    /// The token is not the collector's.
    #[error(
        "count or close a collection: found another token than the collector's, needed the collector's private file"
    )]
    Token,
    /// Too few contributions for a release.
    #[error(
        "close a collection: found {found} contributions, needed {needed}; a sum of fewer is not released, so that it \
         tells little about each"
    )]
    TooFew {
        /// Contributions so far.
        found: u32,
        /// Contributions needed.
        needed: u32,
    },
    /// The collection is closed.
    #[error("add a contribution: found a closed collection, whose sum has been released; needed an open one")]
    Closed,
    /// The collection has all contributions that it may have.
    #[error("add contributions: found {found} of {needed} added; no more fit")]
    Full {
        /// Contributions so far.
        found: u32,
        /// Contributions that are added at most.
        needed: u32,
    },
    /// The decrypted sum cannot be the sum of honest contributions. The error names the check, and no decrypted number.
    #[error(
        "read a sum: found {found}, needed {needed}; a contributor sent values out of range, or the service added \
         something else: the sums of this collection cannot be used"
    )]
    Spoiled {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// What was stored of a collection cannot be used.
    #[error("load a collection: found {found}, needed {needed}")]
    Stored {
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: &'static str,
    },
    /// The request was cancelled. Nothing was added.
    #[error("cancelled; nothing was added")]
    Cancelled,
    /// Reading or writing what is stored of a collection failed.
    #[error("{what}: {source}")]
    Io {
        /// What was read or written.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
}

impl SumsError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl From<RlweError> for SumsError {
    fn from(error: RlweError) -> Self {
        ProtocolError::from(error).into()
    }
}

impl From<RingError> for SumsError {
    fn from(error: RingError) -> Self {
        RlweError::from(error).into()
    }
}

impl ApplicationError for SumsError {
    fn kind(&self) -> ErrorKind {
        match self {
            SumsError::Protocol(error) => error.kind(),
            SumsError::Encrypt(error) => error.kind(),
            SumsError::Exact(ExactError::Rlwe(error)) => error.kind(),
            SumsError::Exact(ExactError::Ring(RingError::Randomness(_))) => ErrorKind::Internal,
            SumsError::Exact(_) | SumsError::Value { .. } | SumsError::Values { .. } => ErrorKind::Malformed,
            SumsError::Token => ErrorKind::Refused { remedy: "use the private file of this collection".into() },
            SumsError::TooFew { .. } => {
                ErrorKind::Refused { remedy: "wait for more contributions; it is still open".into() }
            }
            SumsError::Closed | SumsError::Full { .. } => {
                ErrorKind::Refused { remedy: "nothing was added; ask the collector for another collection".into() }
            }
            SumsError::Collection { .. } => ErrorKind::Mismatch,
            SumsError::Spoiled { .. } => ErrorKind::Unreadable,
            SumsError::Stored { .. } => ErrorKind::Internal,
            // The same request may succeed later, and counts once: clients send it again.
            SumsError::Io { .. } => ErrorKind::Busy,
            SumsError::Cancelled => ErrorKind::Cancelled,
        }
    }
}
