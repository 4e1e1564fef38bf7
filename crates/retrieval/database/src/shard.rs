//! Readers of shards.

use std::path::Path;

use memmap2::Mmap;
use unspoken_pir_scheme::dense::{DensePart, GroupView};
use unspoken_pir_scheme::{DatabaseShard, PirParameters, ShardId, Tables};
use unspoken_ring::Device;

use crate::cells::{map, open};
use crate::dense::{CellChanges, DenseTables, Factors};
use crate::error::DatabaseError;
use crate::generation::read_sums;
use crate::geometry::tables;
use crate::manifest::{Files, Manifest, SealingId, ShardEntry};
use crate::sums::{HASH_BYTES, chunks, verify};

/// A shard of one version of a database, as [`crate::Split`] has written it. It is read-only: changes are made to the
/// whole database, which is then cut again.
#[derive(Debug)]
pub struct Shard {
    id: ShardId,
    version: u64,
    sealing: Option<SealingId>,
    tables: Tables,
    part: DensePart,
    dense: DenseTables,
    table: Mmap,
    factors: Factors,
    /// There are none.
    changes: CellChanges,
}

impl Shard {
    /// Opens a shard and checks every byte of its files against their hashes. Uses all threads.
    ///
    /// # Errors
    /// If there is no shard, it was written by another version of this program or for other parameters, or a file is
    /// damaged: the error names the file and the bytes.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Self::open_on(dir, None)
    }

    /// As [`Shard::open`], for answers that are computed on a device, if one is given.
    ///
    /// # Errors
    /// As for [`Shard::open`], or if the device has too little memory or failed.
    pub fn open_on(dir: impl AsRef<Path>, device: Option<&Device>) -> Result<Self, DatabaseError> {
        let dir = dir.as_ref();
        let (manifest, entry) = Manifest::read_shard(dir)?;
        let id = shard_id(&entry)?;
        let tables = tables(&manifest.parameters()?, manifest.layout, manifest.tables, manifest.masks)?;
        let tables = tables.on_device(device)?;
        let split = tables.split(id.shards as usize)?;
        // There is no part before the first: its number is out of range too.
        let part = split.part(tables.parameters(), (id.number as usize).wrapping_sub(1))?;
        let dense = DenseTables::new(&tables, part.clone());
        let (files, bytes) = (Files::new(dir, manifest.generation), dense.file_bytes());
        let sums = read_sums(&files.sums, chunks(bytes) * HASH_BYTES, &manifest.sums)?;
        let file = open(&files.table)?;
        verify(&file, &files.table, bytes, &sums)?;
        let table = map(&file, &files.table)?;
        let factors = dense.factors(&table)?;
        let changes = CellChanges::default();
        Ok(Shard {
            id,
            version: manifest.version,
            sealing: manifest.sealing,
            tables,
            part,
            dense,
            table,
            factors,
            changes,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        self.tables.parameters()
    }

    /// Bytes of the mapped tables.
    pub fn table_bytes(&self) -> u64 {
        self.dense.file_bytes()
    }
}

impl DatabaseShard for Shard {
    fn id(&self) -> ShardId {
        self.id
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn sealing(&self) -> Option<SealingId> {
        self.sealing
    }

    fn part(&self) -> &DensePart {
        &self.part
    }

    fn planes(&self) -> Vec<Vec<GroupView<'_>>> {
        self.dense.views(&self.table, &self.factors, &self.changes)
    }

    fn resident_bytes(&self) -> u64 {
        self.dense.resident_bytes(&self.changes) as u64
    }
}

/// The id that a manifest names.
fn shard_id(ShardEntry { number, shards, split }: &ShardEntry) -> Result<ShardId, DatabaseError> {
    let wrong = |_| DatabaseError::Format {
        what: "the id of a split",
        found: split.clone(),
        needed: "32 hexadecimal digits".into(),
    };
    let split = hex::decode_to_array(split).map_err(wrong)?;
    Ok(ShardId { split, number: *number, shards: *shards })
}
