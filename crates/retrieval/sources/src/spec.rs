//! Which records of which file.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::SourceError;

/// What a source of records is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Comma-separated values with a header, quoted as RFC 4180 has it.
    Csv,
    /// Tab-separated values with a header. Quotation marks are characters like others.
    Tsv,
    /// A JSON object on each line.
    JsonLines,
    /// A table or a view of a SQLite database.
    Sqlite,
    /// An Apache Parquet file.
    Parquet,
    /// A directory: each file is a record, its name the key.
    Folder,
}

/// Kinds by the endings of file names.
const ENDINGS: [(&str, Kind); 10] = [
    ("csv", Kind::Csv),
    ("tsv", Kind::Tsv),
    ("tab", Kind::Tsv),
    ("jsonl", Kind::JsonLines),
    ("ndjson", Kind::JsonLines),
    ("sqlite", Kind::Sqlite),
    ("sqlite3", Kind::Sqlite),
    ("db", Kind::Sqlite),
    ("parquet", Kind::Parquet),
    ("pq", Kind::Parquet),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// What a person calls it.
    fn name(self) -> &'static str {
        match self {
            Kind::Csv => "a CSV file",
            Kind::Tsv => "a TSV file",
            Kind::JsonLines => "a file of JSON lines",
            Kind::Sqlite => "a SQLite database",
            Kind::Parquet => "a Parquet file",
            Kind::Folder => "a folder",
        }
    }
}

/// Which records of which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The file or directory.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// The table of a SQLite database; `None` where it has only one.
    pub table: Option<String>,
    /// The column records are found by; `None`: by their index. A folder's keys are the names of its files.
    pub key_column: Option<String>,
    /// The columns a record is made of, in order; none: all but the key. One is taken as it is, several become one JSON
    /// object. Of JSON lines without named columns, a record is the whole line.
    pub value_columns: Vec<String>,
}

impl SourceSpec {
    /// All records of a file or directory, by index (a folder's by name); the kind follows from the ending of its name.
    ///
    /// # Errors
    /// [`SourceError::Io`] if nothing is there, [`SourceError::Kind`] for an ending that is not known.
    pub fn guess(path: impl Into<PathBuf>) -> Result<Self, SourceError> {
        let path = path.into();
        let kind = guess_kind(&path)?;
        Ok(SourceSpec { path, kind, table: None, key_column: None, value_columns: Vec::new() })
    }

    /// Whether its records have keys.
    pub fn has_keys(&self) -> bool {
        self.kind == Kind::Folder || self.key_column.is_some()
    }

    /// Refuses options that the kind does not have.
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        let refuse = |option| SourceError::Option { path: self.path.clone(), option, kind: self.kind.name() };
        if self.table.is_some() && self.kind != Kind::Sqlite {
            return Err(refuse("a table"));
        }
        if self.kind == Kind::Folder && (self.key_column.is_some() || !self.value_columns.is_empty()) {
            return Err(refuse("columns"));
        }
        Ok(())
    }
}

fn guess_kind(path: &Path) -> Result<Kind, SourceError> {
    let metadata = path.metadata().map_err(|source| SourceError::io(path, source))?;
    if metadata.is_dir() {
        return Ok(Kind::Folder);
    }
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let known = ENDINGS.iter().find(|(known, _)| *known == ending);
    known.map(|(_, kind)| *kind).ok_or_else(|| SourceError::Kind {
        path: path.to_owned(),
        found: ending,
        needed: ENDINGS.map(|(ending, _)| format!(".{ending}")).join(", "),
    })
}
