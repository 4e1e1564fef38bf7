//! What a store needs of a file, so that tests can put something else in its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

/// Bytes that a file has and its copy has not.
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
    /// Waits until nobody else has the lock, in this process or another.
    fn lock(&self) -> io::Result<()>;
    /// Gives the lock back.
    fn unlock(&self) -> io::Result<()>;
    /// What tells it from a copy.
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

    /// The inode and the time it was made, where the file system knows it. Not the device number: that of one and the
    /// same disk may change when the system starts again. So a writable snapshot of the file system, which keeps both
    /// numbers, is not told from the original.
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
