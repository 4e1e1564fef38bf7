//! Cutting a version of a database into shards.
//!
//! The directory of a shard has `manifest.json`, which also names the shard and the split, and the sealing if the whole
//! database is sealed; `table-1.bin` with the part of each plane; and `sums-1.bin`. A dense table has all bytes of its
//! cells, so there is no file of cells. The id of a split is a hash of the cells, the layout, the version and the
//! number of shards. So a shard that was lost can be written again, and fits the others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::{DenseSplit, MaskSeed};
use unspoken_pir_scheme::{DatabaseVersion, ShardId, TableKind};

use crate::build::Target;
use crate::dense::DenseTables;
use crate::disk::Disk;
use crate::error::DatabaseError;
use crate::format::TABLE_MAGIC;
use crate::manifest::{Files, Manifest, ShardEntry};
use crate::progress::{Monitor, Progress, check};
use crate::snapshot::Snapshot;
use crate::store::{check_space, write_whole};
use crate::sums::hashes;

/// Number of cells that are hashed between two looks whether the work is cancelled.
const HASHED_CELLS: u64 = 1 << 14;

/// A version of a database with dense tables that is cut into shards. Each shard is written to a directory of its own,
/// with its part of the tables. These have all bytes of the shard's cells.
#[derive(Debug)]
pub struct Split {
    snapshot: Arc<Snapshot>,
    split: DenseSplit,
    id: [u8; 16],
}

impl Split {
    /// Cuts a version into a number of shards. Reads all cells, because its id is a hash of them: shards that are
    /// written later, of the same version and in the same number, belong to the same split.
    ///
    /// # Errors
    /// If the database has no dense tables, cannot be cut into `shards` shards, or [`DatabaseError::Cancelled`] soon
    /// after `cancel` is set.
    pub fn new(snapshot: Arc<Snapshot>, shards: usize, cancel: &AtomicBool) -> Result<Self, DatabaseError> {
        let split = snapshot.tables().split(shards)?;
        let id = content_id(&snapshot, split, cancel)?;
        Ok(Split { snapshot, split, id })
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.split.parts() as u32
    }

    /// Writes a shard, numbered from 1, to the new directory `dir`. Uses all threads. A crash leaves a hidden directory
    /// beside it, as an unfinished build does.
    ///
    /// # Errors
    /// If there is no such shard, `dir` exists, writing fails, or [`DatabaseError::Cancelled`] soon after `cancel` is
    /// set.
    pub fn write(
        &self,
        number: u32,
        dir: impl AsRef<Path>,
        mut progress: impl FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<(), DatabaseError> {
        let (disk, monitor) = (Disk::default(), &mut Monitor { progress: &mut progress, cancel });
        let target = Target::find(&disk, dir.as_ref(), false, self.snapshot.sealing())?;
        let (written, _lock) = target.enter(&disk)?;
        let stored = self.write_files(number, &disk, &written, monitor).and_then(|manifest| {
            manifest.publish(&disk, &written)?;
            target.leave(&disk, &written, manifest.generation)
        });
        if stored.is_err() {
            target.abandon(&written);
        }
        stored
    }

    fn write_files(
        &self,
        number: u32,
        disk: &Disk,
        dir: &Path,
        monitor: &mut Monitor<'_>,
    ) -> Result<Manifest, DatabaseError> {
        let whole = self.snapshot.tables();
        // There is no part before the first: its number is out of range too.
        let part = self.split.part(whole.parameters(), (number as usize).wrapping_sub(1))?;
        let tables = DenseTables::new(whole, part);
        check_space(dir, tables.file_bytes())?;
        let files = Files::new(dir, 1);
        let file = disk.create(&files.table)?;
        file.set_len(tables.file_bytes())?;
        file.write_at(&TABLE_MAGIC, 0)?;
        tables.write(&file, |cell| self.snapshot.cell(cell), monitor)?;
        file.sync()?;
        let sums = hashes(file.file(), &files.table, tables.file_bytes())?;
        write_whole(disk, &files.sums, &sums)?;
        disk.sync_dir(dir)?;
        let ShardId { split, number, shards } = self.shard(number);
        let entry = ShardEntry { number, shards, split: hex::encode(split) };
        let (contents, versions) =
            ((whole, self.snapshot.sealing()), (self.snapshot.version(), self.snapshot.records()));
        Ok(Manifest::of_shard(contents, versions, entry, &sums))
    }

    /// The id of a shard with a number from 1.
    pub fn shard(&self, number: u32) -> ShardId {
        ShardId { split: self.id, number, shards: self.shards() }
    }
}

/// Hash of all that the shards depend on.
fn content_id(snapshot: &Snapshot, split: DenseSplit, cancel: &AtomicBool) -> Result<[u8; 16], DatabaseError> {
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 split of a retrieval database into shards");
    let layout = serde_json::to_vec(&snapshot.layout()).map_err(|error| DatabaseError::Source(error.into()))?;
    hasher.update(&snapshot.parameters().fingerprint());
    hasher.update(&(layout.len() as u64).to_le_bytes()).update(&layout);
    if snapshot.tables().kind() == TableKind::Wide {
        hasher.update(b"wide");
    }
    // Databases of earlier releases have no masks of their own, and keep their ids.
    if let Some(MaskSeed(masks)) = snapshot.tables().masks() {
        hasher.update(&masks);
    }
    hasher.update(&snapshot.version().to_le_bytes()).update(&(split.parts() as u64).to_le_bytes());
    for cell in 0..snapshot.layout().cells() {
        if cell % HASHED_CELLS == 0 {
            check(cancel)?;
        }
        // All cells have the same length.
        hasher.update(snapshot.cell(cell));
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    Ok(id)
}
