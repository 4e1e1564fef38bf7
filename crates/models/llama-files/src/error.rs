//! Errors of this crate.

use std::path::PathBuf;

/// A model file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be opened or read.
    #[error("read {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The content of the file is not a supported model.
    #[error("read {path}: found {found}, needed {needed}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
}

impl LoadError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| LoadError::Io { path, source }
    }

    pub(crate) fn content(path: impl Into<PathBuf>, found: impl Into<String>, needed: impl Into<String>) -> Self {
        LoadError::Content { path: path.into(), found: found.into(), needed: needed.into() }
    }
}
