//! Errors of private retrieval.

use unspoken_gsw::GswError;
use unspoken_ring::RingError;

use crate::mode::Mode;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// An operation on encrypted bits failed.
    #[error(transparent)]
    Gsw(#[from] GswError),
    /// An operation of a ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// There is no such piece. The message does not contain the index.
    #[error("query a piece: the index is out of range: there are {pieces} pieces; use a smaller index")]
    Index {
        /// Number of pieces.
        pieces: u64,
    },
    /// A number is outside its range.
    #[error("{operation}: found {found}, needed {needed}")]
    Range {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: u64,
        /// What was needed.
        needed: String,
    },
    /// Bytes or a name that cannot be read.
    #[error("read {what}: found {found}, needed {needed}")]
    Format {
        /// What was read.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// Keys are for other parameters.
    #[error("the keys are for other parameters than '{needed}'; make new keys")]
    OtherParameters {
        /// The parameters needed.
        needed: &'static str,
    },
    /// There is no such record. The message does not contain the index.
    #[error("the index is out of range: the database has room for {records} records; use a smaller one")]
    Record {
        /// Records there is room for.
        records: u64,
    },
    /// An index was used where keys are needed, or the other way round.
    #[error("{operation}: the database is read by {found}; ask by {found}")]
    Kind {
        /// The operation.
        operation: &'static str,
        /// How the database is read: "index" or "key".
        found: &'static str,
    },
    /// A record does not fit.
    #[error("a record of {found} bytes does not fit: {needed}; rebuild the database for such records")]
    Length {
        /// Bytes of the record.
        found: usize,
        /// The room that the layout has.
        needed: String,
    },
    /// A cell does not have the format of the layout.
    #[error("a cell does not have this layout: {what}; it answers another query, or the database is damaged")]
    Cell {
        /// What is wrong.
        what: &'static str,
    },
    /// The noise of a response is too large.
    #[error("the response is unreadable: it was computed with keys of another secret, from damaged data, or failed")]
    Unreadable,
    /// A piece is not one that the owner has encrypted for its place.
    #[error(
        "the record is not one that this secret has encrypted for this place: it was not uploaded yet, or the service \
         has changed it or moved it; do not trust it"
    )]
    Forged,
    /// A table does not have its declared shape.
    #[error("{what}: found {found}, needed {needed}")]
    Table {
        /// What was checked.
        what: &'static str,
        /// What was found.
        found: u64,
        /// What was needed.
        needed: u64,
    },
    /// The work was cancelled.
    #[error("stopped; start it again")]
    Interrupted,
    /// An upload is not one that can be stored. The message is for the owner of the entries, and contains no entry.
    #[error("upload entries: {what}: found {found}, needed {needed}")]
    Upload {
        /// What does not fit.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// Another request changes the database, or reads how far it has come.
    #[error("upload entries: found another upload request that is being done, needed none; ask again in a few seconds")]
    Busy,
    /// Storing entries failed. The cause is for the owner of the service.
    #[error("store uploaded entries: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The keys do not serve the query's mode.
    #[error("the keys are for {found} queries, this query is {needed}; upload keys for {needed} queries")]
    Mode {
        /// The mode of the keys.
        found: Mode,
        /// The mode of the query.
        needed: Mode,
    },
    /// Queries of a mode would fail too often.
    #[error(
        "parameters '{name}': {mode} queries to 2^{bits} cells would fail once in 2^{:.1}, needed at most once in \
         2^{:.0}; use queries with a word for each bit, or packed ones", -found, -needed
    )]
    Failure {
        /// The parameters' name.
        name: &'static str,
        /// The kind of queries.
        mode: Mode,
        /// Bits of an index.
        bits: u32,
        /// `log2` of the probability.
        found: f64,
        /// Maximum allowed.
        needed: f64,
    },
    /// The parameters are too weak.
    #[error("parameters '{name}': {what}: found {found:.1}, needed {needed:.1}")]
    Parameters {
        /// Their name.
        name: &'static str,
        /// What is wrong.
        what: &'static str,
        /// What was found.
        found: f64,
        /// What was needed.
        needed: f64,
    },
}

impl SchemeError {
    /// Kind of the I/O error, if reading or writing failed.
    pub fn read_failure(&self) -> Option<std::io::ErrorKind> {
        match self {
            SchemeError::Gsw(GswError::Io(error)) => Some(error.kind()),
            _ => None,
        }
    }

    /// The error of an upload that does not fit.
    pub fn upload(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        SchemeError::Upload { what, found: found.to_string(), needed: needed.to_string() }
    }

    pub(crate) fn format(what: &'static str, found: impl ToString, needed: impl Into<String>) -> Self {
        SchemeError::Format { what, found: found.to_string(), needed: needed.into() }
    }
}

pub(crate) fn range(operation: &'static str, found: u64, needed: impl Into<String>) -> SchemeError {
    SchemeError::Range { operation, found, needed: needed.into() }
}
