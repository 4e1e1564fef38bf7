//! Lines of `label<TAB>text`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::collect::{Collector, MOST_RECORD_BYTES, too_long, unreadable};
use crate::dataset::Dataset;
use crate::error::DataError;

pub(super) fn read(path: &Path) -> Result<Dataset, DataError> {
    let mut reader = BufReader::new(File::open(path).map_err(unreadable(path))?);
    let mut collector = Collector::new(path);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let most = MOST_RECORD_BYTES as u64 + 1;
        if reader.by_ref().take(most).read_until(b'\n', &mut line).map_err(unreadable(path))? == 0 {
            break;
        }
        if line.len() > MOST_RECORD_BYTES {
            return Err(too_long(path, number));
        }
        add(&mut collector, number, &line)?;
    }
    Ok(collector.finish())
}

/// Adds the record of one line.
fn add(collector: &mut Collector, number: u64, line: &[u8]) -> Result<(), DataError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(());
    }
    let refuse = |found: &str| collector.refuse(number, found, "UTF-8 text of the form label<TAB>text");
    let line = std::str::from_utf8(line).map_err(|_| refuse("bytes that are not UTF-8"))?;
    let (label, text) = line.split_once('\t').ok_or_else(|| refuse("no tab"))?;
    if label.is_empty() {
        return Err(refuse("an empty label"));
    }
    collector.push(text, label)
}
