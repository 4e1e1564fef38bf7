//! Files with a JSON object on each line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Place, SourceError};
use crate::object::{BYTE_ORDER_MARK, object_record};
use crate::record::{MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Maximum bytes of a line: room for a value and a key of maximum length, escaped.
const MOST_LINE: usize = 4 * MAX_RECORD_BYTES;

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let file = File::open(&spec.path).map_err(|source| SourceError::io(&spec.path, source))?;
    let mut lines = Lines { file: BufReader::with_capacity(1 << 16, file), line: Vec::new(), number: 0 };
    let spec = spec.clone();
    let records = std::iter::from_fn(move || {
        lines
            .advance(&spec.path)
            .and_then(|more| if more { lines.record(&spec).map(Some) } else { Ok(None) })
            .transpose()
    });
    Ok(Source::new(Box::new(records), None))
}

struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// Reads the next line that is not blank; returns `false` at the end.
    fn advance(&mut self, path: &Path) -> Result<bool, SourceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = self.file.by_ref().take(MOST_LINE as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line).map_err(|source| SourceError::io(path, source))?;
            if read > MOST_LINE {
                return Err(too_long(&self.place(path), format!("more than {MOST_LINE}")));
            }
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            if read == 0 || !self.line.trim_ascii().is_empty() {
                return Ok(read > 0);
            }
        }
    }

    fn place<'a>(&self, path: &'a Path) -> Place<'a> {
        Place { path, unit: "line", number: self.number }
    }

    fn record(&self, spec: &SourceSpec) -> Result<Record, SourceError> {
        let line = self.line.trim_ascii();
        if self.number == 1 && line.starts_with(b"[") {
            let needed = "one JSON object; for a file that is one array of objects, say so: --kind json";
            return Err(self.place(&spec.path).refuse("an array", needed));
        }
        object_record(&self.place(&spec.path), spec, line)
    }
}
