//! Errors of layouts.

use crate::error::SchemeError;

/// Errors of layouts. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// An error of parameters or shapes: the parameters have no table for the layout.
    #[error(transparent)]
    Pir(#[from] SchemeError),
    /// A number of the layout is outside its limits.
    #[error("check a layout: {what}: found {found}, needed {needed}")]
    Limit {
        /// Which number.
        what: &'static str,
        /// What was found.
        found: u64,
        /// What was needed.
        needed: String,
    },
    /// There is no such index. The message does not contain the index.
    #[error("the index is out of range: the database has room for {records} records; use a smaller one")]
    Index {
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
}
