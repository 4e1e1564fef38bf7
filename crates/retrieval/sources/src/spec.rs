//! Selection of a file and its records.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use unspoken_files::BYTE_ORDER_MARK;

use crate::error::SourceError;

/// Kind of a source of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Comma-separated values with a header, quoted as in RFC 4180.
    Csv,
    /// Tab-separated values with a header. Quotation marks have no special meaning.
    Tsv,
    /// A JSON object on each line.
    JsonLines,
    /// One JSON array of objects.
    JsonArray,
    /// A table or a view of a SQLite database.
    Sqlite,
    /// An Apache Parquet file.
    Parquet,
    /// A directory: each file is a record, its path the key.
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

/// Ending of the names of files that contain an array of JSON objects, or one object on each line.
const JSON_ENDING: &str = "json";

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// Name of the kind, for messages.
    fn name(self) -> &'static str {
        match self {
            Kind::Csv => "a CSV file",
            Kind::Tsv => "a TSV file",
            Kind::JsonLines => "a file of JSON lines",
            Kind::JsonArray => "a JSON array",
            Kind::Sqlite => "a SQLite database",
            Kind::Parquet => "a Parquet file",
            Kind::Folder => "a folder",
        }
    }
}

/// Selection of a file and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The file or directory.
    pub path: PathBuf,
    /// Kind of the source.
    pub kind: Kind,
    /// The table of a SQLite database; `None` if it has only one.
    pub table: Option<String>,
    /// The column of the keys; `None` for records read by index. The keys of a folder are the names of its files.
    pub key_column: Option<String>,
    /// The columns of the value, in order; if empty, all but the key. A single one is used unchanged, several become
    /// one JSON object. For JSON without named columns, the value is the whole object.
    pub value_columns: Vec<String>,
    /// A column that is read beside the value, in the same pass, for instance of vectors; not of a folder.
    pub beside: Option<String>,
    /// Name of the encoding of a CSV or TSV file, as the Encoding Standard has it, for instance `windows-1252`; `None`
    /// for UTF-8.
    pub encoding: Option<String>,
    /// Whether hidden files of a folder are records, too. A file is hidden if its name, or the name of a folder above
    /// it, begins with a dot.
    pub hidden: bool,
}

impl SourceSpec {
    /// Selects all records of a file or directory, read by index (files of a folder by name). The kind is guessed from
    /// the ending of the name; a file with another ending that begins with `[` is a JSON array.
    ///
    /// # Errors
    /// [`SourceError::Io`] if the path does not exist, [`SourceError::Kind`] for an unknown ending.
    pub fn guess(path: impl Into<PathBuf>) -> Result<Self, SourceError> {
        let path = path.into();
        let kind = guess_kind(&path)?;
        let (table, key_column, encoding) = (None, None, None);
        let (value_columns, beside) = (Vec::new(), None);
        Ok(SourceSpec { path, kind, table, key_column, value_columns, beside, encoding, hidden: false })
    }

    /// Whether the records have keys.
    pub fn has_keys(&self) -> bool {
        self.kind == Kind::Folder || self.key_column.is_some()
    }

    /// Checks that the kind has the options that are set.
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        let refuse = |option| SourceError::Option { path: self.path.clone(), option, kind: self.kind.name() };
        if self.table.is_some() && self.kind != Kind::Sqlite {
            return Err(refuse("a table"));
        }
        let has_columns = self.key_column.is_some() || !self.value_columns.is_empty() || self.beside.is_some();
        if self.kind == Kind::Folder && has_columns {
            return Err(refuse("columns"));
        }
        if self.encoding.is_some() && !matches!(self.kind, Kind::Csv | Kind::Tsv) {
            return Err(refuse("an encoding"));
        }
        if self.hidden && self.kind != Kind::Folder {
            return Err(refuse("hidden files"));
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
    if let Some((_, kind)) = ENDINGS.iter().find(|(known, _)| *known == ending) {
        return Ok(*kind);
    }
    // What is not a regular file, such as a pipe, can be read only once.
    if metadata.is_file() && begins_with_array(path).map_err(|source| SourceError::io(path, source))? {
        return Ok(Kind::JsonArray);
    }
    // Without an array, a file of JSON has objects on its lines.
    if ending == JSON_ENDING {
        return Ok(Kind::JsonLines);
    }
    Err(SourceError::Kind {
        path: path.to_owned(),
        found: ending,
        needed: format!(".{JSON_ENDING}, {}", ENDINGS.map(|(ending, _)| format!(".{ending}")).join(", ")),
    })
}

/// Bytes in which an array begins. White space may be of any length; this much is enough for files that people write.
const START_BYTES: u64 = 1 << 16;

/// Whether a file begins with an array.
fn begins_with_array(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(START_BYTES).read_to_end(&mut start)?;
    let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start);
    Ok(text.trim_ascii_start().starts_with(b"["))
}
