//! Key bundles on disk.
//!
//! ```text
//! data_dir/lock              held while a service runs
//! data_dir/uploads/ID/       meta.json, data: incomplete
//! data_dir/keys/ID/          meta.json, data: complete, checked, synced
//! data_dir/trash/ID/         being removed
//! ```
//!
//! A bundle becomes usable by one rename of its directory from `uploads` to `keys`, after its bytes were checked and
//! synced. Whenever the process dies, a bundle is therefore either finished or an upload that resumes or expires. One
//! rename to `trash` deletes it.
//!
//! A full disk is a 507; the upload keeps its bytes. Only one service may use a `data_dir` at a time. It must belong to
//! the user of the service, also if that is root.
//!
//! `meta.json` names the key set (`KeyLoader::key_set`). Every application of that key set accepts the bundle;
//! `KeyLoader::check_keys` decides whether it has all keys that the application needs, also when another application
//! loaded them. A bundle that is deleted while a question loads it does not exist for that question; the disk has not
//! failed.

mod entry;
mod holder;
mod index;
mod meta;
mod need;
mod recover;
mod room;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

pub(crate) use entry::{Entry, KeyId, StoreError, StorePolicy, WriteGuard};
pub(crate) use holder::Holder;
pub(crate) use index::ENTRY_BYTES;
pub(crate) use meta::Meta;
use unspoken_protocol::KeySetId;
use unspoken_wire::CheckedDeclaration;
use unspoken_wire::v1::{KeyState, KeyStatus};

use crate::auth::ClientName;
use crate::disk::Disk;
use crate::store::entry::State;
use crate::store::index::Index;
use crate::store::need::{Need, Room};

const META: &str = "meta.json";
const DATA: &str = "data";

/// All key bundles of a service.
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    policy: StorePolicy,
    index: Mutex<Index>,
    healthy: AtomicBool,
    /// Held while the store is open; the operating system releases it when the process dies.
    _lock: std::fs::File,
}

/// A declared bundle.
pub(crate) struct Declared {
    pub(crate) entry: Arc<Entry>,
    /// Whether it was declared for the first time.
    pub(crate) is_new: bool,
}

/// Numbers for the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) uploading: usize,
    pub(crate) ready: usize,
    pub(crate) bytes: u64,
}

impl Store {
    /// The bundle with this id, if `owner` owns it and it has not expired.
    pub(crate) fn find(&self, owner: &ClientName, id: KeyId) -> Result<Arc<Entry>, StoreError> {
        let entry = self.index().get(id).cloned().ok_or(StoreError::NotFound)?;
        let expired = entry.expires(&self.policy) <= SystemTime::now();
        if entry.meta.owner != owner.as_str() || expired || entry.progress().state == State::Gone {
            return Err(StoreError::NotFound);
        }
        Ok(entry)
    }

    /// All bundles of one token that have not expired.
    pub(crate) fn of_owner(&self, owner: &ClientName) -> Vec<KeyStatus> {
        let (index, now) = (self.index(), SystemTime::now());
        let own = index.of(&Holder::new(owner.clone(), None)).filter(|entry| entry.expires(&self.policy) > now);
        own.map(|entry| self.status(entry)).collect()
    }

    pub(crate) fn status(&self, entry: &Entry) -> KeyStatus {
        let expires = entry.expires(&self.policy);
        let progress = *entry.progress();
        let state = match progress.state {
            State::Uploading => KeyState::Uploading,
            State::Ready => KeyState::Ready,
            State::Gone => KeyState::Unspecified,
        };
        KeyStatus {
            id: entry.id.to_string(),
            state: state.into(),
            application: entry.meta.application.clone(),
            length: entry.meta.length,
            offset: progress.offset,
            expires: humantime::format_rfc3339_seconds(expires).to_string(),
        }
    }

    /// Starts an upload, or finds the bundle with the same content. If there is no room, deletes other bundles and
    /// passes each to `gave_way`. Blocks.
    pub(crate) fn declare(
        &self,
        holder: &Holder,
        declaration: CheckedDeclaration,
        key_set: KeySetId,
        gave_way: &mut dyn FnMut(KeyId),
    ) -> Result<Declared, StoreError> {
        let now = SystemTime::now();
        let meta = Meta::new(holder.owner(), declaration, key_set, now);
        let (entry, guard) = loop {
            let mut index = self.index();
            let live = |entry: &&Arc<Entry>| !entry.is_gone() && entry.expires(&self.policy) > now;
            if let Some(same) = index.same_bundle(&meta).filter(live) {
                return Ok(Declared { entry: same.clone(), is_new: false });
            }
            match self.room_for_new(&index, &meta, holder, now)? {
                Room::Free => {
                    let id = KeyId::random()?;
                    let entry = Arc::new(Entry::new(id, meta, holder.clone(), State::Uploading, 0, now));
                    // Held until the files are created; no other request can hold it yet.
                    let guard = entry.writer.clone().try_lock_owned();
                    index.insert(entry.clone());
                    break (entry, guard);
                }
                Room::Without(victim) => self.give_way(index, &victim, gave_way)?,
            }
        };
        let made = self.create_upload(&entry);
        if let Err(error) = made {
            self.forget(&entry);
            let _ = self.disk.remove_dir(&self.upload_dir(entry.id));
            return Err(self.io_failed(error));
        }
        drop(guard);
        Ok(Declared { entry, is_new: true })
    }

