//! Files of a generation, and the cells in one.

#![expect(unsafe_code, reason = "a memory map of a file that is never changed")]

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{DatabaseError, io_error};
use crate::format::HEADER_BYTES;

/// Cells of a generation, mapped.
#[derive(Debug)]
pub(crate) struct Cells {
    map: Mmap,
    cell_bytes: usize,
    cells: u64,
}

impl Cells {
    /// Maps a file with a number of cells of a length, which has been checked.
    pub fn map((cells, cell_bytes): (u64, usize), file: &File, path: &Path) -> Result<Self, DatabaseError> {
        Ok(Cells { map: map(file, path)?, cell_bytes, cells })
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
