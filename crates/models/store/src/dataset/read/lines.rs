//! Lines of `label<TAB>text`, and lines with `__label__` in front of labels.

use std::path::Path;

use unspoken_files::{TextError, TextLines};

use super::collect::{Collector, MAX_RECORD_BYTES, refuse, too_long};
use crate::dataset::Dataset;
use crate::error::StoreError;

const NEEDED: &str = "UTF-8 text of the form label<TAB>text";
const NEEDED_TAB: &str = "UTF-8 text of the form label<TAB>text; for CSV with a header, name its columns: \
                          --text-column and --label-column (in Python kind=\"csv\", text_column=, label_column=)";

/// Marks a label in the format of fastText.
const MARK: &str = "__label__";
const NEEDED_MARKED: &str = "UTF-8 text with __label__NAME for each of its labels";

/// Lines of label, tab and text.
pub(super) fn read_tab_separated(path: &Path) -> Result<Dataset, StoreError> {
    read(path, NEEDED, add)
}

/// Lines of words. Words with the mark are labels: a line gives a record for each label.
pub(super) fn read_marked(path: &Path) -> Result<Dataset, StoreError> {
    read(path, NEEDED_MARKED, add_marked)
}

fn read(
    path: &Path,
    needed: &str,
    add: fn(&mut Collector, u64, &str) -> Result<(), StoreError>,
) -> Result<Dataset, StoreError> {
    let mut lines = TextLines::open(path, MAX_RECORD_BYTES).map_err(StoreError::io("read", path))?;
    let mut collector = Collector::new(path);
    for number in 1.. {
        let Some(line) = lines.next_line().map_err(|error| unreadable_line(path, error, needed))? else { break };
        add(&mut collector, number, line)?;
    }
    Ok(collector.finish())
}

/// The error of a line that is no text.
fn unreadable_line(path: &Path, error: TextError, needed: &str) -> StoreError {
    match error {
        TextError::Io(source) => StoreError::io("read", path)(source),
        TextError::NotUtf8 { line } => refuse(path, line, "bytes that are not UTF-8", needed),
        TextError::TooLong { line, .. } => too_long(path, line),
        other => StoreError::io("read", path)(other.into()),
    }
}

/// Adds the record of one line.
fn add(collector: &mut Collector, number: u64, line: &str) -> Result<(), StoreError> {
    if line.is_empty() {
        return Ok(());
    }
    let refuse = |found: &str| collector.refuse(number, found, NEEDED);
    let no_tab = || collector.refuse(number, "no tab", NEEDED_TAB);
    let (label, text) = line.split_once('\t').ok_or_else(no_tab)?;
    if label.is_empty() {
        return Err(refuse("an empty label"));
    }
    collector.push(text, label)
}

/// Adds the records of one line with marked labels.
fn add_marked(collector: &mut Collector, number: u64, line: &str) -> Result<(), StoreError> {
    let (labels, words): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.starts_with(MARK));
    if labels.is_empty() && words.is_empty() {
        return Ok(());
    }
    let refuse = |found: &str| collector.refuse(number, found, NEEDED_MARKED);
    if labels.is_empty() {
        return Err(refuse("no word that begins with __label__"));
    }
    if labels.contains(&MARK) {
        return Err(refuse("an empty label"));
    }
    let text = words.join(" ");
    labels.iter().try_for_each(|label| collector.push(&text, &label[MARK.len()..]))
}
