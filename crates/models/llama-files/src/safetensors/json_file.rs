//! JSON files that must be there, and others that need not.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::LoadError;

/// Reads a file of JSON that may be missing.
pub(super) fn optional<T: DeserializeOwned>(path: &Path, needed: &str) -> Result<Option<T>, LoadError> {
    match required(path, needed) {
        Err(LoadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Reads a file of JSON.
pub(super) fn required<T: DeserializeOwned>(path: &Path, needed: &str) -> Result<T, LoadError> {
    let text = fs::read(path).map_err(LoadError::io(path))?;
    serde_json::from_slice(&text).map_err(|error| LoadError::content(path, error.to_string(), needed))
}
