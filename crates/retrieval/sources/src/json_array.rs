//! Files with one JSON array of objects.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use unspoken_files::BYTE_ORDER_MARK;

use crate::ahead::read_ahead;
use crate::error::{Place, SourceError};
use crate::object::object_record;
use crate::record::{MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Maximum bytes of an element: room for a value and a key of maximum length, escaped and indented.
const MAX_ELEMENT: usize = 4 * MAX_RECORD_BYTES;
const BUFFER: usize = 1 << 16;

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let failed = |source| SourceError::io(&spec.path, source);
    let mut file = BufReader::with_capacity(BUFFER, File::open(&spec.path).map_err(failed)?);
    if file.fill_buf().map_err(failed)?.starts_with(BYTE_ORDER_MARK) {
        file.consume(BYTE_ORDER_MARK.len());
    }
    let spec = spec.clone();
    Ok(Source::new(Box::new(read_ahead(move |take| read(&spec, file, take))), None))
}

/// Calls `take` with the records until it returns `false`.
fn read(spec: &SourceSpec, file: BufReader<File>, take: &mut dyn FnMut(Record) -> bool) -> Result<(), SourceError> {
    let left = Rc::new(Cell::new(MAX_ELEMENT));
    let bounded = BufReader::with_capacity(BUFFER, Bounded { file, left: Rc::clone(&left) });
    let mut elements = Elements { spec, take, left, read: 0, outcome: None };
    let mut json = serde_json::Deserializer::from_reader(bounded);
    let parsed = (&mut json).deserialize_seq(&mut elements).and_then(|()| json.end());
    let (outcome, number) = (elements.outcome.take(), elements.read + 1);
    let place = Place { path: &spec.path, unit: "record", number };
    match (outcome, parsed) {
        (Some(outcome), _) => outcome,
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(match error.io_error_kind() {
            Some(io::ErrorKind::FileTooLarge) => too_long(&place, format!("more than {MAX_ELEMENT}")),
            Some(_) => SourceError::io(&spec.path, error.into()),
            None => place.refuse(error.to_string(), "a JSON array of objects"),
        }),
    }
}

/// Reads the elements of an array, one at a time.
struct Elements<'a> {
    spec: &'a SourceSpec,
    take: &'a mut dyn FnMut(Record) -> bool,
    /// Bytes that may be read until the end of the element.
    left: Rc<Cell<usize>>,
    read: u64,
    /// Set when reading ends before the array does.
    outcome: Option<Result<(), SourceError>>,
}

impl<'de> Visitor<'de> for &mut Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects (for an object on each line: --kind jsonl)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(element) = array.next_element::<Box<RawValue>>()? {
            let place = Place { path: &self.spec.path, unit: "record", number: self.read + 1 };
            let record = object_record(&place, self.spec, &on_one_line(element.get()));
            match record.map(|record| (self.take)(record)) {
                Ok(true) => {}
                end => {
                    self.outcome = Some(end.map(drop));
                    return Err(A::Error::custom("reading ends here"));
                }
            }
            self.read += 1;
            self.left.set(MAX_ELEMENT);
        }
        Ok(())
    }
}

/// Removes the white space between the tokens of valid JSON, so that a record is one line.
fn on_one_line(json: &str) -> Vec<u8> {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |byte: &u8| {
        let kept = in_text || !byte.is_ascii_whitespace();
        in_text ^= *byte == b'"' && !escaped;
        escaped = in_text && *byte == b'\\' && !escaped;
        kept
    };
    json.bytes().filter(keep).collect()
}

/// A file that returns an error after a number of bytes for one element, so that an element without an end does not
/// fill the memory.
struct Bounded {
    file: BufReader<File>,
    left: Rc<Cell<usize>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let given = self.file.read(buffer)?;
        self.left.set(self.left.get().checked_sub(given).ok_or(io::ErrorKind::FileTooLarge)?);
        Ok(given)
    }
}
