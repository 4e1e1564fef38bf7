//! The file operations that a store needs, as a trait that tests can implement differently.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

/// Bytes of an identity, which differs between a file and its copy.
pub(crate) const IDENTITY_BYTES: usize = 16;

/// A file: read and written at offsets, made durable, locked.
pub(crate) trait Device {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Fills `bytes` from `offset` on.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Overwrites, not durably yet.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when everything written is durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the lock. Waits until no other holder, in this process or another, has it.
    fn lock(&self) -> io::Result<()>;
    /// Releases the lock.
    fn unlock(&self) -> io::Result<()>;
    /// Bytes that distinguish the file from a copy of it.
    fn identity(&self) -> io::Result<[u8; IDENTITY_BYTES]>;
}

impl Device for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn lock(&self) -> io::Result<()> {
        File::lock(self)
    }

    fn unlock(&self) -> io::Result<()> {
        File::unlock(self)
    }

    /// The inode number and the birth time, if the file system stores it. The device number is not included, because
    /// the number of a disk may change when the system restarts. Therefore a writable snapshot of the file system,
    /// which keeps inode numbers and birth times, is not distinguished from the original.
    fn identity(&self) -> io::Result<[u8; IDENTITY_BYTES]> {
        let metadata = self.metadata()?;
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |age| age.as_nanos() as u64);
        let mut identity = [0; IDENTITY_BYTES];
        identity[..8].copy_from_slice(&metadata.ino().to_le_bytes());
        identity[8..].copy_from_slice(&born.to_le_bytes());
        Ok(identity)
    }
}
