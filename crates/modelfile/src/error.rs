//! What can go wrong with a file, and what to do about it.

use std::path::PathBuf;

/// A model file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file could not be opened, read or written.
    #[error("{operation} {path}: {source}; check the path, its permissions and the free space", path = path.display())]
    Io {
        /// `read` or `write`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is larger than any model written here.
    #[error("read {path}: found more than {most} bytes, needed at most that; this is not a model file", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        most: u64,
    },
    /// The JSON is malformed, or lacks a field, or has one too many.
    #[error("read {path}: {source}; train or download the model again", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The file is of another kind or another format version.
    #[error("read {path}: found format {found:?}, needed {needed:?}; use the matching file, or the release that wrote it", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Kind and version in the file.
        found: String,
        /// Kind and version this reader takes.
        needed: String,
    },
    /// The bytes of a weights file are not those its JSON was written with.
    #[error("read {path}: found BLAKE3 {found}, needed {needed}; the file is damaged or from another model, fetch it again", path = path.display())]
    Checksum {
        /// The weights file.
        path: PathBuf,
        /// Checksum of the bytes there.
        found: String,
        /// Checksum the JSON states.
        needed: String,
    },
    /// The weights file is not the tensor it should be.
    #[error("read {path}: found {found}, needed {needed}; train or download the model again", path = path.display())]
    Tensor {
        /// The weights file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What it must hold.
        needed: String,
    },
}
