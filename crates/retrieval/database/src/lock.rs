//! File lock that ensures one writer at a time.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::{DatabaseError, io_error};

const NAME: &str = "writer.lock";

/// The lock of a directory, held until it is dropped. The operating system releases it when the process ends for any
/// reason.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is starting has the file open, too, until it runs its
        // program.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Takes the lock of a directory, without waiting.
    ///
    /// # Errors
    /// [`DatabaseError::Locked`] if another writer has it, or if the file of the lock cannot be opened.
    pub fn take(dir: &Path) -> Result<Self, DatabaseError> {
        let path = dir.join(NAME);
        let file = unspoken_files::open_lock_file(&path).map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(DatabaseError::Locked { dir: dir.into() }),
            Err(TryLockError::Error(error)) => Err(io_error("lock", &path)(error)),
        }
    }
}
