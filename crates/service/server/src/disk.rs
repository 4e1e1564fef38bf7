//! The few things the key store does to a disk, behind a trait so that tests
//! can make it fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use unspoken_files::Access;

/// A disk as the key store needs it. Every call may fail with
/// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`]; the
/// service then answers 507 and goes on.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and its parents, readable by the owner only.
    ///
    /// # Errors
    /// What the operating system says; an existing directory is none.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Writes bytes at an offset of a file, which is made if missing.
    ///
    /// # Errors
    /// What the operating system says; some of the bytes may be written.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file to `length` bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Replaces a small file as a whole and syncs it and its directory: after a crash the old content is there or the
    /// new.
    ///
    /// # Errors
    /// What the operating system says.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until a file or directory is on the disk.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Renames a file or directory, atomically.
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// What the operating system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Bytes of a file.
    ///
    /// # Errors
    /// What the operating system says.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Names in a directory.
    ///
    /// # Errors
    /// What the operating system says.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes a directory and what is in it.
    ///
    /// # Errors
    /// What the operating system says; a missing directory is none.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
}

/// The machine's own disk.
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
}
