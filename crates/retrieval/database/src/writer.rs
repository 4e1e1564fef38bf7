//! Writers of databases.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::layout::Bucket;
use unspoken_pir_scheme::{Layout, SchemeError, TableKind};

use crate::cells::Cells;
use crate::commits::Commits;
use crate::disk::Disk;
use crate::edited::EditedBuckets;
use crate::error::DatabaseError;
use crate::generation::open_cells;
use crate::geometry::Geometry;
use crate::journal::{Frame, Scope};
use crate::lock::Lock;
use crate::manifest::{Manifest, SealingId, sweep};
use crate::place::{Random, place};
use crate::progress::{Monitor, Progress};
use crate::store::Plan;

/// The writer of a database. There is one at a time; readers can read meanwhile.
///
/// Readers do not see changes before [`Writer::commit`], which makes one version of all of them.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    disk: Disk,
    _lock: Lock,
    manifest: Manifest,
    geometry: Geometry,
    base: Cells,
    commits: Commits,
    /// Cells that commits have changed since the tables were written.
    committed: HashMap<u64, Vec<u8>>,
    /// Cells that the next commit changes.
    pending: BTreeMap<u64, Vec<u8>>,
    /// Number of records after the last commit, and with pending changes.
    records: [u64; 2],
    random: Random,
    broken: bool,
}

