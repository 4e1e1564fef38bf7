//! Files with a JSON object on each line.

use std::fs::File;
use std::io::BufReader;

use unspoken_files::{TextError, TextLines};

use crate::error::{Place, SourceError};
use crate::object::object_record;
use crate::record::{MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Maximum bytes of a line: room for a value and a key of maximum length, escaped.
const MAX_LINE: usize = 4 * MAX_RECORD_BYTES;

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let mut lines = TextLines::open(&spec.path, MAX_LINE).map_err(|source| SourceError::io(&spec.path, source))?;
    let spec = spec.clone();
    let records = std::iter::from_fn(move || next(&spec, &mut lines).transpose());
    Ok(Source::new(Box::new(records), None))
}

/// The record of the next line that is not blank; `None` at the end.
fn next(spec: &SourceSpec, lines: &mut TextLines<BufReader<File>>) -> Result<Option<Record>, SourceError> {
    loop {
        let number = lines.number() + 1;
        let place = Place { path: &spec.path, unit: "line", number };
        let Some(line) = lines.next_line().map_err(|error| refuse(&place, error))? else { return Ok(None) };
        let line = line.trim_ascii();
        if number == 1 && line.starts_with('[') {
            let needed = "one JSON object; for a file that is one array of objects, say so: --kind json";
            return Err(place.refuse("an array", needed));
        }
        if !line.is_empty() {
            return object_record(&place, spec, line.as_bytes()).map(Some);
        }
    }
}

fn refuse(place: &Place<'_>, error: TextError) -> SourceError {
    match error {
        TextError::TooLong { most, .. } => too_long(place, format!("more than {most}")),
        TextError::NotUtf8 { .. } => place.refuse("bytes that are not UTF-8", "one JSON object in UTF-8"),
        other => SourceError::io(place.path, other.into()),
    }
}
