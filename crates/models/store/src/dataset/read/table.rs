//! Named columns of delimited files with a header, quoted as in RFC 4180.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use super::collect::{MAX_RECORD_BYTES, refuse, too_long};
use crate::error::StoreError;

/// Calls `each` with the first line of every record, from 1, and its fields in these columns.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Column`], [`StoreError::Record`] for a malformed or too long record, and the
/// errors of `each`.
pub(super) fn read<const N: usize>(
    path: &Path,
    delimiter: u8,
    columns: [&str; N],
    mut each: impl FnMut(u64, [&str; N]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let allowance = Allowance::default();
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    let limited = Limited { inner: file, allowance: allowance.clone() };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(limited);
    let headers = reader.headers().map_err(|error| of_csv(path, &allowance, 1, error))?.clone();
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(columns) {
        let mut found = (0..headers.len()).filter(|&place| &headers[place] == name);
        *place = found.next().ok_or_else(|| StoreError::Column {
            path: path.to_owned(),
            found: headers.iter().map(str::to_owned).collect(),
            needed: name.to_owned(),
        })?;
        if let Some(second) = found.next() {
            let found = format!("columns {} and {} are both called {name:?}", *place + 1, second + 1);
            return Err(refuse(path, 1, found, "names that differ; rename or remove one"));
        }
    }
    let mut record = csv::StringRecord::new();
    loop {
        allowance.renew();
        let line = reader.position().line();
        if !reader.read_record(&mut record).map_err(|error| of_csv(path, &allowance, line, error))? {
            return Ok(());
        }
        let line = record.position().map_or(line, csv::Position::line);
        // The reader refuses records with fewer fields than the header.
        each(line, places.map(|place| record.get(place).unwrap_or_default()))?;
    }
}

/// Bytes that may be read before the next record must be complete.
#[derive(Clone)]
struct Allowance(Rc<Cell<usize>>);

impl Default for Allowance {
    fn default() -> Self {
        Self(Rc::new(Cell::new(MAX_RECORD_BYTES)))
    }
}

impl Allowance {
    fn renew(&self) {
        self.0.set(MAX_RECORD_BYTES);
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// A reader that fails when the allowance is spent.
struct Limited<R> {
    inner: R,
    allowance: Allowance,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.allowance.0.get();
        if left == 0 {
            return Err(io::Error::other("the record is too long"));
        }
        let wanted = buffer.len().min(left);
        let read = self.inner.read(&mut buffer[..wanted])?;
        self.allowance.0.set(left - read);
        Ok(read)
    }
}

/// The error of a record that begins in `line`, unless the reader knows a better line.
fn of_csv(path: &Path, allowance: &Allowance, line: u64, error: csv::Error) -> StoreError {
    let line = error.position().map_or(line, csv::Position::line);
    let found = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(_) if allowance.is_spent() => too_long(path, line),
        csv::ErrorKind::Io(source) => StoreError::io("read", path)(source),
        _ => refuse(path, line, found, "a record with as many fields as the header, in UTF-8"),
    }
}
