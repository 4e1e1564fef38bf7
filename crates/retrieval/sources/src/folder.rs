//! Directories of files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Place, SourceError};
use crate::record::{MAX_RECORD_BYTES, Record, too_long};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Maximum depth of directories.
const MOST_DEPTH: usize = 64;
const NEEDED: &str =
    "a regular file of this folder, a directory, or a link to a file of this folder; copy or remove it";

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let root = fs::canonicalize(&spec.path).map_err(|source| SourceError::io(&spec.path, source))?;
    let mut files = Vec::new();
    collect(&root, &root, &mut Vec::new(), &mut files)?;
    // Sorted by name, so that the order does not depend on the file system.
    files.sort_unstable();
    let len = files.len() as u64;
    let records = files.into_iter().zip(1..).map(|((key, path), number)| read(key, &path, number));
    Ok(Source::new(Box::new(records), Some(len)))
}

/// Files below `directory` with their names relative to the root, parts separated by `/`.
fn collect(
    root: &Path,
    directory: &Path,
    parts: &mut Vec<Vec<u8>>,
    files: &mut Vec<(Vec<u8>, PathBuf)>,
) -> Result<(), SourceError> {
    if parts.len() > MOST_DEPTH {
        return Err(SourceError::file(
            directory,
            "a directory that is too deep",
            format!("at most {MOST_DEPTH} levels"),
        ));
    }
    for entry in fs::read_dir(directory).map_err(|source| SourceError::io(directory, source))? {
        let entry = entry.map_err(|source| SourceError::io(directory, source))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|source| SourceError::io(&path, source))?;
        parts.push(entry.file_name().as_encoded_bytes().to_owned());
        if kind.is_dir() {
            collect(root, &path, parts, files)?;
        } else if kind.is_file() || kind.is_symlink() && leads_to_file_inside(root, &path)? {
            files.push((parts.join(&b'/'), path));
        } else {
            let found = if kind.is_symlink() { "a link that leads elsewhere" } else { "neither file nor directory" };
            return Err(SourceError::file(&path, found, NEEDED));
        }
        parts.pop();
    }
    Ok(())
}

fn leads_to_file_inside(root: &Path, link: &Path) -> Result<bool, SourceError> {
    let target = fs::canonicalize(link).map_err(|source| SourceError::io(link, source))?;
    Ok(target.starts_with(root) && target.is_file())
}

fn read(key: Vec<u8>, path: &Path, number: u64) -> Result<Record, SourceError> {
    let place = Place { path, unit: "file", number };
    let file = File::open(path).map_err(|source| SourceError::io(path, source))?;
    let mut value = Vec::new();
    let mut bounded = file.take(MAX_RECORD_BYTES as u64 + 1);
    bounded.read_to_end(&mut value).map_err(|source| SourceError::io(path, source))?;
    if value.len() > MAX_RECORD_BYTES {
        return Err(too_long(&place, format!("more than {MAX_RECORD_BYTES}")));
    }
    Record { key: Some(key), value }.check(&place)
}
