//! State of a client on disk between runs: its secret keys, and the ids of the bundles at the service.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unspoken_files::{
    Access, check_own_directory, create_private_directory, is_temporary_of, open_lock_file, replace_file,
};
use unspoken_protocol::{DurableCounters, KeySetId};
use unspoken_ring::derive_bytes;
use zeroize::Zeroizing;

use crate::transport::Cancel;

/// How often a waiting process checks whether the lock is free.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Bytes of a hash in a file name.
const TAG: usize = 16;

/// Prefix of the names of bundle files.
const BUNDLE: &str = "bundle-";

/// Prefix of the names of files with a secret key.
const SECRET: &str = "secret-";

/// Prefix of the names of records of uploaded bundles.
const UPLOAD: &str = "upload-";

/// Prefix of the names of files with the last description of an application.
const DESCRIPTION: &str = "description-";

/// Digits of a bundle's id.
const KEY_ID_DIGITS: usize = 32;

/// Age above which a bundle of other parameters is removed, because its upload is not resumed any more.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Age above which a temporary file is removed: the process that wrote it has ended.
const TEMPORARY: Duration = Duration::from_secs(600);

/// A private directory for one client of one service, as one of its applications uses it.
///
/// For each key set there is a file `secret-*.key`, which all applications of the service share: anyone who reads it
/// can decrypt every query. Only its owner may access the directory, and one process at a time makes keys of a key set.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Distinguishes the files of this application.
    application: String,
}

impl StateDir {
    /// Opens or makes the directory of a service below `root`, for an application of the service.
    ///
    /// # Errors
    /// If it cannot be made, or if it or `root` belongs to another user.
    pub fn open(root: &Path, url: &str, application: &str) -> io::Result<Self> {
        let path = service_directory(root, url);
        create_private_directory(&path)?;
        // Whoever may rename the directory could replace it.
        check_own_directory(root)?;
        let state = Self { path, application: tag(application.as_bytes()) };
        state.remove_temporaries()?;
        Ok(state)
    }

    /// The ids of the bundles that a client with a directory below `root` has at a service, as far as it knows.
    ///
    /// # Errors
    /// If the directory cannot be read. A missing one is no error.
    pub fn uploaded_keys(root: &Path, url: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(service_directory(root, url)) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let records = entries.iter().filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(UPLOAD) && name.ends_with(".id")
        });
        let read = records.map(|record| Ok(read_if_there(&record.path())?.and_then(|bytes| Uploaded::read(&bytes))));
        let read = read.collect::<io::Result<Vec<_>>>()?;
        let ids: BTreeSet<_> = read.into_iter().flatten().map(|uploaded| uploaded.id).collect();
        Ok(ids.into_iter().collect())
    }

    /// Removes temporary files that a crash left. Such a file may hold a secret key.
    fn remove_temporaries(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if !is_own_temporary(&entry.path()) {
                continue;
            }
            // A file that is gone was renamed by the process that wrote it.
            let age = |metadata: fs::Metadata| metadata.modified().ok()?.elapsed().ok();
            if entry.metadata().ok().and_then(age).is_some_and(|age| age > TEMPORARY) {
                remove_if_there(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last description of the application that a client with this state accepted.
    pub(crate) fn description(&self) -> io::Result<Option<Vec<u8>>> {
        read_if_there(&self.description_path())
    }

    pub(crate) fn store_description(&self, description: &[u8]) -> io::Result<()> {
        replace_file(&self.description_path(), description, Access::Owner)
    }

    fn description_path(&self) -> PathBuf {
        self.path.join(format!("{DESCRIPTION}{}", self.application))
    }

    fn store_next_number(&self, session: &[u8], next: u32) -> io::Result<()> {
        // Content and name are durable before the number is used.
        replace_file(&self.numbers_path(session), &next.to_le_bytes(), Access::Owner)
    }

    fn numbers_path(&self, session: &[u8]) -> PathBuf {
        self.path.join(format!("numbers-{}.next", hex::encode(session)))
    }

    /// The files of a key set.
    pub(crate) fn key_set(&self, keys: KeySetId) -> KeySetFiles<'_> {
        KeySetFiles { state: self, keys: keys.to_string() }
    }
}

/// The counters number session queries; each is a file.
impl DurableCounters for StateDir {
    fn start(&self, session: &[u8; 16]) -> io::Result<()> {
        self.store_next_number(session, 0)
    }

    fn take(&self, session: &[u8; 16], count: u32) -> io::Result<u32> {
        let lock = open_lock_file(&self.path.join("numbers.lock"))?;
        lock.lock()?;
        let _held = HeldLock(lock);
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

/// A locked file, which is unlocked when this is dropped. Closing the file would not do: a process that was forked
/// meanwhile shares the lock and would hold it until it ends, even against itself.
#[derive(Debug)]
pub(crate) struct HeldLock(File);

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A file that cannot be unlocked is unlocked when all processes have closed it.
        let _ = self.0.unlock();
    }
}

/// The files of one key set.
pub(crate) struct KeySetFiles<'a> {
    state: &'a StateDir,
    keys: String,
}

