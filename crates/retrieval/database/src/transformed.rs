//! Tables of transformed ring elements: their file, and changes since it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_pir_scheme::{DatabaseShape, EntryChange, PirParameters, TableView, Tables, encode_entry};
use unspoken_ring::{DeviceCopy, Poly, Stored, TableShape};

use crate::cells::Cells;
use crate::disk::DiskFile;
use crate::error::DatabaseError;
use crate::format::{HEADER_BYTES, piece};
use crate::progress::{Monitor, Phase, check};

/// Columns that are encoded together: their words are written in runs of this number times all rows.
const COLUMNS: usize = 8;

/// Shape of the tables.
#[derive(Clone, Debug)]
pub(crate) struct TransformedTables {
    parameters: PirParameters,
    cells: u64,
    planes: usize,
    /// Shape of the table of each plane.
    table: TableShape,
    /// Number of words of each plane.
    plane_words: usize,
}

/// Changes of entries since the tables were written.
#[derive(Clone, Debug)]
pub(crate) struct EntryChanges {
    /// For each entry with changed cells, the change of each plane.
    entries: BTreeMap<usize, Vec<Option<Arc<EntryChange>>>>,
    /// The same changes, by plane.
    planes: Vec<Vec<Arc<EntryChange>>>,
}

impl TransformedTables {
    /// The tables of planes of a shape.
    pub fn new(tables: &Tables, shape: DatabaseShape) -> Self {
        let (parameters, table) = (tables.parameters().clone(), shape.table(tables.parameters()));
        let plane_words = parameters.ring().table_words(table);
        TransformedTables { cells: tables.layout().cells(), planes: tables.planes(), table, plane_words, parameters }
    }

    /// Bytes of a plane in the file.
    pub fn plane_bytes(&self) -> u64 {
        (self.plane_words * size_of::<u32>()) as u64
    }

    /// Places for the copies of the planes on a device.
    pub fn copies(&self) -> Vec<DeviceCopy> {
        (0..self.planes).map(|_| DeviceCopy::default()).collect()
    }

