//! CSV and TSV files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::record::{Columns, MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Bytes read ahead.
const BUFFER: usize = 1 << 16;
/// Maximum bytes of a line: room for a value and a key of maximum length, quoted.
const MOST_LINE: usize = 4 * MAX_RECORD_BYTES;

pub(crate) fn open(spec: &SourceSpec, delimiter: u8) -> Result<Source, SourceError> {
    let path = spec.path.clone();
    let file = File::open(&path).map_err(|source| SourceError::io(&path, source))?;
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(delimiter == b',')
        .buffer_capacity(BUFFER)
        .from_reader(Bounded::new(file));
    let header = reader.byte_headers().cloned().map_err(|error| refuse(&path, 1, error))?;
    let columns = Columns::choose(spec, &names(&path, &header)?)?;
    let mut row = ByteRecord::new();
    let records = std::iter::from_fn(move || next(&path, &mut reader, &mut row, &columns).transpose());
    Ok(Source::new(Box::new(records), None))
}

fn names(path: &Path, header: &ByteRecord) -> Result<Vec<String>, SourceError> {
    if header.is_empty() {
        return Err(SourceError::file(path, "an empty file", "a header with the names of the columns"));
    }
    let names = header.iter().map(|name| String::from_utf8(name.to_owned()));
    names
        .collect::<Result<_, _>>()
        .map_err(|_| SourceError::file(path, "a header that is not UTF-8", "UTF-8; convert it"))
}

fn next(
    path: &Path,
    reader: &mut Reader<Bounded>,
    row: &mut ByteRecord,
    columns: &Columns,
) -> Result<Option<Record>, SourceError> {
    let before = reader.position().clone();
    reader.get_mut().begin_record(before.byte());
    let found = reader.read_byte_record(row);
    let line = before.line() + reader.get_ref().skipped_lines;
    if !found.map_err(|error| refuse(path, line, error))? {
        return Ok(None);
    }
    let place = Place { path, unit: "line", number: line };
    columns.record(&place, |i| Ok(row.get(i).map_or(Field::Null, Field::text))).map(Some)
}

fn refuse(path: &Path, line: u64, error: csv::Error) -> SourceError {
    let place = Place { path, unit: "line", number: line };
    let found = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(source) if source.kind() == io::ErrorKind::FileTooLarge => {
            too_long(&place, format!("more than {MOST_LINE}"))
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
        Bounded { file, left: MOST_LINE, last: Vec::new(), before_last: 0, at_start: false, skipped_lines: 0 }
    }

    /// Called before a record is read, of which the reader has taken `taken` bytes of the file.
    fn begin_record(&mut self, taken: u64) {
        (self.left, self.at_start, self.skipped_lines) = (MOST_LINE, true, 0);
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
