//! Collects the records of a reader, up to a limit.

use std::path::Path;

use crate::dataset::Dataset;
use crate::error::StoreError;

/// Maximum bytes of one record: far above a mail or a review.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;
/// Maximum bytes of all records; the largest public set that is read has 150 MB.
const MAX_BYTES: usize = 1 << 30;
/// Bytes that a record needs beside its text and label.
const OVERHEAD: usize = 2 * size_of::<String>() + 32;

/// The records read so far from a path.
pub(super) struct Collector<'a> {
    path: &'a Path,
    data: Dataset,
    /// Bytes that are left.
    left: usize,
}

impl<'a> Collector<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self { path, data: Dataset::default(), left: MAX_BYTES }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if all records together exceed 1 GiB.
    pub(super) fn push(&mut self, text: &str, label: &str) -> Result<(), StoreError> {
        let needed = text.len() + label.len() + OVERHEAD;
        let left = self.left.checked_sub(needed);
        let too_large = || StoreError::TooLarge { path: self.path.to_owned(), what: "records", most: MAX_BYTES as u64 };
        self.left = left.ok_or_else(too_large)?;
        self.data.push(text, label);
        Ok(())
    }

    /// The error of a record that begins in this line.
    pub(super) fn refuse(&self, line: u64, found: impl Into<String>, needed: impl Into<String>) -> StoreError {
        refuse(self.path, line, found, needed)
    }

    pub(super) fn finish(self) -> Dataset {
        self.data
    }
}

/// The error of a record of this file.
pub(super) fn refuse(path: &Path, line: u64, found: impl Into<String>, needed: impl Into<String>) -> StoreError {
    StoreError::Record { path: path.to_owned(), line, found: found.into(), needed: needed.into() }
}

/// The error of a record that is longer than the limit.
pub(super) fn too_long(path: &Path, line: u64) -> StoreError {
    refuse(path, line, format!("a record of more than {MAX_RECORD_BYTES} bytes"), "a shorter one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_all_records_is_bounded() {
        let mut collector = Collector::new(Path::new("mails"));
        collector.left = 3 * OVERHEAD + 10;
        collector.push("12345", "ham").expect("room");
        collector.push("", "a").expect("room");
        let error = collector.push("12", "").expect_err("no room");
        assert!(error.to_string().contains("read mails: found records of more than 1073741824 bytes"), "{error}");
    }
}
