//! Key bundles on disk.
//!
//! ```text
//! data_dir/lock              held while a service runs
//! data_dir/uploads/ID/       meta.json, data: incomplete
//! data_dir/keys/ID/          meta.json, data: complete, checked, synced
//! data_dir/trash/ID/         being deleted
//! ```
//!
//! A bundle becomes usable by one rename of its directory from `uploads` to `keys`, after its bytes were checked and
//! synced. Whenever the process dies, a bundle is therefore either finished or an upload that resumes or expires. One
//! rename to `trash` deletes it.
//!
//! To *delete* a bundle is to take it from the index and from the disk: because its client asks for it, it has expired,
//! its upload was rejected, or another bundle needs the room. A request that holds a deleted bundle sees that it is
//! *gone*. To *evict* keys is to take them from the memory only ([`KeyCache`](crate::memory::KeyCache)); the next
//! request loads them from the disk again. Whoever deletes a bundle whose keys may be loaded evicts them, too.
//!
//! A full disk is a 507; the upload keeps its bytes. Only one service may use a `data_dir` at a time. It must belong to
//! the user of the service, also if that is root.
//!
//! `meta.json` names the key set (`KeyLoader::key_set`). Every application of that key set accepts the bundle;
//! `KeyLoader::check_keys` decides whether it has all keys that the application needs, also when another application
//! loaded them. A bundle that is deleted while a question loads it does not exist for that question; the disk has not
//! failed.

mod bundle;
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

pub(crate) use bundle::{Bundle, KeyId, StoreError, StorePolicy, WriteGuard};
pub(crate) use holder::Holder;
pub(crate) use index::ENTRY_BYTES;
pub(crate) use meta::Meta;
use unspoken_protocol::KeySetId;
use unspoken_wire::CheckedDeclaration;
use unspoken_wire::v1::{KeyState, KeyStatus};

