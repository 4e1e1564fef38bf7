//! What can go wrong with a source of records, and what to do about it.

use std::path::{Path, PathBuf};

/// Most column or table names an error lists.
const MOST_LISTED: usize = 32;

/// Records could not be read. Each says the file, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file or directory could not be opened or read.
    #[error("read {path}: {source}; check the path and its permissions", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Nothing says what kind of file it is.
    #[error(
        "read {path}: found the ending {found:?}, needed one of {needed}; rename the file or say its kind",
        path = path.display()
    )]
    Kind {
        /// The file.
        path: PathBuf,
        /// The ending of its name.
        found: String,
        /// The endings that are known.
        needed: String,
    },
    /// An option that this kind of source does not have.
    #[error("read {path}: found {option} for {kind}, which has none; leave it out", path = path.display())]
    Option {
        /// The file.
        path: PathBuf,
        /// The option.
        option: &'static str,
        /// The kind of source.
        kind: &'static str,
    },
    /// The file as a whole is not what its kind says.
    #[error("read {path}: found {found}, needed {needed}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What it must hold, and what to do.
        needed: String,
    },
    /// A named column is not there.
    #[error(
        "read {path}: found the columns {found}, needed {needed:?}; name a column that is there",
        path = path.display()
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The columns there are.
        found: String,
        /// The column asked for.
        needed: String,
    },
    /// It is not clear which table is meant.
    #[error(
        "read {path}: found the tables {found}, needed {needed}; name a table that is there",
        path = path.display()
    )]
    Table {
        /// The file.
        path: PathBuf,
        /// The tables there are.
        found: String,
        /// The table asked for.
        needed: String,
    },
    /// One record is not what it should be.
    #[error(
        "read {path}, {unit} {number}: found {found}, needed {needed}; correct or remove it",
        path = path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// What is counted: `line`, `row` or `file`.
        unit: &'static str,
        /// The number of the line, row or file, from 1.
        number: u64,
        /// What the record holds.
        found: String,
        /// What it must hold.
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

/// Names for an error: not more than a person reads.
pub(crate) fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST_LISTED).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(MOST_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Where in a file a record is.
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
