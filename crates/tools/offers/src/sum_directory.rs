//! A directory with the state of a collection, which outlives the service.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unspoken_files::{Access, is_temporary_of, replace_file, sync_directory};
use unspoken_sums::SumStore;

use crate::private_directory::{self, PATIENCE};

/// A directory that only its owner can enter, used by one service at a time. One file has the encrypted sum and is
/// replaced atomically; another has the ids of the contributions and grows.
pub struct SumDirectory {
    path: PathBuf,
    ids: File,
    _lock: File,
}

const STATE: &str = "state";
const IDS: &str = "ids";

impl SumDirectory {
    /// Opens a directory, which is made if missing. If another service uses it, this waits for its end for some time.
    /// Files that an interrupted write left are removed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_within(path, PATIENCE)
    }

    fn open_within(path: &Path, patience: Duration) -> io::Result<Self> {
        let lock = private_directory::open(path, patience)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if is_temporary_of(&path.join(STATE), &entry.file_name()) {
                fs::remove_file(entry.path())?;
            }
        }
        let mut options = File::options();
        let ids = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path.join(IDS))?;
        sync_directory(path)?;
        Ok(SumDirectory { path: path.to_owned(), ids, _lock: lock })
    }
}

impl SumStore for SumDirectory {
    fn state(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(STATE)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace_state(&self, state: &[u8]) -> io::Result<()> {
        replace_file(&self.path.join(STATE), state, Access::Owner)
    }

    fn ids(&self, count: usize) -> io::Result<Vec<u8>> {
        let (mut file, mut ids) = (&self.ids, Vec::new());
        file.seek(SeekFrom::Start(0))?;
        file.take(count as u64).read_to_end(&mut ids)?;
        Ok(ids)
    }

    fn write_ids(&self, offset: u64, ids: &[u8]) -> io::Result<()> {
        let mut file = &self.ids;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(ids)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn state_and_ids_outlive_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/survey.state");
        let store = SumDirectory::open(&path).unwrap();
        assert!(store.state().unwrap().is_none() && store.ids(100).unwrap().is_empty());
        store.write_ids(0, b"onetwo").unwrap();
        store.write_ids(3, b"six").unwrap();
        store.replace_state(b"first").unwrap();
        store.replace_state(b"second").unwrap();
        let said = SumDirectory::open_within(&path, Duration::ZERO).err().unwrap().to_string();
        assert!(said.contains("another offer or service"), "{said}");
        drop(store);
        let left = path.join(".state.aB3xY9.tmp");
        fs::write(&left, b"half").unwrap();
        let store = SumDirectory::open(&path).unwrap();
        assert!(!left.exists());
        assert_eq!(store.state().unwrap().unwrap(), b"second");
        assert_eq!((store.ids(5).unwrap(), store.ids(100).unwrap()), (b"onesi".to_vec(), b"onesix".to_vec()));
        for name in [STATE, IDS] {
            assert_eq!(path.join(name).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
