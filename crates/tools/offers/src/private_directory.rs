//! Directories of offers that outlive the service.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use unspoken_files::{create_private_directory, open_lock_file};

const LOCK: &str = "lock";

/// Opens a directory that only its owner can enter, which is made if missing. The directory is in use as long as the
/// result lives; the operating system releases it when the process dies.
pub fn open(path: &Path) -> io::Result<File> {
    create_private_directory(path)?;
    let lock = open_lock_file(&path.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let found = "another offer or service uses it; name another directory";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, found))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}