    /// The tables in a mapped file with their copies, and with changes.
    pub fn views<'a>(
        &self,
        (file, copies): (&'a [u8], &'a [DeviceCopy]),
        changes: &'a EntryChanges,
    ) -> Vec<TableView<'a>> {
        let view = |(plane, (changes, copy)): (usize, (&'a Vec<_>, &'a DeviceCopy))| {
            let start = HEADER_BYTES as usize + plane * self.plane_bytes() as usize;
            let bytes = file.get(start..start + self.plane_bytes() as usize);
            let words = bytes.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or_default();
            TableView { words: Stored::new(words, copy), changes }
        };
        changes.planes.iter().zip(copies).enumerate().map(view).collect()
    }

    /// Encodes all planes from the cells and writes them. Each thread encodes some columns of a plane.
    pub fn write(&self, file: &DiskFile, cells: &Cells, monitor: &mut Monitor<'_>) -> Result<(), DatabaseError> {
        let TableShape { rows, columns, .. } = self.table;
        let total = (self.planes * rows * columns) as u64;
        let starts = (0..self.planes).flat_map(|plane| (0..columns).step_by(COLUMNS).map(move |at| (plane, at)));
        let parts: Vec<(usize, Range<usize>)> =
            starts.map(|(plane, at)| (plane, at..columns.min(at + COLUMNS))).collect();
        let mut done = 0;
        for parts in parts.chunks(4 * rayon::current_num_threads()) {
            let write = |(plane, columns): &(usize, Range<usize>)| {
                check(monitor.cancel)?;
                self.write_columns(file, cells, *plane, columns.clone())
            };
            parts.par_iter().try_for_each(write)?;
            done += parts.iter().map(|(_, columns)| (columns.len() * rows) as u64).sum::<u64>();
            monitor.at(Phase::Encode, done, Some(total))?;
        }
        Ok(())
    }

    fn write_columns(
        &self,
        file: &DiskFile,
        cells: &Cells,
        plane: usize,
        columns: Range<usize>,
    ) -> Result<(), DatabaseError> {
        let ring = self.parameters.ring();
        let part = TableShape { columns: columns.len(), ..self.table };
        let mut words = vec![0u32; ring.table_words(part)];
        for row in 0..part.rows {
            for column in columns.clone() {
                let entry = row * self.table.columns + column;
                let pieces = self.pieces(plane, entry, |cell| cells.get(cell));
                let poly = self.encode(plane, entry, &pieces)?;
                ring.write_table_entry(part, &mut words, (row, column - columns.start), &poly)?;
            }
        }
        let (unit, column) = (self.table.unit(), self.table.unit() / self.table.columns);
        for (number, run) in words.chunks_exact(part.unit()).enumerate() {
            let word = plane * self.plane_words + number * unit + columns.start * column;
            file.write_at(bytemuck::cast_slice(run), HEADER_BYTES + (word * size_of::<u32>()) as u64)?;
        }
        Ok(())
    }

    /// The changes after cells have changed: encodes the entries that they are in, on all threads. `base` returns the
    /// cell as the tables have it, `now` the new one.
    pub fn changes_after<'a>(
        &self,
        before: &EntryChanges,
        changed: &BTreeSet<u64>,
        base: impl Fn(u64) -> &'a [u8] + Sync,
        now: impl Fn(u64) -> &'a [u8] + Sync,
    ) -> Result<EntryChanges, DatabaseError> {
        let touched: BTreeSet<usize> = changed.iter().map(|&cell| cell as usize / self.parameters.pieces()).collect();
        let encode = |&entry: &usize| Ok((entry, self.entry_changes(entry, &base, &now)?));
        let encoded: Vec<_> = touched.par_iter().map(encode).collect::<Result<_, DatabaseError>>()?;
        let mut entries = before.entries.clone();
        entries.extend(encoded);
        let plane = |plane: usize| {
            entries.values().filter_map(|changes: &Vec<Option<_>>| changes.get(plane)?.clone()).collect()
        };
        Ok(EntryChanges { planes: (0..self.planes).map(plane).collect(), entries })
    }

    /// The change of an entry in each plane since the tables were written.
    fn entry_changes<'a>(
        &self,
        entry: usize,
        base: impl Fn(u64) -> &'a [u8],
        now: impl Fn(u64) -> &'a [u8],
    ) -> Result<Vec<Option<Arc<EntryChange>>>, DatabaseError> {
        let (row, column) = (entry / self.table.columns, entry % self.table.columns);
        let plane = |plane: usize| {
            let (old, new) = (self.pieces(plane, entry, &base), self.pieces(plane, entry, &now));
            if old == new {
                return Ok(None);
            }
            let mut difference = self.encode(plane, entry, &new)?;
            self.parameters.ring().sub_assign(&mut difference, &self.encode(plane, entry, &old)?)?;
            // A device may fail, or need the room.
            self.parameters.ring().fetch(&mut difference)?;
            Ok(Some(Arc::new(EntryChange { row, column, difference })))
        };
        (0..self.planes).map(plane).collect()
    }

    /// The cells whose pieces are in an entry, in order. The last entry may have fewer, entries after it have none.
    fn cells_of(&self, entry: usize) -> Range<u64> {
        let pieces = self.parameters.pieces() as u64;
        (entry as u64 * pieces).min(self.cells)..((entry as u64 + 1) * pieces).min(self.cells)
    }

    /// The pieces of one plane of an entry, read from its cells and concatenated.
    fn pieces<'a>(&self, plane: usize, entry: usize, cell: impl Fn(u64) -> &'a [u8]) -> Vec<u8> {
        let length = self.parameters.piece_bytes();
        let mut pieces = Vec::with_capacity(length * self.parameters.pieces());
        for (i, cell) in self.cells_of(entry).map(cell).enumerate() {
            pieces.extend_from_slice(piece(cell, length, plane));
            pieces.resize((i + 1) * length, 0);
        }
        pieces
    }

    /// Encodes one plane of an entry from its pieces.
    fn encode(&self, plane: usize, entry: usize, pieces: &[u8]) -> Result<Poly, DatabaseError> {
        Ok(encode_entry(&self.parameters, plane, entry as u64, pieces)?)
    }
}

impl EntryChanges {
    /// No changes.
    pub fn none(planes: usize) -> Self {
        EntryChanges { entries: BTreeMap::new(), planes: vec![Vec::new(); planes] }
    }

    /// Number of changed entries, in all planes.
    pub fn count(&self) -> usize {
        self.planes.iter().map(Vec::len).sum()
    }

    /// Bytes of memory.
    pub fn resident_bytes(&self, parameters: &PirParameters) -> usize {
        let ring = parameters.ring();
        self.count() * ring.degree() * ring.chain().len() * size_of::<u32>()
    }
}
