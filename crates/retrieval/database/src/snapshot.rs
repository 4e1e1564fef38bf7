//! One version of a database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_pir::layout::{BUCKET_OVERHEAD, Bucket};
use unspoken_pir::{DatabaseShape, DatabaseVersion, EntryChange, Layout, PirParameters, TableView};

use crate::error::DatabaseError;
use crate::generation::Generation;
use crate::journal::Frame;

/// One version of a database. It is complete and does not change while it is held, even if the database is written,
/// compacted or removed meanwhile.
#[derive(Debug)]
pub struct Snapshot {
    base: Arc<Generation>,
    version: u64,
    records: u64,
    /// Cells that have changed since the tables were written.
    cells: HashMap<u64, Arc<[u8]>>,
    /// For each entry with changed cells, the change of each plane.
    entries: BTreeMap<usize, Vec<Option<Arc<EntryChange>>>>,
    /// The same changes, by plane.
    changes: Vec<Vec<Arc<EntryChange>>>,
}

impl DatabaseVersion for Snapshot {
    /// Version number. It grows by one with each commit, and by one or more when the whole database is replaced.
    fn version(&self) -> u64 {
        self.version
    }

    fn layout(&self) -> Layout {
        self.base.geometry.layout
    }

    fn planes(&self) -> Vec<TableView<'_>> {
        let planes = self.changes.iter().enumerate();
        planes.map(|(plane, changes)| TableView { words: self.base.words(plane), changes }).collect()
    }
}

impl Snapshot {
    /// The version of a generation's files, without its journal.
    pub(crate) fn new(base: Arc<Generation>) -> Self {
        let (version, records) = (base.manifest.version, base.manifest.records);
        let changes = vec![Vec::new(); base.geometry.planes];
        Snapshot { base, version, records, cells: HashMap::new(), entries: BTreeMap::new(), changes }
    }

    /// The version after further commits. Encodes only the entries that they change, on all threads.
    pub(crate) fn after(&self, frames: Vec<Frame>) -> Result<Self, DatabaseError> {
        let geometry = &self.base.geometry;
        let (mut version, mut records, mut cells) = (self.version, self.records, self.cells.clone());
        let mut touched = BTreeSet::new();
        for frame in frames {
            (version, records) = (frame.version, frame.records);
            for (number, cell) in frame.cells {
                touched.insert(geometry.entry_of(number));
                cells.insert(number, cell.into());
            }
        }
        let encode = |&entry: &usize| Ok((entry, self.entry_changes(entry, &cells)?));
        let encoded: Vec<_> = touched.par_iter().map(encode).collect::<Result<_, DatabaseError>>()?;
        let mut entries = self.entries.clone();
        entries.extend(encoded);
        let plane = |plane: usize| {
            entries.values().filter_map(|changes: &Vec<Option<_>>| changes.get(plane)?.clone()).collect()
        };
        let changes = (0..geometry.planes).map(plane).collect();
        Ok(Snapshot { base: Arc::clone(&self.base), version, records, cells, entries, changes })
    }

    /// The change of an entry in each plane since the tables were written.
    fn entry_changes(
        &self,
        entry: usize,
        cells: &HashMap<u64, Arc<[u8]>>,
    ) -> Result<Vec<Option<Arc<EntryChange>>>, DatabaseError> {
        let geometry = &self.base.geometry;
        let parameters = &geometry.parameters;
        let (row, column) = geometry.place_of(entry);
        let base = |cell| self.base.cells.get(cell);
        let now = |cell| cells.get(&cell).map(AsRef::as_ref).unwrap_or_else(|| base(cell));
        let plane = |plane: usize| {
            let (old, new) = (geometry.pieces(plane, entry, base), geometry.pieces(plane, entry, now));
            if old == new {
                return Ok(None);
            }
            let mut difference = geometry.encode(plane, entry, &new)?;
            parameters.ring().sub_assign(&mut difference, &geometry.encode(plane, entry, &old)?)?;
            Ok(Some(Arc::new(EntryChange { row, column, difference })))
        };
        (0..geometry.planes).map(plane).collect()
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
        &self.base.geometry.parameters
    }

    /// The shape of each plane.
    pub fn shape(&self) -> DatabaseShape {
        self.base.geometry.shape
    }

    /// Bytes of the mapped tables.
    pub fn table_bytes(&self) -> u64 {
        self.base.geometry.table_bytes()
    }

    /// Bytes of all cells before encoding.
    pub fn cells_bytes(&self) -> u64 {
        self.base.geometry.cells_bytes()
    }

    /// Bytes of memory used by the changes since the tables were written.
    pub fn resident_bytes(&self) -> u64 {
        let ring = self.base.geometry.parameters.ring();
        let entry = ring.degree() * ring.chain().len() * size_of::<u32>();
        (self.changed_entries() * entry + self.cells.len() * self.base.geometry.cell_bytes) as u64
    }

    /// Number of entries that have changed since the tables were written, in all planes. Each uses as much memory as a
    /// ring element, and a product with each row's selector in every answer, until the database is compacted.
    pub fn changed_entries(&self) -> usize {
        self.changes.iter().map(Vec::len).sum()
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
        let candidates = self.base.geometry.layout.candidates(key)?;
        let cells: Vec<Vec<u8>> = candidates.iter().map(|&bucket| self.cell(bucket).to_vec()).collect();
        Ok(self.base.geometry.layout.find(key, &cells)?.map(<[u8]>::to_vec))
    }

    /// The record at an index, in plaintext.
    ///
    /// # Errors
    /// If there is no such index, the database is read by key, or the cell is damaged.
    pub fn record(&self, index: u64) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.base.geometry.layout.check_index(index)?;
        Ok(self.base.geometry.layout.record(self.cell(index))?.map(<[u8]>::to_vec))
    }

    /// Fraction of the buckets' bytes, or of the indices, that records use. Reads all cells.
    ///
    /// # Errors
    /// If a cell is damaged.
    pub fn load(&self) -> Result<f64, DatabaseError> {
        let cells = self.base.geometry.layout.cells();
        let Layout::Keys { bucket_bytes, .. } = self.base.geometry.layout else {
            return Ok(self.records as f64 / cells as f64);
        };
        let used = |bucket| Ok((Bucket::read(self.cell(bucket))?.bytes() - BUCKET_OVERHEAD) as u64);
        let used: u64 = (0..cells).into_par_iter().map(used).sum::<Result<u64, DatabaseError>>()?;
        Ok(used as f64 / (cells * (u64::from(bucket_bytes) - BUCKET_OVERHEAD as u64)) as f64)
    }
}
