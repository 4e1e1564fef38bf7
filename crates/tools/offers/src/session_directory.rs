//! A directory with the sessions of a language model, which outlive the service.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use unspoken_chat::SessionStore;
use unspoken_files::{Access, is_temporary_of, replace_file_with, sync_directory};

use crate::private_directory::{self, PATIENCE};

/// A directory that only its owner can enter, used by one service at a time. Each entry is a file, which is replaced
/// atomically.
pub struct SessionDirectory {
    path: PathBuf,
    /// Held while the directory is in use; the operating system releases it when the process dies.
    _lock: File,
}

/// The end and the length of the names of entries.
const SUFFIX: &str = ".session";
const NAME_LENGTH: usize = 72;

impl SessionDirectory {
    /// Opens a directory, which is made if missing. If another service uses it, this waits for its end for some time.
    /// Files that an interrupted write left are removed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_within(path, PATIENCE)
    }

    fn open_within(path: &Path, patience: Duration) -> io::Result<Self> {
        let lock = private_directory::open(path, patience)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if is_left_over(path, &entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(SessionDirectory { path: path.to_owned(), _lock: lock })
    }

    /// The path of an entry. Names come from the server, but a name with a separator must not leave the directory.
    fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        if is_name(name) {
            return Ok(self.path.join(name));
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a session")))
    }
}

fn is_name(name: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == NAME_LENGTH && name.strip_suffix(SUFFIX).is_some_and(|rest| rest.bytes().all(digit))
}

/// Whether a file is what an interrupted write of an entry left.
fn is_left_over(directory: &Path, file: &str) -> bool {
    let name = file.get(1..=NAME_LENGTH).unwrap_or_default();
    is_name(name) && is_temporary_of(&directory.join(name), file.as_ref())
}

impl SessionStore for SessionDirectory {
    fn names(&self) -> io::Result<Vec<String>> {
        let files = fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>()?;
        let names = files.into_iter().filter_map(|file| file.file_name().into_string().ok());
        Ok(names.filter(|name| is_name(name)).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::BufReader::new(File::open(self.path_of(name)?)?)))
    }

    fn replace(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        replace_file_with(&self.path_of(name)?, Access::Owner, write)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path_of(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Err(_) => Ok(()),
            Ok(()) => sync_directory(&self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &SessionDirectory, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        store.open(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn entries_are_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/sessions");
        let store = SessionDirectory::open(&path).unwrap();
        let name = "0a".repeat(32) + SUFFIX;
        store.replace(&name, &mut |out| out.write_all(b"one")).unwrap();
        assert_eq!(store.names().unwrap(), std::slice::from_ref(&name));
        // A write that fails in the middle leaves the entry as it was.
        let failed = store.replace(&name, &mut |out| out.write_all(b"tw").and(Err(io::ErrorKind::Other.into())));
        assert!(failed.is_err());
        assert_eq!(read(&store, &name).unwrap(), b"one");
        store.replace(&name, &mut |out| out.write_all(b"two")).unwrap();
        assert_eq!(read(&store, &name).unwrap(), b"two");
        store.remove(&name).unwrap();
        store.remove(&name).unwrap();
        assert!(store.names().unwrap().is_empty() && store.open(&name).is_err());
        for name in ["", "../lock", &"0A".repeat(32), &(("/a").repeat(32) + SUFFIX)] {
            assert!(store.open(name).is_err() && store.remove(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_directory_has_one_user_and_is_cleaned() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionDirectory::open(folder.path()).unwrap();
        let said = SessionDirectory::open_within(folder.path(), Duration::ZERO).err().unwrap().to_string();
        assert!(said.contains("another offer or service"), "{said}");
        drop(store);
        let (name, other) = ("0a".repeat(32) + SUFFIX, folder.path().join("notes.txt"));
        let left = folder.path().join(format!(".{name}.aB3xY9.tmp"));
        fs::write(&left, b"half").unwrap();
        fs::write(&other, b"mine").unwrap();
        let store = SessionDirectory::open(folder.path()).unwrap();
        assert!(!left.exists() && other.exists());
        assert!(store.names().unwrap().is_empty());
    }
}
