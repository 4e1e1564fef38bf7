//! Generations: memory-mapped files of tables and cells that never change.

use std::path::Path;

use memmap2::Mmap;
use unspoken_pir_scheme::TableView;
use unspoken_pir_scheme::dense::GroupView;
use unspoken_ring::{Device, DeviceCopy};

use crate::cells::{Cells, map, open};
use crate::dense::{CellChanges, DenseTables, Factors};
use crate::error::{DatabaseError, io_error};
use crate::geometry::{Content, Geometry};
use crate::manifest::{Files, Manifest};
use crate::sums::{HASH_BYTES, chunks, verify};
use crate::transformed::{EntryChanges, TransformedTables};

#[cfg(target_endian = "big")]
compile_error!("tables are little-endian words that are mapped as they are");

/// Tables and cells of a generation.
#[derive(Debug)]
pub(crate) struct Generation {
    pub manifest: Manifest,
    pub geometry: Geometry,
    pub cells: Cells,
    table: Mmap,
    /// The copies on a device of transformed tables; none for others.
    copies: Vec<DeviceCopy>,
    /// Of dense tables; empty for others.
    factors: Factors,
}

impl Generation {
    /// Opens the generation that a manifest names and checks all of its files. Uses all threads. Answers are computed
    /// on a device, if there is one.
    pub fn open(dir: &Path, manifest: Manifest, device: Option<&Device>) -> Result<Self, DatabaseError> {
        let (geometry, cells, sums) = open_cells(dir, &manifest)?;
        let geometry = Geometry::of(geometry.tables.on_device(device)?);
        let path = Files::new(dir, manifest.generation).table;
        let file = open(&path)?;
        let bytes = geometry.table_bytes();
        verify(&file, &path, bytes, sums.get(..chunks(bytes) * HASH_BYTES).unwrap_or_default())?;
        let table = map(&file, &path)?;
        let (copies, factors) = match &geometry.content {
            Content::Transformed(tables) => (tables.copies(), Vec::new()),
            Content::Encrypted => (Vec::new(), Vec::new()),
            Content::Dense(tables) => (Vec::new(), tables.factors(&table)?),
        };
        Ok(Generation { manifest, geometry, cells, table, copies, factors })
    }

    /// The tables of transformed ring elements, with changes.
    pub fn transformed<'a>(&'a self, tables: &TransformedTables, changes: &'a EntryChanges) -> Vec<TableView<'a>> {
        tables.views((&self.table, &self.copies), changes)
    }

    /// The dense tables, with changes.
    pub fn dense<'a>(&'a self, tables: &DenseTables, changes: &'a CellChanges) -> Vec<Vec<GroupView<'a>>> {
        tables.views(&self.table, &self.factors, changes)
    }
}

/// Opens and checks the cells of the generation that a manifest names. Also returns the hashes of all files, the hashes
/// of the tables first.
pub(crate) fn open_cells(dir: &Path, manifest: &Manifest) -> Result<(Geometry, Cells, Vec<u8>), DatabaseError> {
    let geometry = Geometry::new(&manifest.parameters()?, manifest.layout, manifest.tables, manifest.masks)?;
    let files = Files::new(dir, manifest.generation);
    let table_chunks = chunks(geometry.table_bytes());
    let sums_bytes = (table_chunks + chunks(geometry.cells_bytes())) * HASH_BYTES;
    let sums = read_sums(&files.sums, sums_bytes, &manifest.sums)?;
    let (file, bytes) = (open(&files.cells)?, geometry.cells_bytes());
    verify(&file, &files.cells, bytes, sums.get(table_chunks * HASH_BYTES..).unwrap_or_default())?;
    let cells = Cells::map(geometry.cells(), &file, &files.cells)?;
    Ok((geometry, cells, sums))
}

/// Reads the hashes of all files, whose number of bytes and hash are known.
pub(crate) fn read_sums(path: &Path, bytes: usize, hash: &str) -> Result<Vec<u8>, DatabaseError> {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let corrupted = |found: u64, what| DatabaseError::Corrupted { file: name(), bytes: 0..found, what };
    let found = open(path)?.metadata().map_err(io_error("open", path))?.len();
    if found != bytes as u64 {
        return Err(corrupted(found, "its length is wrong"));
    }
    let sums = std::fs::read(path).map_err(io_error("read", path))?;
    match blake3::hash(&sums).to_hex().as_str() == hash {
        true => Ok(sums),
        false => Err(corrupted(found, "its hash is wrong")),
    }
}