    /// Makes room for bytes of an upload that have arrived.
    fn make_room(&self, entry: &Entry, bytes: u64, gave_way: &mut dyn FnMut(KeyId)) -> Result<(), StoreError> {
        loop {
            let index = self.index();
            let room =
                self.room_for(&index, &entry.meta, &entry.holder, Need::arrived(entry, bytes), SystemTime::now());
            // There was room when the bundle was declared.
            match room.map_err(|_| StoreError::RoomTaken)? {
                Room::Free => return Ok(()),
                Room::Without(victim) => self.give_way(index, &victim, gave_way)?,
            }
        }
    }

    /// Deletes a bundle that no request has: from here on none finds it.
    fn give_way(
        &self,
        index: MutexGuard<'_, Index>,
        victim: &Entry,
        gave_way: &mut dyn FnMut(KeyId),
    ) -> Result<(), StoreError> {
        let state = victim.take()?;
        drop(index);
        self.remove(victim, state)?;
        tracing::info!(key = %victim.id, application = victim.meta.application, "bundle gave way");
        gave_way(victim.id);
        Ok(())
    }

    fn create_upload(&self, entry: &Entry) -> io::Result<()> {
        let dir = self.upload_dir(entry.id);
        self.disk.create_dir(&dir)?;
        self.disk.write_at(&dir.join(DATA), 0, &[])?;
        self.disk.replace(&dir.join(META), &entry.meta.to_json()?)?;
        self.disk.sync(&self.root.join("uploads"))
    }

    /// Checks that a chunk of `length` bytes (if known) may start at `offset`.
    pub(crate) fn check_chunk(&self, entry: &Entry, offset: u64, length: Option<u64>) -> Result<(), StoreError> {
        let progress = entry.expect_uploading()?;
        if offset != progress.offset {
            return Err(StoreError::OffsetMismatch { found: offset, have: progress.offset });
        }
        let end = offset.saturating_add(length.unwrap_or(0));
        if end > entry.meta.length {
            return Err(StoreError::TooLong { end, length: entry.meta.length });
        }
        Ok(())
    }

    /// Appends bytes to an upload, for which other bundles give way as in [`Store::declare`]. The caller holds the
    /// bundle's [`WriteGuard`]. On an error the upload keeps the bytes it had. Blocks.
    pub(crate) fn append(
        &self,
        entry: &Entry,
        bytes: &[u8],
        gave_way: &mut dyn FnMut(KeyId),
    ) -> Result<(), StoreError> {
        let offset = entry.expect_uploading()?.offset;
        self.check_chunk(entry, offset, Some(bytes.len() as u64))?;
        self.make_room(entry, bytes.len() as u64, gave_way)?;
        let path = self.upload_dir(entry.id).join(DATA);
        if let Err(error) = self.disk.write_at(&path, offset, bytes) {
            // Bytes written in part are cut off, or overwritten later.
            let _ = self.disk.truncate(&path, offset);
            return Err(self.io_failed(error));
        }
        let mut index = self.index();
        let mut progress = entry.progress();
        progress.offset = offset + bytes.len() as u64;
        index.arrived(entry, offset, progress.offset);
        progress.touched = SystemTime::now();
        progress.used = progress.touched;
        Ok(())
    }

    /// The first `count` bytes of a bundle, or all if it has fewer. Blocks.
    pub(crate) fn read_header(&self, entry: &Entry, count: usize) -> Result<Vec<u8>, StoreError> {
        use io::Read;
        let count = (count as u64).min(entry.offset());
        let mut header = Vec::new();
        self.open(entry)?.take(count).read_to_end(&mut header)?;
        Ok(header)
    }

