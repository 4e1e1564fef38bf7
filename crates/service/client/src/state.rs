//! State of a client on disk between runs: its secret key, and the id of the bundle at the service.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unspoken_files::{Access, create_private_directory, is_temporary_of, replace_file};
use unspoken_protocol::DurableCounters;
use zeroize::Zeroizing;

use crate::transport::Cancel;

/// How often a waiting process checks whether the lock is free.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Bytes of a hash in a file name.
const TAG: usize = 16;

/// Prefix of the names of bundle files.
const BUNDLE: &str = "bundle-";

/// File name of the last description.
const DESCRIPTION: &str = "description";

/// Age above which a bundle of other parameters is removed, because its upload is not resumed any more.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// A private directory for one client of one application of one service.
///
/// For each parameter set there is a file `secret-*.key`: anyone who reads it can decrypt every query. Only its owner
/// may access the directory, and one process at a time makes keys in it.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Opens or makes the directory of an application of a service below `root`.
    ///
    /// # Errors
    /// If it cannot be made, or belongs to another user.
    pub fn open(root: &Path, url: &str, application: &str) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(url.trim_end_matches('/').as_bytes());
        hasher.update(&[0]);
        hasher.update(application.as_bytes());
        let name = hasher.finalize().to_hex();
        let path = root.join(&name.as_str()[..2 * TAG]);
        create_private_directory(&path)?;
        let state = Self { path };
        state.remove_temporaries()?;
        Ok(state)
    }

    /// Removes temporary files that a crash left, one of which may hold a secret key. All but those of numbers are
    /// written under the lock: while another process has it, none is removed.
    fn remove_temporaries(&self) -> io::Result<()> {
        let left = || -> io::Result<Vec<PathBuf>> {
            let entries = fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>()?;
            Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| is_own_temporary(path)).collect())
        };
        if left()?.is_empty() {
            return Ok(());
        }
        let lock = OpenOptions::new().create(true).append(true).open(self.path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => left()?.into_iter().try_for_each(fs::remove_file),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until no other process makes keys here; other processes wait until the returned file is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] when cancelled, or if the file cannot be locked.
    pub(crate) fn lock(&self, cancel: &Cancel) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).open(self.path.join("lock"))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return Err(io::ErrorKind::Interrupted.into()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// The last description of the service that a client with this state accepted.
    pub(crate) fn description(&self) -> io::Result<Option<Vec<u8>>> {
        read_if_there(&self.path.join(DESCRIPTION))
    }

    pub(crate) fn store_description(&self, description: &[u8]) -> io::Result<()> {
        replace_file(&self.path.join(DESCRIPTION), description, Access::Owner)
    }

    fn store_next_number(&self, session: &[u8], next: u32) -> io::Result<()> {
        // Content and name are durable before the number is used.
        replace_file(&self.numbers_path(session), &next.to_le_bytes(), Access::Owner)
    }

    fn numbers_path(&self, session: &[u8]) -> PathBuf {
        self.path.join(format!("numbers-{}.next", hex::encode(session)))
    }

    /// The files for the parameters with this fingerprint.
    pub(crate) fn entry(&self, fingerprint: &[u8]) -> Entry<'_> {
        Entry { state: self, parameters: hex::encode(fingerprint) }
    }
}

/// The counters number session queries; each is a file.
impl DurableCounters for StateDir {
    fn start(&self, session: &[u8; 16]) -> io::Result<()> {
        self.store_next_number(session, 0)
    }

    fn take(&self, session: &[u8; 16], count: u32) -> io::Result<u32> {
        let lock = OpenOptions::new().create(true).append(true).open(self.path.join("numbers.lock"))?;
        lock.lock()?;
        let path = self.numbers_path(session);
        let first = match read_if_there(&path)?.as_deref().map(<[u8; 4]>::try_from) {
            None => {
                let lost = "is lost, so numbers could be used twice; delete its directory to make a new secret key";
                return Err(io::Error::other(format!("{} {lost}", path.display())));
            }
            Some(Ok(next)) => u32::from_le_bytes(next),
            Some(Err(_)) => {
                return Err(io::Error::other(format!("{} is damaged; delete its directory", path.display())));
            }
        };
        let spent = || io::Error::other(format!("all are used; delete {} to make new keys", self.path.display()));
        let next = first.checked_add(count).ok_or_else(spent)?;
        self.store_next_number(session, next)?;
        Ok(first)
    }
}

