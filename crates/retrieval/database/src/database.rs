//! Readers of databases.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use unspoken_pir_scheme::{DatabaseVersion, PirParameters, Staleness, VersionedDatabase};
use unspoken_ring::Device;

use crate::error::DatabaseError;
use crate::generation::Generation;
use crate::journal::{Journal, Position};
use crate::manifest::Manifest;
use crate::newest::Newest;
use crate::snapshot::Snapshot;

/// Number of attempts to read a frame that may be incomplete because it is being written.
const ATTEMPTS: usize = 4;

/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A reader of a database. Other processes, or other parts of this process, may write to it meanwhile
/// ([`crate::Writer`]).
#[derive(Debug)]
pub struct Database {
    dir: PathBuf,
    device: Option<Device>,
    parameters: PirParameters,
    current: RwLock<Arc<Snapshot>>,
    follower: Mutex<Follower>,
    /// What the last [`Database::refresh`] found.
    staleness: RwLock<Option<Staleness>>,
}

/// Position of the reader in the journal.
#[derive(Debug)]
struct Follower {
    manifest: Manifest,
    journal: Journal,
    position: Position,
}

impl Database {
    /// Opens the newest version and checks every byte of its files against their hashes. Uses all threads.
    ///
    /// # Errors
    /// If there is no database, it was written by another version of this program or for other parameters, or a file is
    /// damaged: the error names the file and the bytes.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Self::open_on(dir, None)
    }

    /// As [`Database::open`], for answers that are computed on a device, if one is given: the parameters of all
    /// versions are there, and each table is copied there when it is first used.
    ///
    /// # Errors
    /// As for [`Database::open`], or if the device has too little memory or failed.
    pub fn open_on(dir: impl AsRef<Path>, device: Option<&Device>) -> Result<Self, DatabaseError> {
        let dir = dir.as_ref().to_path_buf();
        let (snapshot, follower) = newest(&dir, device)?;
        let (parameters, current) = (snapshot.parameters().clone(), RwLock::new(Arc::new(snapshot)));
        let (device, follower, staleness) = (device.cloned(), Mutex::new(follower), RwLock::new(None));
        Ok(Database { dir, device, parameters, current, follower, staleness })
    }

    /// Directory of the database.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The newest version that [`Database::refresh`] has found. It does not change while it is held.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads commits since the last call and returns whether there were any. If there were none, it only reads the
    /// manifest, a few hundred bytes, and the length of the journal. After a compaction or a replacement it maps and
    /// checks the new files before it uses them. A replacement may have another layout: compare the snapshot's.
    ///
    /// # Errors
    /// As [`Database::open`], or [`DatabaseError::Replaced`] if the database was replaced by a database with other
    /// parameters, or by an older one. Then the snapshot stays, and [`VersionedDatabase::staleness`] says so.
    pub fn refresh(&self) -> Result<bool, DatabaseError> {
        let refreshed = self.load_newer();
        let staleness = refreshed.as_ref().err().map(|error| match error {
            DatabaseError::Replaced { .. } => Staleness::Replaced,
            _ => Staleness::Unreadable,
        });
        *self.staleness.write().unwrap_or_else(PoisonError::into_inner) = staleness;
        refreshed
    }

    fn load_newer(&self) -> Result<bool, DatabaseError> {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let manifest = Manifest::read(&self.dir)?;
        let snapshot = if manifest != follower.manifest {
            self.check_successor(&follower, &manifest)?;
            let (snapshot, newer) = newest(&self.dir, self.device.as_ref())?;
            self.check_successor(&follower, &newer.manifest)?;
            *follower = newer;
            snapshot
        } else {
            let (frames, position) = again(|| follower.journal.read(follower.position))?;
            if frames.is_empty() {
                return Ok(false);
            }
            follower.journal.sync()?;
            let snapshot = self.snapshot().after(frames)?;
            follower.position = position;
            snapshot
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        Ok(true)
    }

    /// Checks that clients of this database can use the next one, and that version numbers grow.
    fn check_successor(&self, follower: &Follower, next: &Manifest) -> Result<(), DatabaseError> {
        let replaced = |found, needed| Err(DatabaseError::Replaced { dir: self.dir.clone(), found, needed });
        if !next.has_parameters_of(&follower.manifest) {
            return replaced("other parameters", "the same, because clients' keys depend on them");
        }
        if next.generation <= follower.manifest.generation || next.version < self.snapshot().version() {
            let needed = "one that `pir build --replace` or a compaction has written after it";
            return replaced("a generation or a version that is not later", needed);
        }
        Ok(())
    }
}

impl VersionedDatabase for Database {
    type Version = Snapshot;

    fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    fn current(&self) -> Arc<Snapshot> {
        self.snapshot()
    }

    fn resident_bytes(&self) -> u64 {
        self.snapshot().resident_bytes()
    }

    fn staleness(&self) -> Option<Staleness> {
        *self.staleness.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads the newest version. Retries if a compaction removes it meanwhile.
fn newest(dir: &Path, device: Option<&Device>) -> Result<(Snapshot, Follower), DatabaseError> {
    let mut manifest = Manifest::read(dir)?;
    loop {
        let loaded = load(dir, &manifest, device);
        let now = Manifest::read(dir)?;
        if loaded.is_ok() || now == manifest {
            return loaded;
        }
        manifest = now;
    }
}

/// The newest version of the generation that a manifest names.
fn load(dir: &Path, manifest: &Manifest, device: Option<&Device>) -> Result<(Snapshot, Follower), DatabaseError> {
    let base = Arc::new(Generation::open(dir, manifest.clone(), device)?);
    let newest = Newest::read(dir, (manifest.generation, manifest.version))?;
    let (journal, start) = Journal::open(dir, manifest, &base.geometry)?;
    let (frames, position) = again(|| journal.read(start))?;
    newest.check(dir, position)?;
    journal.sync()?;
    let snapshot = Snapshot::new(base).after(frames)?;
    Ok((snapshot, Follower { manifest: manifest.clone(), journal, position }))
}

/// Retries an attempt that may have read files while they were written.
fn again<T>(attempt: impl Fn() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(DatabaseError::Corrupted { .. }) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    attempt()
}