/// Record of the bundle at the service: the id, the list of its keys, and a hash of their secret.
#[derive(Clone)]
pub(crate) struct Uploaded {
    pub(crate) id: String,
    /// As described by the half that made them.
    pub(crate) contents: Vec<u8>,
    made_from: [u8; 2 * TAG],
}

impl Uploaded {
    /// The record of a bundle of this secret.
    pub(crate) fn new(id: &str, secret: &[u8], contents: &[u8]) -> Self {
        Uploaded { id: id.into(), contents: contents.into(), made_from: origin(secret, &[]) }
    }

    /// Whether the bundle was made from exactly this secret.
    pub(crate) fn is_of(&self, secret: &[u8]) -> bool {
        self.made_from == origin(secret, &[])
    }

    /// The hash, the id, and the contents, each but the last of a fixed length.
    fn to_bytes(&self) -> Vec<u8> {
        [&self.made_from, self.id.as_bytes(), &self.contents].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (made_from, rest) = bytes.split_first_chunk()?;
        let (id, contents) = rest.split_at_checked(KEY_ID_DIGITS)?;
        let id = String::from_utf8(id.to_vec()).ok()?;
        Some(Uploaded { id, contents: contents.into(), made_from: *made_from })
    }
}

impl KeySetFiles<'_> {
    pub(crate) fn secret(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        Ok(read_if_there(&self.secret_path())?.map(Zeroizing::new))
    }

    /// The file with the secret key.
    pub(crate) fn secret_path(&self) -> PathBuf {
        self.file(SECRET, "key")
    }

    pub(crate) fn store_secret(&self, secret: &[u8]) -> io::Result<()> {
        replace_file(&self.secret_path(), secret, Access::Owner)
    }

    /// The bundles with keys of this set, each once: first the bundle of this application, then the bundles of other
    /// applications.
    pub(crate) fn uploaded(&self) -> io::Result<Vec<Uploaded>> {
        let mut found: Vec<Uploaded> = Vec::new();
        for path in [self.own_record()].into_iter().chain(self.other_records()?) {
            let uploaded = read_if_there(&path)?.and_then(|bytes| Uploaded::read(&bytes));
            found.extend(uploaded.filter(|new| found.iter().all(|known| known.id != new.id)));
        }
        Ok(found)
    }

    /// Records the bundle that this application uses from now on.
    pub(crate) fn store_uploaded(&self, uploaded: &Uploaded) -> io::Result<()> {
        replace_file(&self.own_record(), &uploaded.to_bytes(), Access::Owner)
    }

    /// Records that the applications that use the bundle `old` use another from now on.
    pub(crate) fn replace_uploaded(&self, old: &str, new: &Uploaded) -> io::Result<()> {
        for path in self.other_records()? {
            let recorded = read_if_there(&path)?.and_then(|bytes| Uploaded::read(&bytes));
            if recorded.is_some_and(|recorded| recorded.id == old) {
                replace_file(&path, &new.to_bytes(), Access::Owner)?;
            }
        }
        Ok(())
    }

    fn own_record(&self) -> PathBuf {
        self.state.path.join(format!("{UPLOAD}{}-{}.id", self.keys, self.state.application))
    }

    /// The records of the other applications with this key set.
    fn other_records(&self) -> io::Result<Vec<PathBuf>> {
        let (start, own) = (format!("{UPLOAD}{}-", self.keys), self.own_record());
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.state.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&start) && name.ends_with(".id") && path != own {
                records.push(path);
            }
        }
        records.sort();
        Ok(records)
    }

    /// Waits until no other process makes keys of this set here; other processes wait until the returned file is
    /// dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] when cancelled, or if the file cannot be locked.
    pub(crate) fn lock(&self, cancel: &Cancel) -> io::Result<HeldLock> {
        let file = open_lock_file(&self.file("lock-", "lock"))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(HeldLock(file)),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return Err(io::ErrorKind::Interrupted.into()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Path of the bundle while it is made and sent. The name depends on the secret and the keys, so that a file left
    /// by an earlier attempt is used for nothing else.
    pub(crate) fn bundle(&self, secret: &[u8], contents: &[u8]) -> PathBuf {
        self.state.path.join(format!("{}{}.keys", self.bundle_prefix(), hex::encode(origin(secret, contents))))
    }

    /// Removes bundles that no upload needs any more: all bundles of this key set except `current`, and old bundles of
    /// other key sets.
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
        format!("{BUNDLE}{}-", self.keys)
    }

    fn file(&self, what: &str, ending: &str) -> PathBuf {
        self.state.path.join(format!("{what}{}.{ending}", self.keys))
    }
}

