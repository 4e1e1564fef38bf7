//! Opening a store, and recovering after a process died.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use unspoken_files::{check_own_directory, open_lock_file};

use super::{Bundle, DATA, Holder, KeyId, META, Meta, Store, StorePolicy};
use crate::disk::Disk;
use crate::store::bundle::State;

/// Longest `meta.json` that is read.
const MAX_META_BYTES: u64 = 64 << 10;

impl Store {
    /// Opens the store in `root`, which is made if missing. Uploads resume where their bytes end. Invalid uploads are
    /// deleted. Invalid finished bundles are not loaded; they are left on disk and logged. Blocks.
    pub(crate) fn open_at(disk: Arc<dyn Disk>, root: &Path, policy: StorePolicy) -> io::Result<Self> {
        disk.create_dir(root)?;
        check_own_directory(root)?;
        let lock = lock(&root.join("lock"))?;
        disk.remove_dir(&root.join("trash"))?;
        for name in ["uploads", "keys", "trash"] {
            disk.create_dir(&root.join(name))?;
        }
        let mut store = Self {
            disk,
            root: root.to_owned(),
            policy,
            index: Mutex::default(),
            healthy: AtomicBool::new(true),
            _lock: lock,
        };
        store.recover_keys()?;
        store.recover_uploads()?;
        store.resolve_policy()?;
        Ok(store)
    }

    fn recover_keys(&self) -> io::Result<()> {
        for dir in self.disk.list(&self.root.join("keys"))? {
            match self.recover_key(&dir) {
                Ok(bundle) => self.insert(bundle),
                Err(found) => {
                    tracing::error!(dir = %dir.display(), found, "finished bundle is unusable");
                }
            }
        }
        Ok(())
    }

    fn recover_key(&self, dir: &Path) -> Result<Bundle, String> {
        let (id, meta) = self.read_meta(dir)?;
        let holder = Holder::stored(&meta);
        let finished = meta.finished_at().ok_or("meta.json says it is not finished")?;
        let length = self.data_length(dir)?;
        if length != meta.length {
            return Err(format!("{length} bytes, needed {}", meta.length));
        }
        Ok(Bundle::new(id, meta, holder, State::Ready, length, finished))
    }

    fn recover_uploads(&self) -> io::Result<()> {
        for dir in self.disk.list(&self.root.join("uploads"))? {
            match self.recover_upload(&dir) {
                Ok(bundle) => {
                    tracing::info!(key = %bundle.id, offset = bundle.offset(), "upload can resume");
                    self.insert(bundle);
                }
                Err(found) => {
                    tracing::warn!(dir = %dir.display(), found, "unusable upload is deleted");
                    self.disk.remove_dir(&dir)?;
                }
            }
        }
        Ok(())
    }

    fn recover_upload(&self, dir: &Path) -> Result<Bundle, String> {
        let (id, meta) = self.read_meta(dir)?;
        let holder = Holder::stored(&meta);
        let length = self.data_length(dir)?;
        if length > meta.length {
            return Err(format!("{length} bytes, at most {} were declared", meta.length));
        }
        Ok(Bundle::new(id, meta, holder, State::Uploading, length, SystemTime::now()))
    }

    fn read_meta(&self, dir: &Path) -> Result<(KeyId, Meta), String> {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = KeyId::parse(name).ok_or("the directory is not named by a key id")?;
        let mut bytes = Vec::new();
        let file = self.disk.open(&dir.join(META)).map_err(|error| error.to_string())?;
        file.take(MAX_META_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok((id, Meta::from_json(&bytes).map_err(|error| format!("meta.json: {error}"))?))
    }

    fn data_length(&self, dir: &Path) -> Result<u64, String> {
        self.disk.length(&dir.join(DATA)).map_err(|error| format!("data: {error}"))
    }

    fn insert(&self, bundle: Bundle) {
        self.index().insert(Arc::new(bundle));
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = open_lock_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another service uses this directory; stop it or choose another data_dir",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
