//! The disk operations of the key store: a trait, so that tests can make them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use unspoken_files::Access;

/// The disk operations that the key store needs. Every call may fail with [`io::ErrorKind::StorageFull`] or
/// [`io::ErrorKind::QuotaExceeded`]; the service then answers 507 and continues.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and its parents, readable by the owner only.
    ///
    /// # Errors
    /// The error of the operating system. A directory that exists already is no error.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Writes bytes at an offset of a file, which is made if missing.
    ///
    /// # Errors
    /// The error of the operating system; some of the bytes may have been written.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file to `length` bytes.
    ///
    /// # Errors
    /// The error of the operating system.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Replaces a small file as a whole and syncs it and its directory: after a crash it has either the old content or
    /// the new.
    ///
    /// # Errors
    /// The error of the operating system.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until a file or directory is stored on the disk.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Renames a file or directory, atomically.
    ///
    /// # Errors
    /// The error of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Length of a file in bytes.
    ///
    /// # Errors
    /// The error of the operating system.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Paths of the entries of a directory.
    ///
    /// # Errors
    /// The error of the operating system.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes a directory and its content.
    ///
    /// # Errors
    /// The error of the operating system. A missing directory is no error.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Bytes that this process may still write to the file system of a directory.
    ///
    /// # Errors
    /// The error of the operating system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// The local disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)?;
        file.write_all_at(bytes, offset)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(length)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        unspoken_files::replace_file(path, bytes, Access::Owner)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let system = rustix::fs::statvfs(path)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }
}