    /// Opens a bundle's bytes. Blocks.
    pub(crate) fn open(&self, entry: &Entry) -> Result<Box<dyn io::Read + Send>, StoreError> {
        let progress = *entry.progress();
        let dir = match progress.state {
            State::Uploading => self.upload_dir(entry.id),
            State::Ready => self.key_dir(entry.id),
            State::Gone => return Err(StoreError::NotFound),
        };
        match self.disk.open(&dir.join(DATA)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !entry.is_gone() {
                    // Not deleted by this service: the client has to upload it again.
                    tracing::error!(key = %entry.id, dir = %dir.display(), "the bytes of a bundle are gone");
                    self.forget(entry);
                }
                Err(StoreError::NotFound)
            }
            other => other.map_err(|error| self.io_failed(error)),
        }
    }

    /// Makes a complete, checked upload a finished bundle. The caller holds the bundle's [`WriteGuard`]. Blocks.
    pub(crate) fn finish(&self, entry: &Entry) -> Result<(), StoreError> {
        let progress = entry.expect_uploading()?;
        if progress.offset != entry.meta.length {
            return Err(incomplete(progress.offset, entry.meta.length));
        }
        let now = SystemTime::now();
        self.commit(entry, now).map_err(|error| self.io_failed(error))?;
        let mut progress = entry.progress();
        progress.state = State::Ready;
        (progress.touched, progress.used) = (now, now);
        Ok(())
    }

    fn commit(&self, entry: &Entry, now: SystemTime) -> io::Result<()> {
        let (upload, key) = (self.upload_dir(entry.id), self.key_dir(entry.id));
        self.disk.sync(&upload.join(DATA))?;
        self.disk.replace(&upload.join(META), &entry.meta.finished(now).to_json()?)?;
        self.disk.rename(&upload, &key)?;
        let synced = self.disk.sync(&self.root.join("keys")).and_then(|()| self.disk.sync(&self.root.join("uploads")));
        if synced.is_err() {
            self.disk.rename(&key, &upload)?;
        }
        synced
    }

    /// Removes a bundle. The caller holds its [`WriteGuard`]. Blocks.
    pub(crate) fn discard(&self, entry: &Entry) -> Result<(), StoreError> {
        let state = entry.take()?;
        self.remove(entry, state)
    }

    /// Removes a bundle that was taken; `state` is its state before. Blocks.
    fn remove(&self, entry: &Entry, state: State) -> Result<(), StoreError> {
        let dir = match state {
            State::Uploading => self.upload_dir(entry.id),
            State::Ready => self.key_dir(entry.id),
            State::Gone => return Err(StoreError::NotFound),
        };
        let trash = self.root.join("trash").join(entry.id.to_string());
        match self.disk.rename(&dir, &trash) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                entry.progress().state = state;
                return Err(self.io_failed(error));
            }
            _ => self.forget(entry),
        }
        // No request can find it any more; the next start of the service empties the trash.
        if let Err(error) = self.disk.remove_dir(&trash) {
            tracing::warn!(key = %entry.id, %error, "removed bundle is still in the trash");
        }
        Ok(())
    }

    /// Removes expired bundles that no request is writing. Returns the ids of the removed bundles. Blocks.
    pub(crate) fn sweep(&self) -> Vec<KeyId> {
        let now = SystemTime::now();
        let expired: Vec<_> = {
            let index = self.index();
            index.all().filter(|entry| entry.expires(&self.policy) <= now).cloned().collect()
        };
        let mut removed = Vec::new();
        for entry in expired {
            let Ok(_guard) = entry.writer.clone().try_lock_owned() else { continue };
            match self.discard(&entry) {
                Ok(()) => removed.push(entry.id),
                Err(error) => tracing::error!(key = %entry.id, %error, "cannot remove bundle"),
            }
        }
        removed
    }

    /// Writes and removes a small file to find out whether the disk works. A full disk counts as working, because
    /// answers do not need free space. Blocks.
    pub(crate) fn probe(&self) {
        let dir = self.root.join("probe");
        let written = self
            .disk
            .create_dir(&dir)
            .and_then(|()| self.disk.replace(&dir.join("probe"), b"probe"))
            .and_then(|()| self.disk.remove_dir(&dir));
        match written {
            Ok(()) => self.healthy.store(true, Ordering::Relaxed),
            Err(error) => drop(self.io_failed(error)),
        }
    }

    /// Whether the disk worked when it was last used.
    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(crate) fn totals(&self) -> Totals {
        let (mut totals, now) = (Totals::default(), SystemTime::now());
        for entry in self.index().all().filter(|entry| entry.expires(&self.policy) > now) {
            let progress = *entry.progress();
            totals.bytes += progress.offset;
            match progress.state {
                State::Ready => totals.ready += 1,
                State::Uploading => totals.uploading += 1,
                State::Gone => {}
            }
        }
        totals
    }

    fn io_failed(&self, error: io::Error) -> StoreError {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        tracing::error!(%error, "disk for keys");
        if !matches!(error.kind(), StorageFull | QuotaExceeded) && !crate::descriptors::ran_out(&error) {
            self.healthy.store(false, Ordering::Relaxed);
        }
        StoreError::Io(error)
    }

    fn forget(&self, entry: &Entry) {
        entry.progress().state = State::Gone;
        self.index().remove(entry);
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn upload_dir(&self, id: KeyId) -> PathBuf {
        bundle_dir(&self.root, "uploads", id)
    }

    fn key_dir(&self, id: KeyId) -> PathBuf {
        bundle_dir(&self.root, "keys", id)
    }
}

pub(crate) fn incomplete(offset: u64, length: u64) -> StoreError {
    StoreError::WrongState { found: format!("uploaded to byte {offset} of {length}"), needed: "all of it" }
}

fn bundle_dir(root: &Path, kind: &str, id: KeyId) -> PathBuf {
    root.join(kind).join(id.to_string())
}