impl Writer {
    /// Opens the newest version for changes. Removes files that a crash has left.
    ///
    /// # Errors
    /// If another process has opened the database for changes, there is no database, or it is damaged. Only cells and
    /// the journal are checked, not the tables.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Writer::open_on(Disk::default(), dir.as_ref())
    }

    pub(crate) fn open_on(disk: Disk, dir: &Path) -> Result<Self, DatabaseError> {
        Manifest::read(dir)?;
        let lock = Lock::take(dir)?;
        let manifest = Manifest::read(dir)?;
        sweep(&disk, dir, manifest.generation)?;
        let (geometry, base, _) = open_cells(dir, &manifest)?;
        let (commits, frames) = Commits::open(&disk, dir, Scope::of(&manifest, &geometry))?;
        let records = frames.last().map_or(manifest.records, |frame| frame.records);
        let committed = frames.into_iter().flat_map(|frame| frame.cells).collect();
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).map_err(|error| DatabaseError::Source(error.to_string().into()))?;
        Ok(Writer {
            dir: dir.into(),
            disk,
            _lock: lock,
            manifest,
            geometry,
            base,
            commits,
            committed,
            pending: BTreeMap::new(),
            records: [records; 2],
            random: Random::new(&seed),
            broken: false,
        })
    }

    /// The layout, which clients need.
    pub fn layout(&self) -> Layout {
        self.geometry.layout()
    }

    /// The kind of the tables.
    pub fn table_kind(&self) -> TableKind {
        self.geometry.tables.kind()
    }

    /// The sealing of the records, if they are sealed: records that are written must be sealed with it, too.
    pub fn sealing(&self) -> Option<SealingId> {
        self.manifest.sealing
    }

    /// The version of the last commit.
    pub fn version(&self) -> u64 {
        self.commits.version()
    }

    /// Number of records, including uncommitted changes. For a database read by index: one more than the highest index
    /// that was written.
    pub fn records(&self) -> u64 {
        self.records[1]
    }

    /// Bytes of the journal, which a compaction frees.
    pub fn journal_bytes(&self) -> u64 {
        self.commits.bytes()
    }

    /// Adds the record of a key or overwrites it, and returns whether there was one. If its buckets are full, other
    /// records move.
    ///
    /// # Errors
    /// If the value is longer than a bucket, there is no room, or the database is read by index. Then nothing changes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, DatabaseError> {
        let layout = self.geometry.layout();
        let tag = layout.tag(key)?;
        let most = layout.cell_bytes() - unspoken_pir_scheme::layout::BUCKET_OVERHEAD;
        let longest = Bucket::longest_value(most);
        if value.len() > longest {
            let needed = format!("at most {longest} bytes");
            return Err(SchemeError::Length { found: value.len(), needed }.into());
        }
        let (base, committed, pending) = (&self.base, &self.committed, &self.pending);
        let mut edited = EditedBuckets::new(layout, |bucket| current(base, committed, pending, bucket));
        let before = edited.remove(tag)?;
        if !place(&mut edited, (tag, value.to_vec()), &mut self.random)? {
            return Err(DatabaseError::Full { what: "the buckets of a key are full, and others cannot move" });
        }
        let changed = edited.into_cells()?;
        self.pending.extend(changed);
        self.records[1] += u64::from(!before);
        Ok(before)
    }

    /// Removes the record of a key and returns whether there was one.
    ///
    /// # Errors
    /// If the database is read by index.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, DatabaseError> {
        let layout = self.geometry.layout();
        let tag = layout.tag(key)?;
        let (base, committed, pending) = (&self.base, &self.committed, &self.pending);
        let mut edited = EditedBuckets::new(layout, |bucket| current(base, committed, pending, bucket));
        let found = edited.remove(tag)?;
        let changed = edited.into_cells()?;
        self.pending.extend(changed);
        self.records[1] -= u64::from(found).min(self.records[1]);
        Ok(found)
    }

    /// Overwrites the record at an index.
    ///
    /// # Errors
    /// If there is no such index, the record does not fit, or the database is read by key.
    pub fn set(&mut self, index: u64, value: &[u8]) -> Result<(), DatabaseError> {
        self.set_cell(index, Some(value))
    }

    /// Removes the record at an index. The others keep theirs.
    ///
    /// # Errors
    /// As [`Writer::set`]; and if all records have a fixed length, so that there must be one.
    pub fn clear(&mut self, index: u64) -> Result<(), DatabaseError> {
        self.set_cell(index, None)
    }

    /// Adds a record after the last one, and returns its index.
    ///
    /// # Errors
    /// If there is no room, the record does not fit, or the database is read by key.
    pub fn push(&mut self, value: &[u8]) -> Result<u64, DatabaseError> {
        let index = self.records[1];
        if matches!(self.geometry.layout(), Layout::Index { records, .. } if index == records) {
            return Err(DatabaseError::Full { what: "all indices are taken" });
        }
        self.set_cell(index, Some(value))?;
        Ok(index)
    }

    fn set_cell(&mut self, index: u64, value: Option<&[u8]>) -> Result<(), DatabaseError> {
        let layout = self.geometry.layout();
        layout.check_index(index)?;
        self.pending.insert(index, layout.cell(value)?);
        self.records[1] = self.records[1].max(index + 1);
        Ok(())
    }

    /// Discards uncommitted changes.
    pub fn discard(&mut self) {
        self.pending.clear();
        self.records[1] = self.records[0];
    }

    /// Commits all changes as a new version, atomically and durably, and returns its number. Without changes there is
    /// no new version.
    ///
    /// # Errors
    /// If writing fails. Then the writer refuses further work; opening the database again finds out which version is on
    /// disk.
    pub fn commit(&mut self) -> Result<u64, DatabaseError> {
        if self.broken {
            return Err(DatabaseError::Broken);
        }
        let (base, committed) = (&self.base, &self.committed);
        self.pending.retain(|&number, cell| current(base, committed, &BTreeMap::new(), number) != *cell);
        if self.pending.is_empty() && self.records[0] == self.records[1] {
            return Ok(self.version());
        }
        let cells = std::mem::take(&mut self.pending).into_iter().collect();
        let frame = Frame { version: self.version() + 1, records: self.records[1], cells };
        self.broken = true;
        self.commits.append(&frame)?;
        self.broken = false;
        self.records[0] = frame.records;
        self.committed.extend(frame.cells);
        Ok(frame.version)
    }

    /// Writes the tables again with all commits included, and starts an empty journal. Answers get faster; the version
    /// and its content do not change. Uncommitted changes stay pending.
    ///
    /// # Errors
    /// If writing fails, or [`DatabaseError::Cancelled`] soon after `cancel` is set. Then nothing changes.
    pub fn compact(&mut self, mut progress: impl FnMut(Progress), cancel: &AtomicBool) -> Result<(), DatabaseError> {
        if self.broken {
            return Err(DatabaseError::Broken);
        }
        let generation = self.manifest.generation + 1;
        let (version, records) = (self.version(), self.records[0]);
        let (disk, dir, geometry) = (&self.disk, self.dir.as_path(), &self.geometry);
        let sealing = self.manifest.sealing;
        let plan = Plan { disk, dir, geometry, sealing, generation, version, records };
        let (base, committed) = (&self.base, &self.committed);
        let mut cell = |number: u64, to: &mut Vec<u8>| {
            to.extend_from_slice(committed.get(&number).map(Vec::as_slice).unwrap_or_else(|| base.get(number)));
            Ok(())
        };
        let manifest = plan.write(&mut cell, &mut Monitor { progress: &mut progress, cancel })?;
        self.broken = true;
        manifest.publish(&self.disk, &self.dir)?;
        let (_, base, _) = open_cells(&self.dir, &manifest)?;
        let (commits, _) = Commits::open(&self.disk, &self.dir, Scope::of(&manifest, &self.geometry))?;
        (self.manifest, self.base, self.commits) = (manifest, base, commits);
        self.committed.clear();
        self.broken = false;
        sweep(&self.disk, &self.dir, generation)
    }
}

/// Content of a cell with all changes.
fn current(base: &Cells, committed: &HashMap<u64, Vec<u8>>, pending: &BTreeMap<u64, Vec<u8>>, number: u64) -> Vec<u8> {
    let changed = pending.get(&number).or_else(|| committed.get(&number));
    changed.map_or_else(|| base.get(number).to_vec(), Vec::clone)
}
