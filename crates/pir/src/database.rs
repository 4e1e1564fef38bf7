//! A table of records, encoded and transformed.

use std::sync::Arc;

use rayon::prelude::*;
use unspoken_ring::Poly;
use zeroize::Zeroizing;

use crate::error::{PirError, range};
use crate::parameters::PirParameters;
use crate::shape::DatabaseShape;

/// A table in memory.
pub struct Database {
    parameters: PirParameters,
    shape: DatabaseShape,
    words: Vec<u32>,
    /// What the entries were made of: pieces one after the other.
    records: Vec<u8>,
}

impl Database {
    /// Encodes pieces of equal length ([`PirParameters::piece_bytes`]), one after the other. On all threads.
    ///
    /// # Errors
    /// If the bytes are not a whole number of pieces, or too many.
    pub fn new(parameters: &PirParameters, records: Vec<u8>) -> Result<Self, PirError> {
        let piece = parameters.piece_bytes();
        if !records.len().is_multiple_of(piece) {
            return Err(range("encode a database", records.len() as u64, format!("a multiple of {piece} bytes")));
        }
        let shape = DatabaseShape::new(parameters, (records.len() / piece) as u64)?;
        let table = shape.table(parameters);
        let words = vec![0; parameters.ring().table_words(table)];
        let mut database = Database { parameters: parameters.clone(), shape, words, records };
        let entries = table.rows * table.columns;
        // A batch of transforms on all threads, then their places in the table.
        const BATCH: usize = 1024;
        for start in (0..entries).step_by(BATCH) {
            let encode = |entry: usize| database.encode(entry);
            let polys: Vec<Poly> =
                (start..entries.min(start + BATCH)).into_par_iter().map(encode).collect::<Result<_, _>>()?;
            for (poly, entry) in polys.iter().zip(start..) {
                let at = (entry / table.columns, entry % table.columns);
                parameters.ring().write_table_entry(table, &mut database.words, at, Some(poly))?;
            }
        }
        Ok(database)
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// Where pieces lie.
    pub fn shape(&self) -> DatabaseShape {
        self.shape
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u32>()
    }

    /// The table: residues below 2^32, in the order in which sums read them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// What answers are computed from.
    pub fn view(&self) -> TableView<'_> {
        TableView { words: &self.words, changes: &[] }
    }

    /// Overwrites a piece: one entry is encoded again, nothing else changes.
    ///
    /// # Errors
    /// If there is no such piece, or it has another length.
    pub fn write(&mut self, index: u64, piece: &[u8]) -> Result<(), PirError> {
        let length = self.parameters.piece_bytes();
        if index >= self.shape.pieces {
            return Err(range("write a record", index, format!("an index below {}", self.shape.pieces)));
        }
        if piece.len() != length {
            return Err(range("write a record", piece.len() as u64, format!("{length} bytes")));
        }
        self.records[index as usize * length..][..length].copy_from_slice(piece);
        let (row, column, _) = self.shape.position(index);
        let table = self.shape.table(&self.parameters);
        let poly = self.encode(row * table.columns + column)?;
        Ok(self.parameters.ring().write_table_entry(table, &mut self.words, (row, column), Some(&poly))?)
    }

    fn encode(&self, entry: usize) -> Result<Poly, PirError> {
        let bytes = self.parameters.pieces() * self.parameters.piece_bytes();
        let start = (entry * bytes).min(self.records.len());
        let end = (start + bytes).min(self.records.len());
        encode_entry(&self.parameters, &self.records[start..end])
    }
}

/// What is to be summed over for one plane: the words of a table as they were written, and what its entries have changed
/// by since.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// The words, in the order of [`unspoken_ring::TableShape`].
    pub words: &'a [u32],
    /// At most one change for each entry.
    pub changes: &'a [Arc<EntryChange>],
}

/// What an entry of a table has changed by since the table was written: `new - old`, in the evaluation domain.
#[derive(Debug)]
pub struct EntryChange {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// What to add to it.
    pub difference: Poly,
}

/// An entry of a table: consecutive pieces, as many as [`PirParameters::pieces`]. Piece `k` is in the coefficients that are
/// `k` modulo the number of pieces, centred around zero. Bytes that are missing at the end count as zeros.
///
/// # Errors
/// If there are too many bytes.
pub fn encode_entry(parameters: &PirParameters, pieces: &[u8]) -> Result<Poly, PirError> {
    let (ring, count, length) = (parameters.ring(), parameters.pieces(), parameters.piece_bytes());
    if pieces.len() > count * length {
        let needed = format!("at most {} bytes", count * length);
        return Err(range("encode an entry of a table", pieces.len() as u64, needed));
    }
    let bits = parameters.literal().plaintext_bits;
    let half = 1 << (bits - 1);
    // Wiped, because entries of encrypted databases are encoded here, too.
    let mut coefficients = Zeroizing::new(vec![0; ring.degree()]);
    for (place, piece) in pieces.chunks(length).enumerate() {
        for (i, unit) in units(piece, bits).enumerate() {
            coefficients[i * count + place] = (unit ^ half) - half;
        }
    }
    Ok(ring.evaluate_i32(&coefficients, ring.basis())?)
}

/// Bytes as numbers of `bits` bits, a divisor of 8, the lowest first.
fn units(bytes: &[u8], bits: u32) -> impl Iterator<Item = i32> {
    bytes.iter().flat_map(move |&byte| (0..8 / bits).map(move |i| i32::from(byte) >> (i * bits) & ((1 << bits) - 1)))
}

/// The inverse of [`units`], for numbers modulo `2^bits`.
pub(crate) fn bytes_of(units: &[i32], bits: u32) -> Vec<u8> {
    let byte = |units: &[i32]| units.iter().rev().fold(0, |byte, unit| byte << bits | (unit & ((1 << bits) - 1)));
    units.chunks((8 / bits) as usize).map(|units| byte(units) as u8).collect()
}
