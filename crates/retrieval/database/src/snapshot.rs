//! One version of a database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_pir_scheme::encrypted::EncryptedView;
use unspoken_pir_scheme::layout::{BUCKET_OVERHEAD, Bucket};
use unspoken_pir_scheme::{DatabaseVersion, Layout, PirParameters, Planes, Tables};

use crate::dense::{CellChanges, DenseTables};
use crate::error::DatabaseError;
use crate::generation::Generation;
use crate::geometry::Content;
use crate::journal::Frame;
use crate::manifest::SealingId;
use crate::transformed::{EntryChanges, TransformedTables};

/// One version of a database. It is complete and does not change while it is held, even if the database is written,
/// compacted or removed meanwhile.
#[derive(Debug)]
pub struct Snapshot {
    base: Arc<Generation>,
    version: u64,
    records: u64,
    /// Cells that have changed since the tables were written.
    cells: HashMap<u64, Arc<[u8]>>,
    changes: Changes,
}

/// What answers must add to the tables.
#[derive(Clone, Debug)]
enum Changes {
    Transformed(TransformedTables, EntryChanges),
    Dense(DenseTables, CellChanges),
    /// Nothing: answers are computed from what the owner uploads ([`crate::EncryptedStore`]).
    Encrypted,
}

/// No encrypted entries.
static NO_CHANGES: BTreeMap<u64, Arc<[u8]>> = BTreeMap::new();

impl DatabaseVersion for Snapshot {
    /// Version number. It grows by one with each commit, and by one or more when the whole database is replaced.
    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.base.geometry.tables
    }

    fn sealing(&self) -> Option<SealingId> {
        self.base.manifest.sealing
    }

    fn planes(&self) -> Planes<'_> {
        match &self.changes {
            Changes::Transformed(tables, changes) => Planes::Transformed(self.base.transformed(tables, changes)),
            Changes::Dense(tables, changes) => Planes::Dense(self.base.dense(tables, changes)),
            Changes::Encrypted => Planes::Encrypted(EncryptedView { entries: &[], changes: &NO_CHANGES }),
        }
    }
}

impl Snapshot {
    /// The version of a generation's files, without its journal.
    pub(crate) fn new(base: Arc<Generation>) -> Self {
        let (version, records) = (base.manifest.version, base.manifest.records);
        let changes = match &base.geometry.content {
            Content::Transformed(tables) => {
                Changes::Transformed(tables.clone(), EntryChanges::none(base.geometry.tables.planes()))
            }
            Content::Dense(tables) => Changes::Dense(tables.clone(), CellChanges::default()),
            Content::Encrypted => Changes::Encrypted,
        };
        Snapshot { base, version, records, cells: HashMap::new(), changes }
    }

    /// The version after further commits. Encodes only what they change, on all threads.
    pub(crate) fn after(&self, frames: Vec<Frame>) -> Result<Self, DatabaseError> {
        let (mut version, mut records, mut cells) = (self.version, self.records, self.cells.clone());
        let mut changed = BTreeSet::new();
        for frame in frames {
            (version, records) = (frame.version, frame.records);
            for (number, cell) in frame.cells {
                changed.insert(number);
                cells.insert(number, cell.into());
            }
        }
        let base = |cell| self.base.cells.get(cell);
        let now = |cell| cells.get(&cell).map(AsRef::as_ref).unwrap_or_else(|| base(cell));
        let changes = match &self.changes {
            Changes::Transformed(tables, before) => {
                Changes::Transformed(tables.clone(), tables.changes_after(before, &changed, base, now)?)
            }
            Changes::Dense(tables, before) => {
                let all = cells.keys().copied();
                Changes::Dense(tables.clone(), tables.changes_after(before, &changed, all, base, now)?)
            }
            Changes::Encrypted => Changes::Encrypted,
        };
        Ok(Snapshot { base: Arc::clone(&self.base), version, records, cells, changes })
    }

    /// Generation: the number of its files. It grows by one when the database is compacted or replaced.
    pub fn generation(&self) -> u64 {
        self.base.manifest.generation
    }

    /// Number of records. For a database read by index: one more than the highest index that was written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        self.tables().parameters()
    }

    /// The layout of records in cells.
    pub fn layout(&self) -> Layout {
        self.tables().layout()
    }

    /// Bytes of the mapped tables.
    pub fn table_bytes(&self) -> u64 {
        self.base.geometry.table_bytes()
    }

    /// Bytes of all cells before encoding.
    pub fn cells_bytes(&self) -> u64 {
        self.base.geometry.cells_bytes()
    }

    /// Bytes of memory used beside the mapped files: by the changes since the tables were written, and by the parts of
    /// dense tables that are not mapped.
    pub fn resident_bytes(&self) -> u64 {
        let changes = match &self.changes {
            Changes::Transformed(_, changes) => changes.resident_bytes(self.parameters()),
            Changes::Dense(tables, changes) => tables.resident_bytes(changes),
            Changes::Encrypted => 0,
        };
        (changes + self.cells.len() * self.base.geometry.cell_bytes) as u64
    }

    /// Number of entries, or of cells in dense tables, that have changed since the tables were written, in all planes.
    /// A changed entry uses as much memory as a ring element, and a product with each row's selector in every answer,
    /// until the database is compacted. A changed cell of a dense table costs little, but the first one of each group
    /// of columns takes 33 MB and, when it is committed, the time to prepare the group anew.
    pub fn changed_entries(&self) -> usize {
        match &self.changes {
            Changes::Transformed(_, changes) => changes.count(),
            Changes::Dense(_, changes) => changes.count(),
            Changes::Encrypted => 0,
        }
    }

    /// A cell in plaintext; empty if there is no such cell.
    pub fn cell(&self, number: u64) -> &[u8] {
        self.cells.get(&number).map(AsRef::as_ref).unwrap_or_else(|| self.base.cells.get(number))
    }

    /// The record of a key, in plaintext.
    ///
    /// # Errors
    /// If the database is read by index, or a cell is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let candidates = self.layout().candidates(key)?;
        let cells: Vec<Vec<u8>> = candidates.iter().map(|&bucket| self.cell(bucket).to_vec()).collect();
        Ok(self.layout().find(key, &cells)?.map(<[u8]>::to_vec))
    }

    /// The record at an index, in plaintext.
    ///
    /// # Errors
    /// If there is no such index, the database is read by key, or the cell is damaged.
    pub fn record(&self, index: u64) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.layout().check_index(index)?;
        Ok(self.layout().record(self.cell(index))?.map(<[u8]>::to_vec))
    }

    /// Fraction of the buckets' bytes, or of the indices, that records use. Reads all cells.
    ///
    /// # Errors
    /// If a cell is damaged.
    pub fn load(&self) -> Result<f64, DatabaseError> {
        let cells = self.layout().cells();
        let Layout::Keys { bucket_bytes, .. } = self.layout() else {
            return Ok(self.records as f64 / cells as f64);
        };
        let used = |bucket| Ok((Bucket::read(self.cell(bucket))?.bytes() - BUCKET_OVERHEAD) as u64);
        let used: u64 = (0..cells).into_par_iter().map(used).sum::<Result<u64, DatabaseError>>()?;
        Ok(used as f64 / (cells * (u64::from(bucket_bytes) - BUCKET_OVERHEAD as u64)) as f64)
    }
}
