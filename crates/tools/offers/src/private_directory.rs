//! Directories of offers that outlive the service.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use unspoken_files::{create_private_directory, open_lock_file};

const LOCK: &str = "lock";

/// Time for a stopped or killed service to be gone, and time between two looks whether it is gone. A service that takes
/// its place must not fail because the old service still finishes requests, or frees its memory.
pub const PATIENCE: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(100);

/// Opens a directory that only its owner can enter, which is made if missing. The directory is in use as long as the
/// result lives; the operating system releases it when the process dies. If another process uses it, this waits up to
/// `patience` for the end of that process.
pub fn open(path: &Path, patience: Duration) -> io::Result<File> {
    create_private_directory(path)?;
    let lock = open_lock_file(&path.join(LOCK))?;
    let mut waited = None;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let start = *waited.get_or_insert_with(|| {
            if !patience.is_zero() {
                tracing::warn!(path = %path.display(), "the directory is in use; waiting for its service to end");
            }
            Instant::now()
        });
        if start.elapsed() >= patience {
            let found = "another offer or service uses it; stop that, or name another directory";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, found));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_waits_for_the_one_before_it_to_be_gone() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path(), Duration::ZERO).unwrap();
        assert_eq!(open(folder.path(), Duration::ZERO).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        let gone = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(first);
        });
        open(folder.path(), Duration::from_secs(60)).unwrap();
        gone.join().unwrap();
    }
}
