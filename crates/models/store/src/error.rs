//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// A model file could not be read or written, or a data set could not be read or split.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be opened, read or written.
    #[error("{operation} {path}: {source}; check the path, its permissions and the free space", path = path.display())]
    Io {
        /// `read` or `write`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file, a record or a whole data set is larger than the limit.
    #[error(
        "read {path}: found {what} of more than {most} bytes, needed at most that; check that it is the right file, \
         and leave out what does not belong in it",
        path = path.display()
    )]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// What is too large.
        what: &'static str,
        /// The limit in bytes.
        most: u64,
    },
    /// The JSON is malformed, or has a missing or an unknown field.
    #[error("read {path}: {source}; train or download the model again", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The file is of another kind or another format version.
    #[error(
        "read {path}: found format {found:?}, needed {needed:?}; the programs that wrote and read it \
         differ: install command and package from one release or commit, or make the file again",
        path = path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Kind and version in the file.
        found: String,
        /// Kind and version that this reader accepts.
        needed: String,
    },
    /// The bytes of a weights file do not match the checksum in its JSON.
    #[error(
        "read {path}: found BLAKE3 {found}, needed {needed}; the file is damaged or from another model, fetch it again",
        path = path.display()
    )]
    Checksum {
        /// The weights file.
        path: PathBuf,
        /// Checksum of the bytes.
        found: String,
        /// Checksum in the JSON.
        needed: String,
    },
    /// The weights file does not contain the expected tensor.
    #[error("read {path}: found {found}, needed {needed}; train or download the model again", path = path.display())]
    Tensor {
        /// The weights file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A line is not a record.
    #[error(
        "read {path}, line {line}: found {found}, needed {needed}; correct or remove the line",
        path = path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A folder does not have the layout of the data set.
    #[error(
        "read {path}: found {found}, needed {needed}; name the folder of the unpacked data set",
        path = path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
    },
    /// A named column is not in the header.
    #[error(
        "read {path}: found columns {found:?}, needed {needed:?}; name a column of the header",
        path = path.display()
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The columns in the header.
        found: Vec<String>,
        /// The requested column.
        needed: String,
    },
    /// The numbers of texts and labels differ.
    #[error(
        "pair texts with labels: found {texts} texts and {labels} labels, needed as many of each; pass one label for \
         each text"
    )]
    Length {
        /// Number of texts.
        texts: usize,
        /// Number of labels.
        labels: usize,
    },
    /// The fractions of a split leave nothing to train on.
    #[error(
        "split the data: found fractions {validation} for validation and {test} for test, needed both at least 0 and \
         their sum below 1; lower them"
    )]
    Fractions {
        /// Share of the records for validation.
        validation: f64,
        /// Share of the records for test.
        test: f64,
    },
}

impl StoreError {
    /// Makes the error of a file from its cause; `operation` is `read` or `write`.
    pub fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }

    /// Makes the error of malformed JSON from the parser's error.
    pub fn json(path: &Path) -> impl Fn(serde_json::Error) -> Self + Copy {
        move |source| Self::Json { path: path.to_owned(), source }
    }

    /// The error of a file whose content is not the expected one.
    pub fn tensor(path: &Path, found: impl ToString, needed: impl ToString) -> Self {
        Self::Tensor { path: path.to_owned(), found: found.to_string(), needed: needed.to_string() }
    }
}
