//! Options that select records of a source, shared by all commands that read one.

use std::path::Path;

use unspoken_database::Record;
use unspoken_sources::{FolderFiles, Kind, Source, SourceError, SourceSpec};

/// Maximum number of files that are listed.
const MAX_LISTED: usize = 20;

/// Selection of the records of a file or a folder.
#[derive(clap::Args)]
pub struct RecordOptions {
    /// Kind of the source: jsonl has a JSON object on each line, json is one array of objects [default: from the file
    /// name extension; a file that begins with '[' is json]
    #[arg(long, value_enum)]
    kind: Option<KindName>,
    /// Table or view of a SQLite database; not needed if there is only one
    #[arg(long)]
    table: Option<String>,
    /// Column that holds the key. Without it, records are queried by their number, from 0. In a folder, the file
    /// names are the keys
    #[arg(long = "key", value_name = "COLUMN")]
    key_column: Option<String>,
    /// Column that holds the value, stored unchanged; if given several times, the value is a JSON object of these
    /// columns [default: all but the key; for JSON the whole object]
    #[arg(long = "value", value_name = "COLUMN")]
    value_columns: Vec<String>,
    /// Encoding of a CSV or TSV file, for instance windows-1252 or shift_jis [default: utf-8; other bytes are refused]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Take the hidden files of a folder too: files whose name, or the name of a folder above, begins with a dot
    #[arg(long)]
    hidden: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum KindName {
    Csv,
    Tsv,
    Jsonl,
    Json,
    Sqlite,
    Parquet,
    Folder,
}

impl RecordOptions {
    /// Opens the source, and returns whether its records have keys.
    pub fn open(&self, from: &Path) -> Result<(Source, bool), SourceError> {
        self.open_with(from, None)
    }

    /// As [`RecordOptions::open`], with a column that is read beside the value.
    pub fn open_with(&self, from: &Path, beside: Option<&str>) -> Result<(Source, bool), SourceError> {
        let spec = SourceSpec { beside: beside.map(str::to_owned), ..self.spec(from)? };
        Ok((Source::open(&spec)?, spec.has_keys()))
    }

    fn spec(&self, from: &Path) -> Result<SourceSpec, SourceError> {
        let kind = self.kind.map(|kind| match kind {
            KindName::Csv => Kind::Csv,
            KindName::Tsv => Kind::Tsv,
            KindName::Jsonl => Kind::JsonLines,
            KindName::Json => Kind::JsonArray,
            KindName::Sqlite => Kind::Sqlite,
            KindName::Parquet => Kind::Parquet,
            KindName::Folder => Kind::Folder,
        });
        Ok(SourceSpec {
            path: from.to_owned(),
            kind: kind.map_or_else(|| SourceSpec::guess(from).map(|spec| spec.kind), Ok)?,
            table: self.table.clone(),
            key_column: self.key_column.clone(),
            value_columns: self.value_columns.clone(),
            beside: None,
            encoding: self.encoding.clone(),
            hidden: self.hidden,
        })
    }
}

/// What was taken of a folder, and what was left out: two lines, or none for other sources.
pub fn folder_lines(files: Option<&FolderFiles>) -> String {
    let Some(FolderFiles { taken, left_out }) = files else { return String::new() };
    let mut lines = format!("files       {}: {}\n", taken.len(), some(taken));
    if !left_out.is_empty() {
        let hidden = some(left_out);
        lines += &format!("left out    {} hidden: {hidden} (--hidden takes hidden files)\n", left_out.len());
    }
    lines
}

/// The first of some names.
fn some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_LISTED).map(String::as_str).collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// Where a record is, for errors: number (from 0), file and key.
pub fn place(number: u64, record: &Record, from: &Path) -> String {
    let key = record.key.as_ref().map(|key| format!(", key '{}'", key.escape_ascii())).unwrap_or_default();
    format!("record {number} of {}{key}", from.display())
}

/// Converts a record of a source to a record of a database.
pub fn convert(record: Result<unspoken_sources::Record, SourceError>) -> Result<Record, SourceError> {
    record.map(|unspoken_sources::Record { key, value, .. }| Record { key, value })
}
