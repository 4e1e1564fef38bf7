//! The store: reads and changes a database of encrypted entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use memmap2::Mmap;
use unspoken_pir_scheme::encrypted::EncryptedView;
use unspoken_pir_scheme::{
    DatabaseVersion, EMPTY_VERSION, EncryptedEntry, PirParameters, Planes, SchemeError, Tables, Upload, UploadState,
    UploadedDatabase, VersionedDatabase, WRITE_KEY_BYTES,
};
use unspoken_ring::Device;

use super::declaration::{Declaration, MAX_JOURNAL_BYTES, hash_of, store_bytes};
use super::manifest::EncryptedManifest;
use super::staging::Staging;
use crate::cells::{map, open};
use crate::commits::Commits;
use crate::disk::Disk;
use crate::error::DatabaseError;
use crate::format::{ENCRYPTED_MANIFEST, HEADER_BYTES, MANIFEST, UPLOAD};
use crate::generation::read_sums;
use crate::journal::{Frame, Scope};
use crate::lock::Lock;
use crate::manifest::{Files, sweep};
use crate::progress::Monitor;
use crate::store::{CellWriter, check_space, write_cells, write_whole};
use crate::sums::{HASH_BYTES, chunks, hashes, verify};

/// One version of a database of encrypted entries. It does not change while it is held.
#[derive(Debug)]
pub struct EncryptedSnapshot {
    tables: Tables,
    version: u64,
    file: Arc<Mmap>,
    /// Entries that have changed since the file was written.
    changes: BTreeMap<u64, Arc<[u8]>>,
}

impl EncryptedSnapshot {
    fn entry(&self, number: u64) -> &[u8] {
        let length = EncryptedEntry::byte_len(&self.tables);
        let stored = || self.entries().chunks(length).nth(number as usize).unwrap_or_default();
        self.changes.get(&number).map_or_else(stored, AsRef::as_ref)
    }

    fn entries(&self) -> &[u8] {
        self.file.get(HEADER_BYTES as usize..).unwrap_or_default()
    }
}

impl DatabaseVersion for EncryptedSnapshot {
    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Encrypted(EncryptedView { entries: self.entries(), changes: &self.changes })
    }
}

/// A database of encrypted entries, open for answers and for uploads of its owner. One process has it open.
#[derive(Debug)]
pub struct EncryptedStore {
    tables: Tables,
    owner: blake3::Hash,
    current: RwLock<Arc<EncryptedSnapshot>>,
    writer: Mutex<StoreWriter>,
}

/// The part of a store that changes its files.
#[derive(Debug)]
struct StoreWriter {
    dir: PathBuf,
    disk: Disk,
    _lock: Lock,
    manifest: EncryptedManifest,
    commits: Commits,
    most_journal_bytes: u64,
    staging: Option<Staging>,
    /// Set while files change; stays set after an error, because the state on disk is then unknown.
    broken: bool,
}

impl EncryptedStore {
    /// Creates the files of a declared database in a directory that does not exist or is empty. Its entries are zeros,
    /// which no client can read, until the owner uploads others.
    ///
    /// # Errors
    /// If there is a database already, the declaration cannot be served, there is too little room, or writing fails.
    pub fn create(dir: impl AsRef<Path>, declaration: &Declaration, cancel: &AtomicBool) -> Result<(), DatabaseError> {
        Self::create_on(&Disk::default(), dir.as_ref(), declaration, cancel)
    }

    pub(crate) fn create_on(
        disk: &Disk,
        dir: &Path,
        declaration: &Declaration,
        cancel: &AtomicBool,
    ) -> Result<(), DatabaseError> {
        let tables = declaration.tables()?;
        if !dir.is_dir() {
            disk.create_dir(dir)?;
        }
        let lock = Lock::take(dir)?;
        // Only a database has one of these.
        if [MANIFEST, ENCRYPTED_MANIFEST].iter().any(|name| dir.join(name).exists()) {
            return Err(DatabaseError::Exists { dir: dir.into() });
        }
        // A crash may have left files without a manifest.
        sweep(disk, dir, 0)?;
        let manifest =
            write_generation(disk, dir, declaration, &tables, (1, EMPTY_VERSION), &mut |_, _| Ok(()), cancel)?;
        manifest.publish(disk, dir)?;
        drop(lock);
        disk.sync_dir(dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    }

    /// Opens the newest version and checks every byte of its files against their hashes. Uses all threads. Removes what
    /// a crash has left.
    ///
    /// # Errors
    /// If another process has it open, there is no database, it was written by another version of this program, or a
    /// file is damaged: the error names the file and the bytes.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Self::open_on(Disk::default(), dir.as_ref(), MAX_JOURNAL_BYTES)
    }