use crate::auth::ClientName;
use crate::disk::Disk;
use crate::store::bundle::State;
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
    pub(crate) bundle: Arc<Bundle>,
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
    pub(crate) fn find(&self, owner: &ClientName, id: KeyId) -> Result<Arc<Bundle>, StoreError> {
        let bundle = self.index().get(id).cloned().ok_or(StoreError::NotFound)?;
        let expired = bundle.expires(&self.policy) <= SystemTime::now();
        if bundle.meta.owner != owner.as_str() || expired || bundle.progress().state == State::Gone {
            return Err(StoreError::NotFound);
        }
        Ok(bundle)
    }

    /// All bundles of one token that have not expired.
    pub(crate) fn of_owner(&self, owner: &ClientName) -> Vec<KeyStatus> {
        let (index, now) = (self.index(), SystemTime::now());
        let own = index.of(&Holder::new(owner.clone(), None)).filter(|bundle| bundle.expires(&self.policy) > now);
        own.map(|bundle| self.status(bundle)).collect()
    }

    pub(crate) fn status(&self, bundle: &Bundle) -> KeyStatus {
        let expires = bundle.expires(&self.policy);
        let progress = *bundle.progress();
        let state = match progress.state {
            State::Uploading => KeyState::Uploading,
            State::Ready => KeyState::Ready,
            State::Gone => KeyState::Unspecified,
        };
        KeyStatus {
            id: bundle.id.to_string(),
            state: state.into(),
            application: bundle.meta.application.clone(),
            length: bundle.meta.length,
            offset: progress.offset,
            expires: humantime::format_rfc3339_seconds(expires).to_string(),
        }
    }

    /// Starts an upload, or finds the bundle with the same content. If there is no room, deletes other bundles and
    /// passes each to `deleted`. Blocks.
    pub(crate) fn declare(
        &self,
        holder: &Holder,
        declaration: CheckedDeclaration,
        key_set: KeySetId,
        deleted: &mut dyn FnMut(KeyId),
    ) -> Result<Declared, StoreError> {
        let now = SystemTime::now();
        let meta = Meta::new(holder.owner(), declaration, key_set, now);
        let (bundle, guard) = loop {
            let mut index = self.index();
            let live = |bundle: &&Arc<Bundle>| !bundle.is_gone() && bundle.expires(&self.policy) > now;
            if let Some(same) = index.same_bundle(&meta).filter(live) {
                return Ok(Declared { bundle: same.clone(), is_new: false });
            }
            match self.room_for_new(&index, &meta, holder, now)? {
                Room::Free => {
                    let id = KeyId::random()?;
                    let bundle = Arc::new(Bundle::new(id, meta, holder.clone(), State::Uploading, 0, now));
                    // Held until the files are created; no other request can hold it yet.
                    let guard = bundle.writer.clone().try_lock_owned();
                    index.insert(bundle.clone());
                    break (bundle, guard);
                }
                Room::Without(victim) => self.delete_for_room(index, &victim, deleted)?,
            }
        };
        if let Err(error) = self.create_upload(&bundle) {
            self.unlist(&bundle);
            let _ = self.disk.remove_dir(&self.upload_dir(bundle.id));
            return Err(self.io_failed(error));
        }
        drop(guard);
        Ok(Declared { bundle, is_new: true })
    }

    /// Makes room for bytes of an upload that have arrived.
    fn make_room(&self, bundle: &Bundle, bytes: u64, deleted: &mut dyn FnMut(KeyId)) -> Result<(), StoreError> {
        loop {
            let index = self.index();
            let room =
                self.room_for(&index, &bundle.meta, &bundle.holder, Need::arrived(bundle, bytes), SystemTime::now());
            // There was room when the bundle was declared.
            match room.map_err(|_| StoreError::RoomTaken)? {
                Room::Free => return Ok(()),
                Room::Without(victim) => self.delete_for_room(index, &victim, deleted)?,
            }
        }
    }

    /// Deletes a bundle that no request has: from here on none finds it.
    fn delete_for_room(
        &self,
        index: MutexGuard<'_, Index>,
        victim: &Bundle,
        deleted: &mut dyn FnMut(KeyId),
    ) -> Result<(), StoreError> {
        let state = victim.begin_delete()?;
        drop(index);
        self.finish_delete(victim, state)?;
        tracing::info!(key = %victim.id, application = victim.meta.application, "bundle deleted for another one");
        deleted(victim.id);
        Ok(())
    }

    fn create_upload(&self, bundle: &Bundle) -> io::Result<()> {
        let dir = self.upload_dir(bundle.id);
        self.disk.create_dir(&dir)?;
        self.disk.write_at(&dir.join(DATA), 0, &[])?;
        self.disk.replace(&dir.join(META), &bundle.meta.to_json()?)?;
        self.disk.sync(&self.root.join("uploads"))
    }

    /// Checks that a chunk of `length` bytes (if known) may start at `offset`.
    pub(crate) fn check_chunk(&self, bundle: &Bundle, offset: u64, length: Option<u64>) -> Result<(), StoreError> {
        let progress = bundle.expect_uploading()?;
        if offset != progress.offset {
            return Err(StoreError::OffsetMismatch { found: offset, have: progress.offset });
        }
        let end = offset.saturating_add(length.unwrap_or(0));
        if end > bundle.meta.length {
            return Err(StoreError::TooLong { end, length: bundle.meta.length });
        }
        Ok(())
    }

    /// Appends bytes to an upload. If there is no room, deletes other bundles as [`Store::declare`] does. The caller
    /// holds the bundle's [`WriteGuard`]. On an error the upload keeps the bytes it had. Blocks.
    pub(crate) fn append(
        &self,
        bundle: &Bundle,
        bytes: &[u8],
        deleted: &mut dyn FnMut(KeyId),
    ) -> Result<(), StoreError> {
        let offset = bundle.expect_uploading()?.offset;
        self.check_chunk(bundle, offset, Some(bytes.len() as u64))?;
        self.make_room(bundle, bytes.len() as u64, deleted)?;
        let path = self.upload_dir(bundle.id).join(DATA);
        if let Err(error) = self.disk.write_at(&path, offset, bytes) {
            // Bytes written in part are cut off, or overwritten later.
            let _ = self.disk.truncate(&path, offset);
            return Err(self.io_failed(error));
        }
        let mut index = self.index();
        let mut progress = bundle.progress();
        progress.offset = offset + bytes.len() as u64;
        index.arrived(bundle, offset, progress.offset);
        progress.touched = SystemTime::now();
        progress.used = progress.touched;
        Ok(())
    }

    /// The first `count` bytes of a bundle, or all if it has fewer. Blocks.
    pub(crate) fn read_header(&self, bundle: &Bundle, count: usize) -> Result<Vec<u8>, StoreError> {
        use io::Read;
        let count = (count as u64).min(bundle.offset());
        let mut header = Vec::new();
        self.open(bundle)?.take(count).read_to_end(&mut header)?;
        Ok(header)
    }

    /// Opens a bundle's bytes. Blocks.
    pub(crate) fn open(&self, bundle: &Bundle) -> Result<Box<dyn io::Read + Send>, StoreError> {
        let progress = *bundle.progress();
        let dir = match progress.state {
            State::Uploading => self.upload_dir(bundle.id),
            State::Ready => self.key_dir(bundle.id),
            State::Gone => return Err(StoreError::NotFound),
        };
        match self.disk.open(&dir.join(DATA)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !bundle.is_gone() {
                    // Not deleted by this service: the client has to upload it again.
                    tracing::error!(key = %bundle.id, dir = %dir.display(), "the bytes of a bundle are gone");
                    self.unlist(bundle);
                }
                Err(StoreError::NotFound)
            }
            other => other.map_err(|error| self.io_failed(error)),
        }
    }

    /// Makes a complete, checked upload a finished bundle. The caller holds the bundle's [`WriteGuard`]. Blocks.
    pub(crate) fn finish(&self, bundle: &Bundle) -> Result<(), StoreError> {
        let progress = bundle.expect_uploading()?;
        if progress.offset != bundle.meta.length {
            return Err(incomplete(progress.offset, bundle.meta.length));
        }
        let now = SystemTime::now();
        self.commit(bundle, now).map_err(|error| self.io_failed(error))?;
        let mut progress = bundle.progress();
        progress.state = State::Ready;
        (progress.touched, progress.used) = (now, now);
        Ok(())
    }

    fn commit(&self, bundle: &Bundle, now: SystemTime) -> io::Result<()> {
        let (upload, key) = (self.upload_dir(bundle.id), self.key_dir(bundle.id));
        self.disk.sync(&upload.join(DATA))?;
        self.disk.replace(&upload.join(META), &bundle.meta.finished(now).to_json()?)?;
        self.disk.rename(&upload, &key)?;
        let synced = self.disk.sync(&self.root.join("keys")).and_then(|()| self.disk.sync(&self.root.join("uploads")));
        if synced.is_err() {
            self.disk.rename(&key, &upload)?;
        }
        synced
    }

    /// Deletes a bundle. The caller holds its [`WriteGuard`]. Blocks.
    pub(crate) fn delete(&self, bundle: &Bundle) -> Result<(), StoreError> {
        let state = bundle.begin_delete()?;
        self.finish_delete(bundle, state)
    }

    /// Deletes a bundle that no request finds any more; `state` is its state before. Blocks.
    fn finish_delete(&self, bundle: &Bundle, state: State) -> Result<(), StoreError> {
        let dir = match state {
            State::Uploading => self.upload_dir(bundle.id),
            State::Ready => self.key_dir(bundle.id),
            State::Gone => return Err(StoreError::NotFound),
        };
        let trash = self.root.join("trash").join(bundle.id.to_string());
        match self.disk.rename(&dir, &trash) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                bundle.progress().state = state;
                return Err(self.io_failed(error));
            }
            _ => self.unlist(bundle),
        }
        // No request can find it any more; the next start of the service empties the trash.
        if let Err(error) = self.disk.remove_dir(&trash) {
            tracing::warn!(key = %bundle.id, %error, "deleted bundle is still in the trash");
        }
        Ok(())
    }

    /// Deletes expired bundles that no request is writing. Returns their ids. Blocks.
    pub(crate) fn sweep(&self) -> Vec<KeyId> {
        let now = SystemTime::now();
        let expired: Vec<_> = {
            let index = self.index();
            index.all().filter(|bundle| bundle.expires(&self.policy) <= now).cloned().collect()
        };
        let mut deleted = Vec::new();
        for bundle in expired {
            let Ok(_guard) = bundle.writer.clone().try_lock_owned() else { continue };
            match self.delete(&bundle) {
                Ok(()) => deleted.push(bundle.id),
                Err(error) => tracing::error!(key = %bundle.id, %error, "cannot delete bundle"),
            }
        }
        deleted
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
        for bundle in self.index().all().filter(|bundle| bundle.expires(&self.policy) > now) {
            let progress = *bundle.progress();
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

    /// Lets no request find a bundle any more. Its files stay.
    fn unlist(&self, bundle: &Bundle) {
        bundle.progress().state = State::Gone;
        self.index().remove(bundle);
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
