//! Files with a JSON object on each line.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::value::RawValue;

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::record::{MAX_RECORD_BYTES, Record, record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Maximum bytes of a line: room for a value and a key of maximum length, escaped.
const MOST_LINE: usize = 4 * MAX_RECORD_BYTES;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

type Object<'a> = HashMap<String, &'a RawValue>;

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
        let (place, line) = (self.place(&spec.path), self.line.trim_ascii());
        let object: Object<'_> =
            serde_json::from_slice(line).map_err(|error| place.refuse(error.to_string(), "one JSON object"))?;
        let key = spec.key_column.as_deref().map(|name| field(&place, &object, name)).transpose()?;
        let values = if spec.value_columns.is_empty() {
            vec![("", Field::text(line))]
        } else {
            let named = spec.value_columns.iter().map(|name| Ok((name.as_str(), field(&place, &object, name)?)));
            named.collect::<Result<_, SourceError>>()?
        };
        record(&place, key, values)
    }
}

/// A member of an object. Numbers, lists and objects keep their text.
fn field(place: &Place<'_>, object: &Object<'_>, name: &str) -> Result<Field, SourceError> {
    let Some(raw) = object.get(name) else {
        let mut names: Vec<String> = object.keys().cloned().collect();
        names.sort_unstable();
        return Err(place.refuse(format!("the members {}", crate::error::list(&names)), format!("{name:?}")));
    };
    match raw.get() {
        "null" => Ok(Field::Null),
        text if text.starts_with('"') => {
            let text = serde_json::from_str(text).map_err(|error| place.refuse(error.to_string(), "text"))?;
            Ok(Field::Text(text))
        }
        other => Ok(Field::Json(other.to_owned())),
    }
}