    pub(crate) fn open_on(disk: Disk, dir: &Path, most_journal_bytes: u64) -> Result<Self, DatabaseError> {
        EncryptedManifest::read(dir)?;
        let lock = Lock::take(dir)?;
        let manifest = EncryptedManifest::read(dir)?;
        sweep(&disk, dir, manifest.generation)?;
        let (tables, owner) = (manifest.declaration.tables()?, manifest.declaration.owner_hash()?);
        let file = Arc::new(open_entries(dir, &manifest, &tables)?);
        let (commits, frames) = Commits::open(&disk, dir, scope(&manifest, &tables))?;
        let changes = frames.into_iter().flat_map(|frame| frame.cells).map(|(number, entry)| (number, entry.into()));
        let current = EncryptedSnapshot { tables, version: commits.version(), file, changes: changes.collect() };
        let tables = current.tables.clone();
        let mut staging = match dir.join(UPLOAD).exists() {
            true => Some(Staging::open(&disk, dir, shape(&tables))?),
            false => None,
        };
        // A crash may have come between a commit and the removal of its chunks.
        if let Some(staging) = staging.as_mut().filter(|staging| staging.upload().base != current.version) {
            staging.clear()?;
        }
        let dir = dir.to_path_buf();
        let writer =
            StoreWriter { dir, disk, _lock: lock, manifest, commits, most_journal_bytes, staging, broken: false };
        Ok(EncryptedStore { tables, owner, current: RwLock::new(Arc::new(current)), writer: Mutex::new(writer) })
    }

    /// The same store, whose answers are computed on a device.
    ///
    /// # Errors
    /// If the device has too little memory or failed.
    pub fn on_device(self, device: &Device) -> Result<Self, DatabaseError> {
        let (tables, before) = (self.tables.clone().on_device(Some(device))?, self.snapshot());
        let (version, file, changes) = (before.version, Arc::clone(&before.file), before.changes.clone());
        let current = EncryptedSnapshot { tables: tables.clone(), version, file, changes };
        Ok(EncryptedStore { tables, current: RwLock::new(Arc::new(current)), ..self })
    }

    /// The current version. It does not change while it is held.
    pub fn snapshot(&self) -> Arc<EncryptedSnapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The part that changes files, unless another call has it. It must not be waited for: see [`UploadedDatabase`].
    fn writer(&self) -> Result<MutexGuard<'_, StoreWriter>, SchemeError> {
        match self.writer.try_lock() {
            Ok(writer) => Ok(writer),
            Err(TryLockError::Poisoned(writer)) => Ok(writer.into_inner()),
            Err(TryLockError::WouldBlock) => Err(SchemeError::Busy),
        }
    }

    /// Checks that entries can be stored: their numbers and their bytes.
    fn check_entries(&self, entries: &[(u64, &[u8])], last: Option<u64>) -> Result<(), SchemeError> {
        let (mut last, count) = (last, EncryptedEntry::count(&self.tables));
        // Then an upload has at most one chunk for each entry.
        if entries.is_empty() {
            return Err(SchemeError::upload("chunk of an upload", "no entries", "one at least"));
        }
        for &(number, bytes) in entries {
            if number >= count || last.is_some_and(|last| number <= last) {
                let after = last.map_or_else(String::new, |last| format!(" and above {last}"));
                return Err(SchemeError::upload("number of an entry", number, format!("one below {count}{after}")));
            }
            last = Some(number);
            EncryptedEntry::from_bytes(&self.tables, bytes)
                .map_err(|error| SchemeError::upload("entry", error, "one that was encrypted for this database"))?;
        }
        Ok(())
    }
}

impl StoreWriter {
    /// What clients may know of it.
    fn state(&self, version: u64) -> UploadState {
        let upload = self.staging.as_ref().map_or(Upload { id: 0, base: 0 }, Staging::upload);
        UploadState { version, upload, chunks: self.staging.as_ref().map_or(0, Staging::chunks) }
    }

    fn check_sound(&self) -> Result<(), SchemeError> {
        if self.broken { Err(DatabaseError::Broken.into()) } else { Ok(()) }
    }

    /// Commits the staged entries to the journal.
    fn append(&mut self, before: &EncryptedSnapshot) -> Result<EncryptedSnapshot, DatabaseError> {
        let cells = self.staging.as_ref().map_or_else(|| Ok(Vec::new()), Staging::read_all)?;
        let frame = Frame { version: before.version + 1, records: 0, cells };
        self.commits.append(&frame)?;
        let mut changes = before.changes.clone();
        changes.extend(frame.cells.into_iter().map(|(number, entry)| (number, entry.into())));
        let (tables, file) = (before.tables.clone(), Arc::clone(&before.file));
        Ok(EncryptedSnapshot { tables, version: frame.version, file, changes })
    }

