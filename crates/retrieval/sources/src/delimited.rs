//! CSV and TSV files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use encoding_rs::{Encoding, UTF_8};

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::record::{Columns, MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Bytes read ahead.
const BUFFER: usize = 1 << 16;
/// Maximum bytes of a line: room for a value and a key of maximum length, quoted.
const MAX_LINE: usize = 4 * MAX_RECORD_BYTES;

pub(crate) fn open(spec: &SourceSpec, delimiter: u8) -> Result<Source, SourceError> {
    let path = spec.path.clone();
    let file = File::open(&path).map_err(|source| SourceError::io(&path, source))?;
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(delimiter == b',')
        .buffer_capacity(BUFFER)
        .from_reader(Bounded::new(file));
    let header = reader.byte_headers().cloned().map_err(|error| refuse(&path, 1, error))?;
    let mut table = Table { path, encoding: encoding(spec)?, names: Vec::new() };
    table.names = table.read_names(&header)?;
    let columns = Columns::choose(spec, &table.names)?;
    let mut row = ByteRecord::new();
    let records = std::iter::from_fn(move || next(&table, &mut reader, &mut row, &columns).transpose());
    Ok(Source::new(Box::new(records), None))
}

/// The encoding of a file. Each field is decoded by itself, so bytes of ASCII must have the meaning of ASCII.
fn encoding(spec: &SourceSpec) -> Result<&'static Encoding, SourceError> {
    let Some(name) = &spec.encoding else { return Ok(UTF_8) };
    // Python also writes "latin-1", the standard does not.
    let plain = name.replace(['-', '_'], "");
    let found = Encoding::for_label(name.as_bytes()).or_else(|| Encoding::for_label(plain.as_bytes()));
    found.filter(|encoding| encoding.is_ascii_compatible()).ok_or_else(|| {
        let needed = "utf-8, windows-1252, iso-8859-2, shift_jis, gb18030 or another one of the Encoding Standard that \
                      extends ASCII; convert others, such as UTF-16, to UTF-8";
        SourceError::file(&spec.path, format!("the encoding {name:?}"), needed)
    })
}

/// A file, its encoding, and the names of its columns.
struct Table {
    path: PathBuf,
    encoding: &'static Encoding,
    names: Vec<String>,
}

impl Table {
    fn read_names(&self, header: &ByteRecord) -> Result<Vec<String>, SourceError> {
        if header.is_empty() {
            return Err(SourceError::file(&self.path, "an empty file", "a header with the names of the columns"));
        }
        let name = |name: &[u8]| self.decode(1, name, || String::from_utf8_lossy(name).into_owned());
        header.iter().map(name).collect()
    }

    /// The text of a field in a line.
    fn decode(&self, line: u64, bytes: &[u8], column: impl Fn() -> String) -> Result<String, SourceError> {
        let text = self.encoding.decode_without_bom_handling_and_without_replacement(bytes);
        let refuse = || SourceError::Encoding {
            path: self.path.clone(),
            line,
            column: column(),
            encoding: self.encoding.name(),
        };
        text.map(Cow::into_owned).ok_or_else(refuse)
    }
}

fn next(
    table: &Table,
    reader: &mut Reader<Bounded>,
    row: &mut ByteRecord,
    columns: &Columns,
) -> Result<Option<Record>, SourceError> {
    let path = &table.path;
    let before = reader.position().clone();
    reader.get_mut().begin_record(before.byte());
    let found = reader.read_byte_record(row);
    let line = before.line() + reader.get_ref().skipped_lines;
    if !found.map_err(|error| refuse(path, line, error))? {
        return Ok(None);
    }
    let place = Place { path, unit: "line", number: line };
    let field = |i: usize| {
        let Some(bytes) = row.get(i) else { return Ok(Field::Null) };
        table.decode(line, bytes, || table.names.get(i).cloned().unwrap_or_default()).map(Field::Text)
    };
    columns.record(&place, field).map(Some)
}

fn refuse(path: &Path, line: u64, error: csv::Error) -> SourceError {
    let place = Place { path, unit: "line", number: line };
    let found = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(source) if source.kind() == io::ErrorKind::FileTooLarge => {
            too_long(&place, format!("more than {MAX_LINE}"))
        }
        ErrorKind::Io(source) => SourceError::io(path, source),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            place.refuse(format!("{len} fields"), format!("{expected_len}, as the header has"))
        }
        _ => place.refuse(found, "a record of CSV"),
    }
}

/// A file that returns an error after a number of bytes for one record, so that an unclosed quotation mark does not
/// fill the memory.
///
/// It also counts the ends of lines before the first byte of a record. The reader counts them as parts of the record:
/// of a line that ends with CR LF it takes the LF only then, and blank lines too.
struct Bounded {
    file: File,
    left: usize,
    /// The bytes that the last read returned, and the number of bytes before them.
    last: Vec<u8>,
    before_last: u64,
    /// Whether no byte of the record has been read yet but ends of lines, and their number.
    at_start: bool,
    skipped_lines: u64,
}

impl Bounded {
    fn new(file: File) -> Self {
        Bounded { file, left: MAX_LINE, last: Vec::new(), before_last: 0, at_start: false, skipped_lines: 0 }
    }

    /// Called before a record is read, of which the reader has taken `taken` bytes of the file.
    fn begin_record(&mut self, taken: u64) {
        (self.left, self.at_start, self.skipped_lines) = (MAX_LINE, true, 0);
        self.count_lines(taken.saturating_sub(self.before_last) as usize);
    }

    /// Counts ends of lines in the last read from a position on, up to the first other byte.
    fn count_lines(&mut self, from: usize) {
        for &byte in self.last.get(from..).unwrap_or_default() {
            self.at_start &= matches!(byte, b'\r' | b'\n');
            if !self.at_start {
                return;
            }
            self.skipped_lines += u64::from(byte == b'\n');
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let given = self.file.read(buffer)?;
        self.left = self.left.checked_sub(given).ok_or(io::ErrorKind::FileTooLarge)?;
        self.before_last += self.last.len() as u64;
        self.last.clear();
        self.last.extend(buffer.iter().take(given));
        self.count_lines(0);
        Ok(given)
    }
}
