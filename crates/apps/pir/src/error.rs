//! Errors of this crate.

use std::io;

use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError, ShardProblem};
use unspoken_ring::RingError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PirError {
    /// The two sides do not match, or a message is malformed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// An operation on keys, queries, responses or cells failed, or entries were not stored.
    #[error(transparent)]
    Pir(#[from] SchemeError),
    /// A description has a layout that no database has.
    #[error(transparent)]
    Layout(SchemeError),
    /// The index does not exist. A query was sent nevertheless.
    #[error(
        "ask by index: the index at position {position} is out of range: the database has room for {records} \
         records; ask below that"
    )]
    NoSuchIndex {
        /// Its position among the questions.
        position: usize,
        /// Number of records that the database has room for.
        records: u64,
    },
    /// The records are sealed, and the client cannot open them. Nothing was asked.
    #[error(
        "the records of the database are sealed: without their keys none is found; ask with the application that gives \
         the keys: --oprf, oprf= in Python"
    )]
    Sealed,
    /// The records are sealed, but not with the key of the application that gives keys. Nothing was asked.
    #[error(
        "the records of the database are sealed with another key than that of the application that gives keys: none \
         would be found; name the one that belongs to this database"
    )]
    OtherSealing,
    /// Keys could not be written, or the numbers of session queries could not be stored.
    #[error("{what}: {source}")]
    Io {
        /// What was written.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
    /// The owner of a database of encrypted entries has not uploaded them yet.
    #[error("the records are not uploaded yet: the database has no entries")]
    NotUploaded,
    /// Another write key than the owner's.
    #[error(
        "write key of an upload: found another one, needed that of the database's owner, whose state directory has it"
    )]
    WriteKey,
    /// A router cannot answer.
    #[error(transparent)]
    Shard(#[from] ShardProblem),
    /// The operating system has no randomness.
    #[error(transparent)]
    Randomness(#[from] RingError),
}

impl PirError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        ProtocolError::mismatch(what, found, needed).into()
    }
}

impl ApplicationError for PirError {
    fn kind(&self) -> ErrorKind {
        match self {
            PirError::Protocol(error) => error.kind(),
            PirError::Pir(error) | PirError::Layout(error) => error.kind(),
            PirError::NoSuchIndex { .. } => ErrorKind::Malformed,
            PirError::Sealed | PirError::OtherSealing => ErrorKind::Mismatch,
            PirError::WriteKey => {
                ErrorKind::Refused { remedy: "upload with the owner's --state-dir; nothing was changed".into() }
            }
            PirError::NotUploaded => {
                ErrorKind::Refused { remedy: "ask again when the owner has uploaded all of them".into() }
            }
            PirError::Io { source, .. } => ErrorKind::Io(source.kind()),
            // It may be over soon: a shard is restarted, or all are being replaced.
            PirError::Shard(_) => ErrorKind::Busy,
            PirError::Randomness(_) => ErrorKind::Internal,
        }
    }
}