    /// Writes the files of the next generation, with the staged entries in it. They are not current yet.
    fn write_next(&self, before: &EncryptedSnapshot, cancel: &AtomicBool) -> Result<EncryptedManifest, DatabaseError> {
        let numbers = (self.manifest.generation + 1, before.version + 1);
        let mut entry = |number: u64, to: &mut Vec<u8>| {
            let staged = self.staging.as_ref().map_or(Ok(false), |staging| staging.read(number, to))?;
            if !staged {
                to.extend_from_slice(before.entry(number));
            }
            Ok(())
        };
        let (disk, dir, declaration) = (&self.disk, self.dir.as_path(), &self.manifest.declaration);
        write_generation(disk, dir, declaration, &before.tables, numbers, &mut entry, cancel)
    }

    /// Makes the generation that was written the current one.
    fn publish(&mut self, manifest: EncryptedManifest, tables: &Tables) -> Result<EncryptedSnapshot, DatabaseError> {
        manifest.publish(&self.disk, &self.dir)?;
        (self.commits, _) = Commits::open(&self.disk, &self.dir, scope(&manifest, tables))?;
        let file = Arc::new(open_entries(&self.dir, &manifest, tables)?);
        let (tables, version) = (tables.clone(), manifest.version);
        sweep(&self.disk, &self.dir, manifest.generation)?;
        self.manifest = manifest;
        Ok(EncryptedSnapshot { tables, version, file, changes: BTreeMap::new() })
    }
}

impl VersionedDatabase for EncryptedStore {
    type Version = EncryptedSnapshot;

    fn parameters(&self) -> &PirParameters {
        self.tables.parameters()
    }

    fn current(&self) -> Arc<EncryptedSnapshot> {
        self.snapshot()
    }

    /// The most that changed entries take, and a chunk that is stored.
    fn resident_bytes(&self) -> u64 {
        2 * MAX_JOURNAL_BYTES
    }
}

impl UploadedDatabase for EncryptedStore {
    fn is_write_key(&self, key: &[u8; WRITE_KEY_BYTES]) -> bool {
        // Hashes of this type are compared in constant time.
        hash_of(key) == self.owner
    }

    fn upload_state(&self) -> Result<UploadState, SchemeError> {
        let writer = self.writer()?;
        Ok(writer.state(self.snapshot().version))
    }

    fn stage(&self, upload: Upload, chunk: u64, entries: &[(u64, &[u8])]) -> Result<UploadState, SchemeError> {
        let mut writer = self.writer()?;
        writer.check_sound()?;
        let version = self.snapshot().version;
        if upload.base != version {
            let needed = format!("{version}, the current one; read it, and upload what differs from it");
            return Err(SchemeError::upload("version that the upload changes", upload.base, needed));
        }
        let begun = writer.staging.as_ref().filter(|staging| staging.upload() == upload);
        let (chunks, last) = begun.map_or((0, None), |staging| (staging.chunks(), staging.last()));
        if chunk < chunks {
            return Ok(writer.state(version));
        }
        if chunk > chunks {
            let needed = match begun {
                Some(_) => format!("chunk {chunks}, the next one"),
                None => "chunk 0: another upload has begun since; begin again".into(),
            };
            return Err(SchemeError::upload("chunk of an upload", chunk, needed));
        }
        self.check_entries(entries, last)?;
        if begun.is_none() {
            writer.staging = Some(Staging::begin(&writer.disk, &writer.dir, upload, shape(&self.tables))?);
        }
        if let Some(staging) = &mut writer.staging {
            staging.append(entries)?;
        }
        Ok(writer.state(version))
    }

    fn commit_upload(&self, upload: Upload, chunks: u64, cancel: &AtomicBool) -> Result<UploadState, SchemeError> {
        let mut writer = self.writer()?;
        writer.check_sound()?;
        let before = self.snapshot();
        let staged = writer.staging.as_ref().filter(|staging| staging.upload() == upload);
        let Some(staged) = staged else {
            let needed = "the last one that was begun: another one has begun since; begin again";
            return Err(SchemeError::upload("upload", format!("{:016x}", upload.id), needed));
        };
        // A repeated request, after the reply to the first one was lost.
        if before.version > upload.base {
            return Ok(writer.state(before.version));
        }
        if staged.chunks() != chunks || chunks == 0 {
            let needed = format!("{} chunks, which are stored, and at least one", staged.chunks());
            return Err(SchemeError::upload("chunks of an upload", chunks, needed));
        }
        let staged_bytes = (staged.entries() * EncryptedEntry::byte_len(&self.tables)) as u64;
        let after = if writer.commits.bytes() + staged_bytes <= writer.most_journal_bytes {
            check_space(&writer.dir, staged_bytes)?;
            writer.broken = true;
            writer.append(&before)?
        } else {
            let manifest = writer.write_next(&before, cancel)?;
            writer.broken = true;
            writer.publish(manifest, &self.tables)?
        };
        writer.broken = false;
        let version = after.version;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        if let Some(staging) = &mut writer.staging {
            staging.clear()?;
        }
        Ok(writer.state(version))
    }
}

