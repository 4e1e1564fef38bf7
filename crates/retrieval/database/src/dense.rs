//! Dense tables: their file, and changes since it was written.
//!
//! A plane has the bytes of all its groups, and then for each group the words of its packing and the factors of the
//! last switches. The file of a shard has the same for the groups and rows of its part.
//!
//! Changes since the file was written are differences of cells, and cost little. But the packing of a group depends on
//! all of its bytes: each group with a change is prepared anew after a commit (0.2 to 0.5 s on two threads), and keeps
//! its packing in memory (33 MB) until the next compaction. Commit many changes at once.
//!
//! Building a database draws the seed of the public masks (`pir::dense::MaskSeed`), except when it replaces a dense
//! database that has a seed. Commits and compactions keep the seed. Databases of earlier releases have none, and are
//! read, changed and served with the masks that all of them share (format 2; a manifest with a seed has format 5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_pir_scheme::dense::{CellChange, DensePart, GroupView, LastFactors, Packing, PackingView};
use unspoken_pir_scheme::{PirParameters, Tables};
use unspoken_ring::{DeviceCopy, Stored};

use crate::disk::DiskFile;
use crate::error::DatabaseError;
use crate::format::{HEADER_BYTES, piece};
use crate::progress::{Monitor, Phase, check};

/// Alignment of packings in the file.
const ALIGNMENT: usize = 64;

/// Bytes of groups that are filled at the same time, unless one has more.
const FILLED_BYTES: usize = 512 << 20;

/// Shape of the tables, or of a part of them.
#[derive(Clone, Debug)]
pub(crate) struct DenseTables {
    parameters: PirParameters,
    part: DensePart,
    planes: usize,
    piece_bytes: usize,
}

/// What belongs to a group beside its part of the mapped file.
#[derive(Debug)]
pub(crate) struct GroupFactors {
    /// The factors of the last switches, which are not read as they are mapped.
    last: LastFactors,
    /// The copies on a device of the bytes and of the words of the packing.
    copies: [DeviceCopy; 2],
}

/// What belongs to the groups beside the mapped file, by plane and group.
pub(crate) type Factors = Vec<Vec<GroupFactors>>;

/// Changes of cells since the tables were written, by plane and group.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellChanges(BTreeMap<(usize, usize), Arc<GroupChanges>>);

/// Changes of the cells of a group.
#[derive(Debug)]
struct GroupChanges {
    cells: Vec<Arc<CellChange>>,
    /// The packing of the changed group.
    packing: Packing,
}

impl DenseTables {
    /// A part of the tables of all planes.
    pub fn new(tables: &Tables, part: DensePart) -> Self {
        let (parameters, piece_bytes) = (tables.parameters().clone(), tables.piece_bytes());
        DenseTables { parameters, part, planes: tables.planes(), piece_bytes }
    }

    /// Bytes of a plane in the file.
    pub fn plane_bytes(&self) -> u64 {
        (self.part.table_bytes(&self.parameters) + self.part.groups().len() * self.packing_bytes()) as u64
    }

    /// Bytes of a packing in the file.
    fn packing_bytes(&self) -> usize {
        let words = Packing::word_count(&self.parameters) * size_of::<u32>();
        (words + LastFactors::byte_len(&self.parameters)).next_multiple_of(ALIGNMENT)
    }

    /// Offset of the bytes of a group.
    fn group_at(&self, plane: usize, group: usize) -> u64 {
        let at = self.position(group) * self.part.group_bytes(&self.parameters);
        HEADER_BYTES + plane as u64 * self.plane_bytes() + at as u64
    }

    /// Offset of the packing of a group.
    fn packing_at(&self, plane: usize, group: usize) -> u64 {
        let at = self.part.table_bytes(&self.parameters) + self.position(group) * self.packing_bytes();
        HEADER_BYTES + plane as u64 * self.plane_bytes() + at as u64
    }

    /// Position of a group of the tables among the groups of the part.
    fn position(&self, group: usize) -> usize {
        group - self.part.groups().start
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES + self.planes as u64 * self.plane_bytes()
    }

