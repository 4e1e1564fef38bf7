//! Writing the files of a generation.

use std::path::Path;

use crate::cells::Cells;
use crate::disk::{Disk, DiskFile};
use crate::error::{DatabaseError, io_error};
use crate::format::{CELLS_MAGIC, HEADER_BYTES, TABLE_MAGIC};
use crate::geometry::{Content, Geometry};
use crate::journal::Scope;
use crate::manifest::{Files, Manifest, SealingId};
use crate::progress::{Monitor, Phase};
use crate::sums::hashes;

/// Bytes of cells written at once.
const WRITE_BYTES: usize = 4 << 20;

/// Callback that appends the content of a cell. Zeros at its end may be left out.
pub(crate) type CellWriter<'a> = dyn FnMut(u64, &mut Vec<u8>) -> Result<(), DatabaseError> + 'a;

/// Files to write.
pub(crate) struct Plan<'a> {
    pub disk: &'a Disk,
    pub dir: &'a Path,
    pub geometry: &'a Geometry,
    pub sealing: Option<SealingId>,
    pub generation: u64,
    pub version: u64,
    pub records: u64,
}

impl Plan<'_> {
    /// Writes all files of the generation, durably, and returns the manifest that makes them current. Calls `cell` for
    /// all cells in order. Removes the files after an error.
    pub fn write(&self, cell: &mut CellWriter<'_>, monitor: &mut Monitor<'_>) -> Result<Manifest, DatabaseError> {
        check_space(self.dir, self.geometry.table_bytes() + self.geometry.cells_bytes())?;
        let files = Files::new(self.dir, self.generation);
        let written = self.write_files(&files, cell, monitor);
        if written.is_err() {
            files.all().into_iter().for_each(|path| _ = self.disk.remove(path));
        }
        written
    }

    fn write_files(
        &self,
        files: &Files,
        cell: &mut CellWriter<'_>,
        monitor: &mut Monitor<'_>,
    ) -> Result<Manifest, DatabaseError> {
        for path in files.all() {
            self.disk.remove(path)?;
        }
        let shape = (self.geometry.layout().cells(), self.geometry.cell_bytes);
        let cells = write_cells(self.disk, &files.cells, shape, cell, monitor)?;
        let table = self.disk.create(&files.table)?;
        table.set_len(self.geometry.table_bytes())?;
        table.write_at(&TABLE_MAGIC, 0)?;
        let mapped = Cells::map(self.geometry.cells(), cells.file(), &files.cells)?;
        match &self.geometry.content {
            Content::Transformed(tables) => tables.write(&table, &mapped, monitor)?,
            Content::Dense(tables) => tables.write(&table, |cell| mapped.get(cell), monitor)?,
            Content::Encrypted => {}
        }
        table.sync()?;
        let mut sums = hashes(table.file(), &files.table, self.geometry.table_bytes())?;
        sums.extend(hashes(cells.file(), &files.cells, self.geometry.cells_bytes())?);
        let manifest = Manifest::new(self.geometry, self.sealing, self.generation, (self.version, self.records), &sums);
        write_whole(self.disk, &files.sums, &sums)?;
        write_whole(self.disk, &files.journal, &Scope::of(&manifest, self.geometry).header())?;
        self.disk.sync_dir(self.dir)?;
        Ok(manifest)
    }
}

/// Checks the free space before a number of bytes is written, so that the disk, which others may use, does not fill up.
pub(crate) fn check_space(dir: &Path, needed: u64) -> Result<(), DatabaseError> {
    let system = rustix::fs::statvfs(dir).map_err(|error| io_error("look for room in", dir)(error.into()))?;
    let found = system.f_bavail.saturating_mul(system.f_frsize);
    match found >= needed {
        true => Ok(()),
        false => Err(DatabaseError::Space { dir: dir.to_path_buf(), found, needed }),
    }
}

/// Writes a file of these bytes, durably.
pub(crate) fn write_whole(disk: &Disk, path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
    let file = disk.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync()
}

/// Writes the file of `count` cells of `cell_bytes` bytes, durably. Calls `cell` for all cells in order.
pub(crate) fn write_cells(
    disk: &Disk,
    path: &Path,
    (count, cell_bytes): (u64, usize),
    cell: &mut CellWriter<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<DiskFile, DatabaseError> {
    let file = disk.create(path)?;
    file.set_len(HEADER_BYTES + count * cell_bytes as u64)?;
    file.write_at(&CELLS_MAGIC, 0)?;
    let (mut buffer, mut at) = (Vec::with_capacity(WRITE_BYTES + cell_bytes), HEADER_BYTES);
    for number in 0..count {
        let start = buffer.len();
        cell(number, &mut buffer)?;
        debug_assert!(buffer.len() <= start + cell_bytes);
        buffer.resize(start + cell_bytes, 0);
        if buffer.len() >= WRITE_BYTES || number + 1 == count {
            file.write_at(&buffer, at)?;
            at += buffer.len() as u64;
            buffer.clear();
            monitor.at(Phase::Write, number + 1, Some(count))?;
        }
    }
    file.sync()?;
    Ok(file)
}