/// Hash that identifies a secret and the contents of a bundle, and reveals no secret. Nothing of the secret stays on
/// the stack.
fn origin(secret: &[u8], contents: &[u8]) -> [u8; 2 * TAG] {
    let mut hash = [0; 2 * TAG];
    let length = (secret.len() as u64).to_le_bytes();
    derive_bytes("unspoken client state 2026: a secret key and its bundle", &[&length, secret, contents], &mut hash);
    hash
}

/// Directory of a service below `root`.
fn service_directory(root: &Path, url: &str) -> PathBuf {
    root.join(format!("service-{}", tag(url.trim_end_matches('/').as_bytes())))
}

/// Short hash of a text, for the name of a file or directory.
fn tag(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..2 * TAG].to_owned()
}

/// Whether a path names a temporary file of a secret, an upload or a description.
fn is_own_temporary(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let text = name.to_string_lossy();
    // ".target.random.tmp".
    let Some(target) = text.strip_prefix('.').and_then(|rest| rest.rsplitn(3, '.').nth(2)) else { return false };
    let own = [(SECRET, ".key"), (UPLOAD, ".id"), (DESCRIPTION, "")];
    own.iter().any(|(start, end)| target.starts_with(start) && target.ends_with(end))
        && is_temporary_of(Path::new(target), name)
}