/// The files of one parameter set.
pub(crate) struct Entry<'a> {
    state: &'a StateDir,
    parameters: String,
}

/// Record of the bundle at the service: its id, and a hash of what it was made from.
pub(crate) struct Uploaded {
    pub(crate) id: String,
    made_from: [u8; 2 * TAG],
}

impl Uploaded {
    /// The record of a bundle made from this secret for this description.
    pub(crate) fn new(id: &str, secret: &[u8], description: &[u8]) -> Self {
        Uploaded { id: id.into(), made_from: origin(secret, description) }
    }

    /// Whether the bundle was made from exactly this secret and this description.
    pub(crate) fn fits(&self, secret: &[u8], description: &[u8]) -> bool {
        self.made_from == origin(secret, description)
    }
}

impl Entry<'_> {
    pub(crate) fn secret(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        Ok(read_if_there(&self.file("secret", "key"))?.map(Zeroizing::new))
    }

    pub(crate) fn store_secret(&self, secret: &[u8]) -> io::Result<()> {
        replace_file(&self.file("secret", "key"), secret, Access::Owner)
    }

    pub(crate) fn uploaded(&self) -> io::Result<Option<Uploaded>> {
        let Some(bytes) = read_if_there(&self.file("upload", "id"))? else { return Ok(None) };
        let Some((made_from, id)) = bytes.split_first_chunk() else { return Ok(None) };
        Ok(Some(Uploaded { id: String::from_utf8_lossy(id).into_owned(), made_from: *made_from }))
    }

    pub(crate) fn store_uploaded(&self, uploaded: &Uploaded) -> io::Result<()> {
        let record = [&uploaded.made_from, uploaded.id.as_bytes()].concat();
        replace_file(&self.file("upload", "id"), &record, Access::Owner)
    }

    /// Path of the bundle while it is made and sent. The name depends on secret and description, so that a file that an
    /// earlier attempt left is used for nothing else.
    pub(crate) fn bundle(&self, secret: &[u8], description: &[u8]) -> PathBuf {
        self.state.path.join(format!("{}{}.keys", self.bundle_prefix(), hex::encode(origin(secret, description))))
    }

    /// Removes bundles that no upload needs any more: those of these parameters except `current`, and old ones of other
    /// parameters.
    pub(crate) fn remove_stale_bundles(&self, current: &Path) -> io::Result<()> {
        let own = self.bundle_prefix();
        for entry in fs::read_dir(&self.state.path)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path == current || !name.starts_with(BUNDLE) || !(name.ends_with(".keys") || name.ends_with(".part")) {
                continue;
            }
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if name.starts_with(&own) || age > STALE {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn bundle_prefix(&self) -> String {
        format!("{BUNDLE}{}-", self.parameters)
    }

    fn file(&self, what: &str, ending: &str) -> PathBuf {
        self.state.path.join(format!("{what}-{}.{ending}", self.parameters))
    }
}

/// Hash that identifies a secret and a description without revealing them.
fn origin(secret: &[u8], description: &[u8]) -> [u8; 2 * TAG] {
    let mut hasher =
        blake3::Hasher::new_derive_key("unspoken client state 2026: a secret key and what it was used for");
    hasher.update(&(secret.len() as u64).to_le_bytes());
    hasher.update(secret);
    hasher.update(description);
    *hasher.finalize().as_bytes()
}

/// Whether a path is that of a temporary file of a secret, an upload or a description.
fn is_own_temporary(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let text = name.to_string_lossy();
    // ".target.random.tmp".
    let Some(target) = text.strip_prefix('.').and_then(|rest| rest.rsplitn(3, '.').nth(2)) else { return false };
    let own = [("secret-", ".key"), ("upload-", ".id"), (DESCRIPTION, "")];
    own.iter().any(|(start, end)| target.starts_with(start) && target.ends_with(end))
        && is_temporary_of(Path::new(target), name)
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_taken_twice() {
        let root = std::env::temp_dir().join(format!("unspoken-numbers-{}", std::process::id()));
        let state = StateDir::open(&root, "http://127.0.0.1:1", "pir/codes").unwrap();
        let secret = [7; 16];
        assert!(state.take(&secret, 3).unwrap_err().to_string().contains("is lost"));
        state.start(&secret).unwrap();
        assert_eq!(state.take(&secret, 3).unwrap(), 0);
        assert_eq!(state.clone().take(&secret, 1).unwrap(), 3);
        assert!(state.take(&secret, u32::MAX).unwrap_err().to_string().contains("new keys"));
        assert_eq!(state.take(&secret, u32::MAX - 4).unwrap(), 4);
        assert!(state.take(&secret, 1).is_err());
        assert!(state.take(&[8; 16], 1).is_err());
        fs::write(state.numbers_path(&secret), b"abc").unwrap();
        assert!(state.take(&secret, 1).unwrap_err().to_string().contains("damaged"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn temporary_files_of_a_crash_are_removed_unless_they_are_in_use() {
        let root = std::env::temp_dir().join(format!("unspoken-temporaries-{}", std::process::id()));
        let open = || StateDir::open(&root, "http://127.0.0.1:1", "classify/spam").unwrap();
        let state = open();
        let left = [".secret-07.key.a1B2c3.tmp", ".upload-07.id.a1B2c3.tmp", ".description.a1B2c3.tmp"];
        let kept = [".numbers-07.next.a1B2c3.tmp", ".secret-07.key.tmp", "secret-07.key", ".other.a1B2c3.tmp"];
        let path = |name: &str| state.path().join(name);
        left.iter().chain(&kept).for_each(|name| fs::write(path(name), b"key").unwrap());
        let lock = state.lock(&Cancel::new()).unwrap();
        open();
        assert!(left.iter().chain(&kept).all(|name| path(name).exists()), "another process writes");
        drop(lock);
        open();
        assert!(left.iter().all(|name| !path(name).exists()) && kept.iter().all(|name| path(name).exists()));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_record_fits_only_what_it_was_made_from() {
        let root = std::env::temp_dir().join(format!("unspoken-state-{}", std::process::id()));
        let state = StateDir::open(&root, "http://127.0.0.1:1/", "classify/spam").unwrap();
        assert_eq!(state.path(), StateDir::open(&root, "http://127.0.0.1:1", "classify/spam").unwrap().path());
        let entry = state.entry(&[7; 16]);
        assert!(entry.secret().unwrap().is_none());
        entry.store_secret(b"secret").unwrap();
        entry.store_uploaded(&Uploaded::new("id", b"secret", b"description")).unwrap();
        let found = entry.uploaded().unwrap().unwrap();
        assert_eq!(found.id, "id");
        assert!(found.fits(b"secret", b"description"));
        assert!(!found.fits(b"secret", b"another"));
        assert!(!found.fits(b"another", b"description"));
        assert!(state.entry(&[8; 16]).secret().unwrap().is_none());
        assert_ne!(entry.bundle(b"a", b"b"), entry.bundle(b"ab", b""));
        let (current, other) = (entry.bundle(b"secret", b"description"), state.entry(&[8; 16]).bundle(b"a", b"b"));
        let stale = [entry.bundle(b"earlier", b"description"), entry.bundle(b"earlier", b"").with_extension("part")];
        for path in [&current, &other, &stale[0], &stale[1]] {
            fs::write(path, b"keys").unwrap();
        }
        entry.remove_stale_bundles(&current).unwrap();
        assert!(current.exists() && other.exists() && stale.iter().all(|path| !path.exists()));
        let long_ago = std::time::SystemTime::now() - 2 * STALE;
        File::options().append(true).open(&other).unwrap().set_modified(long_ago).unwrap();
        entry.remove_stale_bundles(&current).unwrap();
        assert!(current.exists() && !other.exists());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(state.path()), 0o700);
            assert_eq!(mode(&entry.file("secret", "key")), 0o600);
        }
        fs::remove_dir_all(root).unwrap();
    }
}