impl From<DatabaseError> for SchemeError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Cancelled => SchemeError::Interrupted,
            error => SchemeError::Storage(Box::new(error)),
        }
    }
}

/// Number and length of the entries.
fn shape(tables: &Tables) -> (u64, usize) {
    (EncryptedEntry::count(tables), EncryptedEntry::byte_len(tables))
}

/// The scope of the journal of a generation.
fn scope(manifest: &EncryptedManifest, tables: &Tables) -> Scope {
    let (cells, cell_bytes) = shape(tables);
    Scope { id: manifest.generation, version: manifest.version, cells, cell_bytes }
}

/// Writes the files of a generation and a version, durably, and returns the manifest that makes them current. Calls
/// `entry` for all entries in order. Removes the files after an error.
fn write_generation(
    disk: &Disk,
    dir: &Path,
    declaration: &Declaration,
    tables: &Tables,
    (generation, version): (u64, u64),
    entry: &mut CellWriter<'_>,
    cancel: &AtomicBool,
) -> Result<EncryptedManifest, DatabaseError> {
    let (files, bytes) = (Files::new(dir, generation), store_bytes(tables));
    check_space(dir, bytes)?;
    let mut write = || {
        for path in files.all() {
            disk.remove(path)?;
        }
        let monitor = &mut Monitor { progress: &mut |_| (), cancel };
        let cells = write_cells(disk, &files.cells, shape(tables), entry, monitor)?;
        let sums = hashes(cells.file(), &files.cells, bytes)?;
        let manifest = EncryptedManifest::new(declaration, generation, version, &sums);
        write_whole(disk, &files.sums, &sums)?;
        write_whole(disk, &files.journal, &scope(&manifest, tables).header())?;
        disk.sync_dir(dir)?;
        Ok(manifest)
    };
    let written = write();
    if written.is_err() {
        files.all().into_iter().for_each(|path| _ = disk.remove(path));
    }
    written
}

/// Maps the file of the entries after comparing it with its hashes. Uses all threads.
fn open_entries(dir: &Path, manifest: &EncryptedManifest, tables: &Tables) -> Result<Mmap, DatabaseError> {
    let (files, bytes) = (Files::new(dir, manifest.generation), store_bytes(tables));
    let sums = read_sums(&files.sums, chunks(bytes) * HASH_BYTES, &manifest.sums)?;
    let file = open(&files.cells)?;
    verify(&file, &files.cells, bytes, &sums)?;
    map(&file, &files.cells)
}

#[cfg(test)]
mod tests {
    use unspoken_pir_scheme::{Layout, Length, Preset, TableKind};

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    /// A store with three entries of zeros, and the bytes of one.
    fn new_store() -> (tempfile::TempDir, EncryptedStore, Vec<u8>) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("store");
        let layout = Layout::Index { records: 12, length: Length::Fixed(9) };
        let tables = Tables::new(&Preset::InsecureN11.build().unwrap(), layout, TableKind::Encrypted).unwrap();
        EncryptedStore::create(&dir, &Declaration::new(&tables, &[1; 32]).unwrap(), &GO_ON).unwrap();
        let entry = vec![0; EncryptedEntry::byte_len(&tables)];
        (temporary, EncryptedStore::open(&dir).unwrap(), entry)
    }

    #[test]
    fn a_call_does_not_wait_for_another_one() {
        let (_temporary, store, entry) = new_store();
        let upload = Upload { id: 1, base: 1 };
        let calls = || {
            let staged = store.stage(upload, 0, &[(0, &entry)]);
            [store.upload_state(), staged, store.commit_upload(upload, 1, &GO_ON)]
        };
        let running = store.writer().unwrap();
        assert!(calls().iter().all(|call| matches!(call, Err(SchemeError::Busy))));
        drop(running);
        assert!(calls().iter().all(Result::is_ok));
        assert_eq!(store.snapshot().version(), 2);
    }

    #[test]
    fn after_a_failed_change_nothing_more_is_stored() {
        let (_temporary, store, entry) = new_store();
        store.writer().unwrap().broken = true;
        let upload = Upload { id: 1, base: 1 };
        let staged = store.stage(upload, 0, &[(0, &entry)]);
        assert!(matches!(staged, Err(SchemeError::Storage(_))), "{staged:?}");
        assert!(matches!(store.commit_upload(upload, 1, &GO_ON), Err(SchemeError::Storage(_))));
    }
}
