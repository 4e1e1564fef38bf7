//! The disk of a gateway whose key bundles are copied elsewhere.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use unspoken_server::{Disk, LocalDisk};

/// The local disk, whose finished key bundles a Python object copies elsewhere.
pub(super) struct MirroredDisk(pub(super) Py<PyAny>);

impl MirroredDisk {
    fn call(&self, method: &str, from: &Path, bundle: &str) -> io::Result<()> {
        let from = from.display().to_string();
        let called = Python::attach(|py| self.0.call_method1(py, method, (from, bundle)).map(drop));
        called.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// The directory of bundles in which a path is, and its last name: `keys/ID`.
fn bundle_of(path: &Path) -> Option<(&str, &str)> {
    let directory = path.parent()?.file_name()?.to_str()?;
    Some((directory, path.file_name()?.to_str()?))
}

impl Disk for MirroredDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.create_dir(path)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        LocalDisk.write_at(path, offset, bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        LocalDisk.truncate(path, length)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        LocalDisk.replace(path, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        LocalDisk.sync(path)
    }

    /// A bundle becomes usable by one rename into `keys`, and is taken back or deleted by one out of it: the copy is
    /// made before the first and deleted before the second.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (bundle_of(from), bundle_of(to)) {
            (_, Some(("keys", bundle))) => self.call("stored", from, bundle)?,
            (Some(("keys", bundle)), _) => self.call("removed", from, bundle)?,
            _ => {}
        }
        LocalDisk.rename(from, to)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        LocalDisk.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.length(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        LocalDisk.list(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_dir(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.free_bytes(path)
    }
}
