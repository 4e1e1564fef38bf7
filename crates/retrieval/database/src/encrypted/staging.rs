//! The chunks of an upload that is not committed yet, in a journal of their own.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use unspoken_pir_scheme::Upload;

use crate::disk::{Disk, DiskFile};
use crate::error::{DatabaseError, io_error};
use crate::format::UPLOAD;
use crate::journal::{Frame, Journal, Position, Scope, append};

/// The chunks of the last upload.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    file: DiskFile,
    scope: Scope,
    /// Position after the last chunk.
    position: Position,
    /// Offsets of the staged entries in the file, by number.
    offsets: BTreeMap<u64, u64>,
}

impl Staging {
    /// Begins an upload of `cells` entries of `cell_bytes` at most, in the place of the one before.
    pub fn begin(disk: &Disk, dir: &Path, upload: Upload, shape: (u64, usize)) -> Result<Self, DatabaseError> {
        let (cells, cell_bytes) = shape;
        let header = Scope { id: upload.id, version: upload.base, cells, cell_bytes }.header();
        disk.replace(&dir.join(UPLOAD), &header)?;
        Self::open(disk, dir, shape)
    }

    /// Opens the chunks of the last upload that was begun. What follows the last whole chunk is removed.
    pub fn open(disk: &Disk, dir: &Path, (cells, cell_bytes): (u64, usize)) -> Result<Self, DatabaseError> {
        let path = dir.join(UPLOAD);
        let read = Scope::read(&path)?;
        let scope = Scope { cells, cell_bytes, ..read };
        let (journal, start) = Journal::open_at(&path, scope)?;
        let file = disk.open(&path)?;
        let mut staging = Staging { path, file, scope, position: start, offsets: BTreeMap::new() };
        while let Some((frame, next)) = journal.frame(staging.position)? {
            staging.note(&frame, next);
        }
        staging.file.set_len(staging.position.bytes())?;
        staging.file.sync()?;
        Ok(staging)
    }

    /// Records where the entries of a frame are.
    fn note(&mut self, frame: &Frame, next: Position) {
        let at = |i| self.position.cell_at(i, self.scope.cell_bytes);
        let offsets: Vec<(u64, u64)> =
            frame.cells.iter().enumerate().map(|(i, (number, _))| (*number, at(i))).collect();
        self.offsets.extend(offsets);
        self.position = next;
    }

    /// The upload.
    pub fn upload(&self) -> Upload {
        Upload { id: self.scope.id, base: self.scope.version }
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.position.version() - self.scope.version
    }

    /// Number of staged entries.
    pub fn entries(&self) -> usize {
        self.offsets.len()
    }

    /// The highest number of an entry.
    pub fn last(&self) -> Option<u64> {
        self.offsets.last_key_value().map(|(number, _)| *number)
    }

    /// Adds the next chunk, durably.
    pub fn append(&mut self, entries: &[(u64, &[u8])]) -> Result<(), DatabaseError> {
        let cells = entries.iter().map(|(number, entry)| (*number, entry.to_vec())).collect();
        let frame = Frame { version: self.position.version() + 1, records: 0, cells };
        let next = append(&self.file, self.position, &frame).inspect_err(|_| {
            // Removes what was written of it; if that fails, too, the next opening removes it.
            _ = self.file.set_len(self.position.bytes());
        })?;
        self.note(&frame, next);
        Ok(())
    }

    /// Reads the staged entry with a number, if there is one, and appends it.
    pub fn read(&self, number: u64, to: &mut Vec<u8>) -> Result<bool, DatabaseError> {
        let Some(&offset) = self.offsets.get(&number) else { return Ok(false) };
        let start = to.len();
        to.resize(start + self.scope.cell_bytes, 0);
        let bytes = to.get_mut(start..).unwrap_or_default();
        self.file.file().read_exact_at(bytes, offset).map_err(io_error("read", &self.path))?;
        Ok(true)
    }

    /// All staged entries.
    pub fn read_all(&self) -> Result<Vec<(u64, Vec<u8>)>, DatabaseError> {
        let read = |&number: &u64| {
            let mut entry = Vec::new();
            self.read(number, &mut entry)?;
            Ok((number, entry))
        };
        self.offsets.keys().map(read).collect()
    }

    /// Removes the chunks, which have been committed. The upload stays the last one.
    pub fn clear(&mut self) -> Result<(), DatabaseError> {
        let (_, start) = Journal::open_at(&self.path, self.scope)?;
        self.file.set_len(start.bytes())?;
        self.file.sync()?;
        self.offsets.clear();
        self.position = start;
        Ok(())
    }
}