/// Removes a file. One that does not exist is removed.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path(), "http://127.0.0.1:1", "pir/codes").unwrap();
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
    }

    #[test]
    fn temporary_files_of_a_crash_are_removed_unless_they_may_be_in_use() {
        let root = tempfile::tempdir().unwrap();
        let open = || StateDir::open(root.path(), "http://127.0.0.1:1", "classify/spam").unwrap();
        let state = open();
        let left = [".secret-07.key.a1B2c3.tmp", ".upload-07.id.a1B2c3.tmp", ".description-07.a1B2c3.tmp"];
        let kept = [".numbers-07.next.a1B2c3.tmp", ".secret-07.key.tmp", "secret-07.key", ".other.a1B2c3.tmp"];
        let path = |name: &str| state.path().join(name);
        let there = |names: &[&str]| names.iter().all(|name| path(name).exists());
        left.iter().chain(&kept).for_each(|name| fs::write(path(name), b"key").unwrap());
        open();
        assert!(there(&left) && there(&kept), "another process may be writing");
        let long_ago = std::time::SystemTime::now() - 2 * TEMPORARY;
        for name in left.iter().chain(&kept) {
            File::options().append(true).open(path(name)).unwrap().set_modified(long_ago).unwrap();
        }
        open();
        assert!(left.iter().all(|name| !path(name).exists()) && there(&kept));
    }

    #[test]
    fn a_record_fits_only_the_secret_it_was_made_from() {
        let root = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|kind| KeySetId::new(kind, &[7; 16]));
        let open = |url, application| StateDir::open(root.path(), url, application).unwrap();
        let state = open("http://127.0.0.1:1/", "classify/spam");
        let files = state.key_set(one);
        assert!(files.secret().unwrap().is_none());
        files.store_secret(b"secret").unwrap();
        let id = "0123456789abcdef0123456789abcdef";
        files.store_uploaded(&Uploaded::new(id, b"secret", b"contents")).unwrap();
        // Another application of the service has the same keys, but another description.
        let other = open("http://127.0.0.1:1", "embed/words");
        assert_eq!(other.key_set(one).secret().unwrap().unwrap().as_slice(), b"secret");
        let found = other.key_set(one).uploaded().unwrap();
        assert_eq!((found.len(), found[0].id.as_str(), found[0].contents.as_slice()), (1, id, &b"contents"[..]));
        assert!(found[0].is_of(b"secret") && !found[0].is_of(b"another"));
        // Its own bundle comes first. Applications that use a replaced bundle use the new one.
        let [second, third] = ["1", "2"].map(|digit| digit.repeat(KEY_ID_DIGITS));
        other.key_set(one).store_uploaded(&Uploaded::new(&second, b"secret", b"more")).unwrap();
        let ids =
            |state: &StateDir| state.key_set(one).uploaded().unwrap().into_iter().map(|u| u.id).collect::<Vec<_>>();
        assert_eq!((ids(&state), ids(&other)), (vec![id.into(), second.clone()], vec![second.clone(), id.into()]));
        other.key_set(one).replace_uploaded(&third, &Uploaded::new(&second, b"secret", b"more")).unwrap();
        assert_eq!(ids(&state), [id, &second]);
        state.key_set(one).replace_uploaded(&second, &Uploaded::new(id, b"secret", b"contents")).unwrap();
        assert_eq!((ids(&state), ids(&other)), (vec![id.into()], vec![id.to_string()]));
        state.store_description(b"description").unwrap();
        assert!(other.description().unwrap().is_none());
        assert_eq!(state.description().unwrap().unwrap(), b"description");
        assert_eq!(StateDir::uploaded_keys(root.path(), "http://127.0.0.1:1").unwrap(), [id]);
        // Another service and another key set share nothing.
        assert!(open("http://127.0.0.1:2", "classify/spam").key_set(one).secret().unwrap().is_none());
        assert!(StateDir::uploaded_keys(root.path(), "http://127.0.0.1:2").unwrap().is_empty());
        assert!(StateDir::uploaded_keys(root.path(), "http://127.0.0.1:3").unwrap().is_empty());
        assert!(state.key_set(two).secret().unwrap().is_none());
        assert_ne!(files.bundle(b"a", b"b"), files.bundle(b"ab", b""));
        let (current, other) = (files.bundle(b"secret", b"contents"), state.key_set(two).bundle(b"a", b"b"));
        let stale = [files.bundle(b"earlier", b"contents"), files.bundle(b"earlier", b"").with_extension("part")];
        for path in [&current, &other, &stale[0], &stale[1]] {
            fs::write(path, b"keys").unwrap();
        }
        files.remove_stale_bundles(&current).unwrap();
        assert!(current.exists() && other.exists() && stale.iter().all(|path| !path.exists()));
        let long_ago = std::time::SystemTime::now() - 2 * STALE;
        File::options().append(true).open(&other).unwrap().set_modified(long_ago).unwrap();
        files.remove_stale_bundles(&current).unwrap();
        assert!(current.exists() && !other.exists());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(state.path()), 0o700);
            assert_eq!(mode(&files.file(SECRET, "key")), 0o600);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_another_user_prepared_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let open = || StateDir::open(root.path(), "http://127.0.0.1:1", "classify/spam");
        // A planted link in place of a lock would create or lock another file.
        let state = open().unwrap();
        let files = state.key_set(KeySetId::new("one", &[7; 16]));
        let target = root.path().join("target");
        symlink(&target, files.file("lock-", "lock")).unwrap();
        symlink(&target, state.path().join("numbers.lock")).unwrap();
        let error = files.lock(&Cancel::new()).unwrap_err().to_string();
        assert!(error.contains("found a symbolic link"), "{error}");
        state.start(&[1; 16]).unwrap();
        assert!(state.take(&[1; 16], 1).is_err());
        assert!(!target.exists());
        // A root to which others may write.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = open().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("every user may write"), "{error}");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        open().unwrap();
        // A root of another user: only root can prepare one here, and root is the user that must not use it.
        if std::os::unix::fs::chown(root.path(), Some(12345), None).is_ok() {
            let error = open().unwrap_err().to_string();
            assert!(error.contains("a directory of user 12345"), "{error}");
        }
    }
}