    /// All groups of all planes.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        let groups = self.part.groups();
        (0..self.planes).flat_map(move |plane| groups.clone().map(move |group| (plane, group)))
    }

    /// Writes all planes from the cells.
    pub fn write<'a>(
        &self,
        file: &DiskFile,
        cell: impl Fn(u64) -> &'a [u8] + Sync,
        monitor: &mut Monitor<'_>,
    ) -> Result<(), DatabaseError> {
        let all: Vec<(usize, usize)> = self.all().collect();
        let (total, mut done) = (all.len() as u64, 0);
        // Threads fill groups at the same time; a packing uses all of them.
        let fitting = (FILLED_BYTES / self.part.group_bytes(&self.parameters)).max(1);
        for some in all.chunks(rayon::current_num_threads().min(fitting)) {
            let filled = some.par_iter().map(|&(plane, group)| self.filled(plane, group, &cell));
            let filled: Vec<Vec<u8>> = filled.collect::<Result<_, DatabaseError>>()?;
            for (&(plane, group), bytes) in some.iter().zip(filled) {
                file.write_at(&bytes, self.group_at(plane, group))?;
                check(monitor.cancel)?;
                let packing = Packing::new(&self.parameters, &self.part, &bytes)?;
                let (words, at) = (bytemuck::cast_slice(packing.words()), self.packing_at(plane, group));
                file.write_at(words, at)?;
                file.write_at(&packing.last().to_bytes(&self.parameters), at + words.len() as u64)?;
                done += 1;
                monitor.at(Phase::Encode, done, Some(total))?;
            }
        }
        Ok(())
    }

    /// The bytes of a group, from its cells.
    fn filled<'a>(&self, plane: usize, group: usize, cell: impl Fn(u64) -> &'a [u8]) -> Result<Vec<u8>, DatabaseError> {
        let mut bytes = vec![0; self.part.group_bytes(&self.parameters)];
        for (number, at) in self.part.cells_of(&self.parameters, group) {
            self.part.write_cell(&self.parameters, &mut bytes, at, piece(cell(number), self.piece_bytes, plane))?;
        }
        Ok(bytes)
    }

    /// Reads the factors of the last switches from a file.
    pub fn factors(&self, file: &[u8]) -> Result<Factors, DatabaseError> {
        let read = |plane, group| {
            let words = Packing::word_count(&self.parameters) * size_of::<u32>();
            let at = self.packing_at(plane, group) as usize + words;
            let bytes = file.get(at..at + LastFactors::byte_len(&self.parameters)).unwrap_or_default();
            let last = LastFactors::from_bytes(&self.parameters, bytes)?;
            Ok(GroupFactors { last, copies: Default::default() })
        };
        (0..self.planes).map(|plane| self.part.groups().map(|group| read(plane, group)).collect()).collect()
    }

    /// The tables in a mapped file, with changes.
    pub fn views<'a>(&self, file: &'a [u8], factors: &'a Factors, changes: &'a CellChanges) -> Vec<Vec<GroupView<'a>>> {
        let part = |at: u64, length: usize| file.get(at as usize..at as usize + length).unwrap_or_default();
        let view = |plane: usize, (group, factors): (usize, &'a GroupFactors)| {
            let GroupFactors { last, copies: [bytes_copy, words_copy] } = factors;
            let bytes = part(self.group_at(plane, group), self.part.group_bytes(&self.parameters));
            let bytes = Stored::new(bytes, bytes_copy);
            if let Some(changed) = changes.0.get(&(plane, group)) {
                return GroupView { bytes, changes: &changed.cells, packing: changed.packing.view() };
            }
            let words = Packing::word_count(&self.parameters) * size_of::<u32>();
            let words = bytemuck::try_cast_slice(part(self.packing_at(plane, group), words)).unwrap_or_default();
            let words = Stored::new(words, words_copy);
            GroupView { bytes, changes: &[], packing: PackingView { words, last } }
        };
        let plane = |(plane, factors): (usize, &'a Vec<GroupFactors>)| {
            self.part.groups().zip(factors).map(|group| view(plane, group)).collect()
        };
        factors.iter().enumerate().map(plane).collect()
    }

    /// The changes after cells have changed: prepares the packings of their groups anew, on all threads. `changed` are
    /// these cells, `all` the cells that differ from the tables. `base` returns the cell as the tables have it, `now`
    /// the new one.
    pub fn changes_after<'a>(
        &self,
        before: &CellChanges,
        changed: &BTreeSet<u64>,
        all: impl Iterator<Item = u64>,
        base: impl Fn(u64) -> &'a [u8],
        now: impl Fn(u64) -> &'a [u8],
    ) -> Result<CellChanges, DatabaseError> {
        let group_of = |cell: u64| Ok::<_, DatabaseError>(self.part.shape().place_of(&self.parameters, cell)?.0);
        let touched: BTreeSet<usize> = changed.iter().map(|&cell| group_of(cell)).collect::<Result<_, _>>()?;
        let mut cells: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for cell in all {
            let group = group_of(cell)?;
            if touched.contains(&group) {
                cells.entry(group).or_default().push(cell);
            }
        }
        let mut after = before.clone();
        for plane in 0..self.planes {
            for (&group, cells) in &cells {
                after.0.insert((plane, group), Arc::new(self.group_changes(plane, group, cells, &base, &now)?));
            }
        }
        Ok(after)
    }

    fn group_changes<'a>(
        &self,
        plane: usize,
        group: usize,
        changed: &[u64],
        base: impl Fn(u64) -> &'a [u8],
        now: impl Fn(u64) -> &'a [u8],
    ) -> Result<GroupChanges, DatabaseError> {
        let mut cells = Vec::with_capacity(changed.len());
        for &cell in changed {
            let (_, at) = self.part.shape().place_of(&self.parameters, cell)?;
            let [old, new] = [base(cell), now(cell)].map(|cell| piece(cell, self.piece_bytes, plane));
            cells.push(Arc::new(CellChange::new(self.part.shape(), at, old, new)));
        }
        let packing = Packing::new(&self.parameters, &self.part, &self.filled(plane, group, now)?)?;
        Ok(GroupChanges { cells, packing })
    }

    /// Bytes of memory of factors and changes.
    pub fn resident_bytes(&self, changes: &CellChanges) -> usize {
        let ring = self.parameters.ring();
        let factors = 2 * self.planes * self.part.groups().len() * ring.poly_bytes(ring.basis());
        let differences = changes.count() * self.part.shape().cell_bytes() * size_of::<i16>();
        factors + differences + changes.0.len() * Packing::memory_bytes(&self.parameters)
    }
}

impl CellChanges {
    /// Number of changed cells, in all planes.
    pub fn count(&self) -> usize {
        self.0.values().map(|group| group.cells.len()).sum()
    }
}
