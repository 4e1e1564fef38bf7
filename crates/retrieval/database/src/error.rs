//! Errors of databases on disk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use unspoken_pir_scheme::SchemeError;
use unspoken_ring::RingError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do. Only
/// [`DatabaseError::Duplicate`] and [`DatabaseError::TooLong`], which are shown to the person who builds the database,
/// contain a key; no error contains a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Records do not fit the layout, the layout is outside its limits, or encoding failed.
    #[error(transparent)]
    Pir(#[from] SchemeError),
    /// An operation of a ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// An operation of the operating system failed.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is too little space on the disk.
    #[error(
        "write a database of {needed} bytes to {}: {found} bytes are free; free some, shorten the longest records, or \
         build by key", dir.display()
    )]
    Space {
        /// Directory of the database.
        dir: PathBuf,
        /// Free bytes.
        found: u64,
        /// Bytes of tables and cells.
        needed: u64,
    },
    /// The content of a file is damaged.
    #[error("corrupted: {file}, bytes {}..{}: {what}; restore it or rebuild the database", bytes.start, bytes.end)]
    Corrupted {
        /// Name of the file in the database's directory.
        file: String,
        /// The damaged bytes.
        bytes: Range<u64>,
        /// What is wrong.
        what: &'static str,
    },
    /// There is no database.
    #[error("no database in {}: there is no manifest; build one there first", dir.display())]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// A sealed database would be replaced by one that is not sealed with the same key.
    #[error(
        "{} is sealed, and the new records are not sealed with its key: use the same --oprf-key, or build in another \
         directory",
        dir.display()
    )]
    Sealed {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory exists.
    #[error("{} is there already; build in another directory, or replace it: --replace", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has a shard where a whole database is needed, or the other way round.
    #[error("{} is {found}, needed {needed}", dir.display())]
    OtherPart {
        /// The directory.
        dir: PathBuf,
        /// What it is.
        found: String,
        /// What is needed, and what to do.
        needed: &'static str,
    },
    /// The database was written by another version of this program or for other parameters.
    #[error("the database has {what} {found}, this program reads {needed}; rebuild it with this program")]
    Format {
        /// What differs.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The open database was replaced by one that cannot continue it.
    #[error(
        "{} was replaced by a database with {found}, needed {needed}; open it again, or restart the service",
        dir.display()
    )]
    Replaced {
        /// The directory.
        dir: PathBuf,
        /// What the new database has.
        found: &'static str,
        /// What continues the old one.
        needed: &'static str,
    },
    /// The journal ends before the newest version that was committed.
    #[error(
        "versions are lost: {file} ends with version {found}, but version {needed} was committed; restore the database \
         from a backup, or rebuild it; to continue without the lost versions, remove {record}"
    )]
    VersionsLost {
        /// Name of the journal.
        file: String,
        /// The last version in the journal.
        found: u64,
        /// The newest version that was committed.
        needed: u64,
        /// Name of the file that records the newest version.
        record: String,
    },
    /// Another process has opened the database for writing.
    #[error("{} is being changed by another process; wait until it has finished", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// Two records have the same key.
    #[error(
        "record {record} has the key '{}' of an earlier one; remove one of them, or keep one: --duplicates",
        key.escape_ascii()
    )]
    Duplicate {
        /// The key.
        key: Vec<u8>,
        /// The number of the later record, from zero.
        record: u64,
    },
    /// A record is longer than any layout allows.
    #[error(
        "record {record}{} has {found} bytes, needed at most {needed}; split it, shorten it, or leave it out",
        with_key(key.as_deref())
    )]
    TooLong {
        /// The number of the record, from zero.
        record: u64,
        /// Its key, if it has one.
        key: Option<Vec<u8>>,
        /// Its length in bytes.
        found: usize,
        /// The length of the longest one that fits.
        needed: usize,
    },
    /// Some records have keys, others do not.
    #[error("record {record} has {found}, the ones before have {needed}; give all records a key or none")]
    Mixed {
        /// The number of the record, from zero.
        record: u64,
        /// "a key" or "no key".
        found: &'static str,
        /// "a key" or "no key".
        needed: &'static str,
    },
    /// Reading the records failed.
    #[error("read the records: {0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There are no records.
    #[error("there are no records; a database has at least one")]
    Empty,
    /// There is no room for a record.
    #[error("no room for another record: {what}; rebuild the database with more room: --capacity")]
    Full {
        /// What is full.
        what: &'static str,
    },
    /// An earlier write failed, and the state on disk is unknown.
    #[error("an earlier commit failed; open the database for writing again to read what is on disk")]
    Broken,
    /// The caller cancelled the operation. The previous state is unchanged.
    #[error("cancelled; nothing was changed")]
    Cancelled,
}

fn with_key(key: Option<&[u8]>) -> String {
    key.map(|key| format!(" with the key '{}'", key.escape_ascii())).unwrap_or_default()
}

/// Converts an I/O error, for `map_err`; adds the operation and the path.
pub(crate) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DatabaseError {
    let path = path.to_path_buf();
    move |source| DatabaseError::Io { operation, path, source }
}
