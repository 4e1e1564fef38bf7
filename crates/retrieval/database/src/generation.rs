//! Generations: memory-mapped files of tables and cells that never change.

#![expect(unsafe_code, reason = "a memory map of a file that is never changed")]

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use memmap2::Mmap;
use unspoken_pir_scheme::TableView;
use unspoken_pir_scheme::dense::GroupView;
use unspoken_ring::{Device, DeviceCopy};

use crate::dense::{CellChanges, DenseTables, Factors};
use crate::error::{DatabaseError, io_error};
use crate::geometry::{Content, Geometry, HEADER_BYTES};
use crate::manifest::{Files, Manifest};
use crate::sums::{HASH_BYTES, chunks, verify};
use crate::transformed::{EntryChanges, TransformedTables};

#[cfg(target_endian = "big")]
compile_error!("tables are little-endian words that are mapped as they are");

/// First bytes of the file of the tables.
pub(crate) const TABLE_MAGIC: [u8; 8] = *b"UNSPTBL1";

/// First bytes of the file of the cells.
pub(crate) const CELLS_MAGIC: [u8; 8] = *b"UNSPCEL1";

/// Cells of a generation, mapped.
#[derive(Debug)]
pub(crate) struct Cells {
    map: Mmap,
    cell_bytes: usize,
    cells: u64,
}

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

impl Cells {
    /// Maps a file whose length has been checked.
    pub fn map(geometry: &Geometry, file: &File, path: &Path) -> Result<Self, DatabaseError> {
        Ok(Cells { map: map(file, path)?, cell_bytes: geometry.cell_bytes, cells: geometry.layout().cells() })
    }

    /// A cell, empty if there is no such cell.
    pub fn get(&self, cell: u64) -> &[u8] {
        if cell >= self.cells {
            return &[];
        }
        let start = HEADER_BYTES as usize + cell as usize * self.cell_bytes;
        self.map.get(start..start + self.cell_bytes).unwrap_or_default()
    }
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
    let cells = Cells::map(&geometry, &file, &files.cells)?;
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

/// Opens a file for reading. A missing file is reported as damage of the database.
pub(crate) fn open(path: &Path) -> Result<File, DatabaseError> {
    File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => DatabaseError::Corrupted {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: 0..0,
            what: "it is not there",
        },
        _ => io_error("open", path)(error),
    })
}

/// Maps a file that never changes.
pub(crate) fn map(file: &File, path: &Path) -> Result<Mmap, DatabaseError> {
    // SAFETY: these files never change once the manifest names them. They are written under a number that no manifest
    // has named before, and later only removed, which does not affect a map. All byte values are valid words and valid
    // bytes of cells, so even another program that overwrites them can only change answers. A program that truncates
    // them ends this process.
    unsafe { Mmap::map(file) }.map_err(io_error("map", path))
}
