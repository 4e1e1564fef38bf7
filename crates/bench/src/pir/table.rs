//! A table whose pieces follow from their numbers, encoded in place: a table of 1 GB takes 16 GB and is never there twice.

use std::time::Instant;

use rayon::prelude::*;
use unspoken_pir::{DatabaseShape, PirParameters, TableView, encode_entry};
use unspoken_ring::{Poly, TableShape};

use crate::error::BenchError;

/// Entries that are encoded on all threads before they are put in their places.
const BATCH: usize = 1024;

pub(super) struct Table {
    pub(super) parameters: PirParameters,
    pub(super) shape: DatabaseShape,
    words: Vec<u32>,
    /// Seconds on all threads.
    pub(super) seconds: f64,
}

impl Table {
    /// Encodes a table of as many pieces as fill so many bytes.
    pub(super) fn build(parameters: &PirParameters, bytes: u64) -> Result<Self, BenchError> {
        let shape = DatabaseShape::new(parameters, bytes / parameters.piece_bytes() as u64)?;
        let started = Instant::now();
        let (ring, places) = (parameters.ring(), table_shape(parameters, shape));
        let mut words = vec![0; ring.table_words(places)];
        let pieces = parameters.pieces() as u64;
        let entry = |entry: usize| -> Result<Poly, BenchError> {
            let first = entry as u64 * pieces;
            let bytes: Vec<u8> = (first..first + pieces).flat_map(|index| piece(parameters, index)).collect();
            Ok(encode_entry(parameters, &bytes)?)
        };
        let entries = places.rows * places.columns;
        for start in (0..entries).step_by(BATCH) {
            let batch = start..entries.min(start + BATCH);
            let polys: Vec<Poly> = batch.into_par_iter().map(entry).collect::<Result<_, _>>()?;
            for (poly, entry) in polys.iter().zip(start..) {
                let at = (entry / places.columns, entry % places.columns);
                ring.write_table_entry(places, &mut words, at, Some(poly))?;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Table { parameters: parameters.clone(), shape, words, seconds })
    }

    pub(super) fn places(&self) -> TableShape {
        table_shape(&self.parameters, self.shape)
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    pub(super) fn view(&self) -> TableView<'_> {
        TableView { words: &self.words, changes: &[] }
    }

    /// Bytes of records.
    pub(super) fn bytes(&self) -> u64 {
        self.shape.pieces * self.parameters.piece_bytes() as u64
    }

    /// Bytes of memory for each byte of records.
    pub(super) fn memory_per_byte(&self) -> f64 {
        (self.words.len() * size_of::<u32>()) as f64 / self.bytes() as f64
    }

    pub(super) fn piece(&self, index: u64) -> Vec<u8> {
        piece(&self.parameters, index)
    }
}

fn table_shape(parameters: &PirParameters, shape: DatabaseShape) -> TableShape {
    TableShape { rows: shape.rows, columns: 1 << shape.column_bits, chain: parameters.ring().chain().len() }
}

/// What the piece of a number holds: bytes that look random, so that every coefficient is in use (SplitMix64).
fn piece(parameters: &PirParameters, index: u64) -> Vec<u8> {
    let words = parameters.piece_bytes() as u64 / 8;
    let word = |i: u64| {
        let mut x = (index * words + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    };
    (0..words).flat_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unspoken_pir::{Database, Preset};

    #[test]
    fn the_table_is_the_one_the_product_makes() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let table = Table::build(&parameters, 1 << 18).unwrap();
        let records: Vec<u8> = (0..table.shape.pieces).flat_map(|index| table.piece(index)).collect();
        assert_eq!(records.len() as u64, table.bytes());
        let expected = Database::new(&parameters, records).unwrap();
        assert_eq!(expected.shape(), table.shape);
        assert!(expected.words() == table.words(), "words differ");
        assert_eq!(table.memory_per_byte(), 16.0);
        assert_ne!(table.piece(0), table.piece(1));
    }
}
