//! Directories of files.

use std::fs::{self, DirEntry, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Place, SourceError};
use crate::record::{MAX_RECORD_BYTES, Record, too_long};
use crate::source::{FolderFiles, Source};
use crate::spec::SourceSpec;

/// Maximum depth of directories.
const MAX_DEPTH: usize = 64;
const NEEDED: &str =
    "a regular file of this folder, a directory, or a link to a file of this folder; copy or remove it";

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let root = fs::canonicalize(&spec.path).map_err(|source| SourceError::io(&spec.path, source))?;
    let mut listing = Listing { root: &root, hidden: spec.hidden, files: Vec::new(), left_out: Vec::new() };
    listing.add(&root, &mut Vec::new())?;
    let Listing { mut files, mut left_out, .. } = listing;
    if files.is_empty() && !left_out.is_empty() {
        return Err(SourceError::file(
            &spec.path,
            "hidden files only",
            "another file, or --hidden (in Python hidden=True)",
        ));
    }
    // Sorted by name, so that the order does not depend on the file system.
    files.sort_unstable();
    left_out.sort_unstable();
    let taken = files.iter().map(|(key, _)| key.clone()).collect();
    let len = files.len() as u64;
    let records = files.into_iter().zip(1..).map(|((key, path), number)| read(key, &path, number));
    Ok(Source::new(Box::new(records), Some(len)).with_files(FolderFiles { taken, left_out }))
}

/// The files of a folder that are found so far.
struct Listing<'a> {
    root: &'a Path,
    /// Whether hidden ones are taken.
    hidden: bool,
    /// Names relative to the root, parts separated by `/`, and paths.
    files: Vec<(String, PathBuf)>,
    /// Hidden files and folders.
    left_out: Vec<String>,
}

impl Listing<'_> {
    /// Adds the files below a directory with this name, in parts.
    fn add(&mut self, directory: &Path, parts: &mut Vec<String>) -> Result<(), SourceError> {
        if parts.len() > MAX_DEPTH {
            let needed = format!("at most {MAX_DEPTH} levels");
            return Err(SourceError::file(directory, "a directory that is too deep", needed));
        }
        for entry in fs::read_dir(directory).map_err(|source| SourceError::io(directory, source))? {
            let entry = entry.map_err(|source| SourceError::io(directory, source))?;
            let path = entry.path();
            let name = entry.file_name();
            if !self.hidden && name.as_encoded_bytes().starts_with(b".") {
                parts.push(name.to_string_lossy().into_owned());
                self.left_out.push(parts.join("/"));
            } else {
                let Ok(name) = name.into_string() else {
                    let needed = "UTF-8, which is the key; rename it";
                    return Err(SourceError::file(&path, "a name that is not UTF-8", needed));
                };
                parts.push(name);
                self.add_entry(&entry, path, parts)?;
            }
            parts.pop();
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &DirEntry, path: PathBuf, parts: &mut Vec<String>) -> Result<(), SourceError> {
        let kind = entry.file_type().map_err(|source| SourceError::io(&path, source))?;
        if kind.is_dir() {
            return self.add(&path, parts);
        }
        if kind.is_symlink() {
            let target = file_inside(self.root, &path)?;
            let Some(target) = target else {
                return Err(SourceError::file(&path, "a link that leads elsewhere", NEEDED));
            };
            // A link does not publish what is hidden.
            if !self.hidden && target.iter().any(|part| part.as_encoded_bytes().starts_with(b".")) {
                self.left_out.push(parts.join("/"));
                return Ok(());
            }
        } else if !kind.is_file() {
            return Err(SourceError::file(&path, "neither file nor directory", NEEDED));
        }
        self.files.push((parts.join("/"), path));
        Ok(())
    }
}

/// The path, relative to the root, of the file that a link leads to; `None` if there is no such file below the root.
fn file_inside(root: &Path, link: &Path) -> Result<Option<PathBuf>, SourceError> {
    let target = fs::canonicalize(link).map_err(|source| SourceError::io(link, source))?;
    let inside = target.strip_prefix(root).ok().filter(|_| target.is_file());
    Ok(inside.map(Path::to_owned))
}

fn read(key: String, path: &Path, number: u64) -> Result<Record, SourceError> {
    let place = Place { path, unit: "file", number };
    let file = File::open(path).map_err(|source| SourceError::io(path, source))?;
    let mut value = Vec::new();
    let mut bounded = file.take(MAX_RECORD_BYTES as u64 + 1);
    bounded.read_to_end(&mut value).map_err(|source| SourceError::io(path, source))?;
    if value.len() > MAX_RECORD_BYTES {
        return Err(too_long(&place, format!("more than {MAX_RECORD_BYTES}")));
    }
    Record { key: Some(key.into_bytes()), value, beside: None }.check(&place)
}
