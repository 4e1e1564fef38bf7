//! Tables of pieces, encoded and transformed.

use std::sync::Arc;

use rayon::prelude::*;
use unspoken_ring::{DeviceCopy, Poly, Stored};

use crate::entry::encode_entry;
use crate::error::{SchemeError, range};
use crate::parameters::PirParameters;
use crate::shape::DatabaseShape;

/// The table of a plane, in memory.
pub struct Database {
    shape: DatabaseShape,
    /// The table, from `start` on, where a cache line begins: sums read it by lines.
    memory: Vec<u32>,
    start: usize,
    copy: DeviceCopy,
}

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;
const LINE_WORDS: usize = CACHE_LINE / size_of::<u32>();

impl Database {
    /// Encodes the table of a plane from concatenated pieces of [`PirParameters::piece_bytes`] bytes each. Uses all
    /// threads.
    ///
    /// # Errors
    /// If the bytes are not a whole number of pieces, or there are none or too many.
    pub fn new(parameters: &PirParameters, plane: usize, records: &[u8]) -> Result<Self, SchemeError> {
        let piece = parameters.piece_bytes();
        if !records.len().is_multiple_of(piece) {
            return Err(range("encode a database", records.len() as u64, format!("a multiple of {piece} bytes")));
        }
        let pieces = (records.len() / piece) as u64;
        Self::from_pieces(parameters, plane, pieces, |index| &records[index as usize * piece..][..piece])
    }

    /// Encodes the table of a plane from pieces that a function returns, so that not all of them must be in memory at
    /// once. Uses all threads.
    ///
    /// # Errors
    /// If there are no pieces or too many, or one has another length.
    pub fn from_pieces<P: AsRef<[u8]>>(
        parameters: &PirParameters,
        plane: usize,
        pieces: u64,
        piece: impl Fn(u64) -> P + Sync,
    ) -> Result<Self, SchemeError> {
        let shape = DatabaseShape::new(parameters, pieces)?;
        let (ring, table, count) = (parameters.ring(), shape.table(parameters), parameters.pieces() as u64);
        let length = parameters.piece_bytes();
        let mut memory = vec![0; ring.table_words(table) + LINE_WORDS];
        let start = memory.as_ptr().align_offset(CACHE_LINE).min(LINE_WORDS);
        memory.truncate(start + ring.table_words(table));
        let words = &mut memory[start..];
        let encode = |entry: usize| {
            let first = entry as u64 * count;
            let bytes: Vec<P> = (first..(first + count).min(pieces)).map(&piece).collect();
            let bytes: Vec<&[u8]> = bytes.iter().map(AsRef::as_ref).collect();
            if let Some(found) = bytes.iter().map(|piece| piece.len()).find(|&found| found != length) {
                return Err(range("encode a database", found as u64, format!("pieces of {length} bytes")));
            }
            encode_entry(parameters, plane, entry as u64, &bytes.concat())
        };
        let entries = table.rows * table.columns;
        // Transforms a batch on all threads, then writes it to the table.
        const BATCH: usize = 1024;
        for start in (0..entries).step_by(BATCH) {
            let batch = start..entries.min(start + BATCH);
            let polys: Vec<Poly> = batch.into_par_iter().map(encode).collect::<Result<_, _>>()?;
            for (poly, entry) in polys.iter().zip(start..) {
                ring.write_table_entry(table, words, (entry / table.columns, entry % table.columns), poly)?;
            }
        }
        Ok(Database { shape, memory, start, copy: DeviceCopy::default() })
    }

    /// Positions of pieces in the table.
    pub fn shape(&self) -> DatabaseShape {
        self.shape
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words())
    }

    /// The table: residues below 2^32, in the order in which sums read them.
    pub fn words(&self) -> &[u32] {
        &self.memory[self.start..]
    }

    /// View of the table for [`answer`](crate::answer).
    pub fn view(&self) -> TableView<'_> {
        TableView { words: Stored::new(self.words(), &self.copy), changes: &[] }
    }
}

/// View of one plane for computing answers: the words of its table as they were written, and the changes of entries
/// since then.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// The words, in the order of [`unspoken_ring::TableShape`].
    pub words: Stored<'a, u32>,
    /// At most one change for each entry.
    pub changes: &'a [Arc<EntryChange>],
}

/// Change of an entry since its table was written: `new - old`, in the evaluation domain.
#[derive(Debug)]
pub struct EntryChange {
    /// Row of the entry.
    pub row: usize,
    /// Column of the entry.
    pub column: usize,
    /// Polynomial to add to the entry.
    pub difference: Poly,
}
