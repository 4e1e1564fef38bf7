//! Iterators over the records of a source.

use crate::error::SourceError;
use crate::record::Record;

/// Iterator over the records of a file, in the order of the file, or of a folder, in the order of the names. Records
/// are read on demand. After an error the iterator ends.
pub struct Source {
    records: Records,
    len_hint: Option<u64>,
    files: Option<FolderFiles>,
    done: bool,
}

/// The files of a folder, by their names relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderFiles {
    /// The records, in their order.
    pub taken: Vec<String>,
    /// Hidden files and folders, which were left out.
    pub left_out: Vec<String>,
}

pub(crate) type Records = Box<dyn Iterator<Item = Result<Record, SourceError>> + Send>;

impl Source {
    pub(crate) fn new(records: Records, len_hint: Option<u64>) -> Self {
        Source { records, len_hint, files: None, done: false }
    }

    pub(crate) fn with_files(self, files: FolderFiles) -> Self {
        Source { files: Some(files), ..self }
    }

    /// The files of a folder; `None` for other kinds.
    pub fn files(&self) -> Option<&FolderFiles> {
        self.files.as_ref()
    }

    /// Number of records, if the file states it. It is a hint and may be wrong: do not allocate memory based on it.
    pub fn len_hint(&self) -> Option<u64> {
        self.len_hint
    }
}

impl Iterator for Source {
    type Item = Result<Record, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.records.next();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
