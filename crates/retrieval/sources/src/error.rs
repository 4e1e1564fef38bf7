//! Errors of sources of records.

use std::path::{Path, PathBuf};

/// Maximum number of column or table names that an error lists.
const MAX_LISTED: usize = 32;

/// Errors of this crate. Each says the file, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file or directory could not be opened or read.
    #[error("read {path}: {source}; check the path and its permissions", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The kind of the file cannot be guessed from its name.
    #[error(
        "read {path}: found the ending {found:?}, needed one of {needed}; rename the file or say its kind: --kind",
        path = path.display()
    )]
    Kind {
        /// The file.
        path: PathBuf,
        /// The ending of its name.
        found: String,
        /// The known endings.
        needed: String,
    },
    /// The kind of source does not have this option.
    #[error("read {path}: found {option} for {kind}, which has none; leave it out", path = path.display())]
    Option {
        /// The file.
        path: PathBuf,
        /// The option.
        option: &'static str,
        /// The kind of source.
        kind: &'static str,
    },
    /// The file as a whole does not have the format of its kind.
    #[error("read {path}: found {found}, needed {needed}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// A named column does not exist.
    #[error(
        "read {path}: found the columns {found}, needed {needed:?}; name a column that is there",
        path = path.display()
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The existing columns.
        found: String,
        /// The column asked for.
        needed: String,
    },
    /// The table does not exist, or none was named and there are several.
    #[error(
        "read {path}: found the tables {found}, needed {needed}; name a table that is there",
        path = path.display()
    )]
    Table {
        /// The file.
        path: PathBuf,
        /// The existing tables.
        found: String,
        /// The table asked for.
        needed: String,
    },
    /// A CSV or TSV file has bytes that are not text of its encoding.
    #[error(
        "read {path}, line {line}: found bytes that are not {encoding} in column {column:?}; name the encoding of the \
         file: --encoding, for instance windows-1252, or convert it to UTF-8",
        path = path.display()
    )]
    Encoding {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column; of the header, its name as far as it can be read.
        column: String,
        /// The encoding that was assumed.
        encoding: &'static str,
    },
    /// A record is malformed.
    #[error(
        "read {path}, {unit} {number}: found {found}, needed {needed}; correct or remove it",
        path = path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// Unit of `number`: `line`, `row`, `record` or `file`.
        unit: &'static str,
        /// The number of the line, row, record or file, from 1.
        number: u64,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
}

impl SourceError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        SourceError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn file(path: &Path, found: impl Into<String>, needed: impl Into<String>) -> Self {
        SourceError::File { path: path.to_owned(), found: found.into(), needed: needed.into() }
    }

    pub(crate) fn column(path: &Path, found: &[String], needed: &str) -> Self {
        SourceError::Column { path: path.to_owned(), found: list(found), needed: needed.to_owned() }
    }
}

/// List of names for an error message, of limited length.
pub(crate) fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Position of a record in a file.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a Path,
    pub(crate) unit: &'static str,
    pub(crate) number: u64,
}

impl Place<'_> {
    pub(crate) fn refuse(&self, found: impl Into<String>, needed: impl Into<String>) -> SourceError {
        SourceError::Record {
            path: self.path.to_owned(),
            unit: self.unit,
            number: self.number,
            found: found.into(),
            needed: needed.into(),
        }
    }
}
