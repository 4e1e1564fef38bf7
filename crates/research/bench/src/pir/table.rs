//! A table whose pieces are computed from their indices: a table of 1 GB needs 16 GB of memory, and its records are
//! never in memory at the same time.

use std::time::Instant;

use unspoken_pir_scheme::{Database, DatabaseShape, PirParameters, TableView};
use unspoken_ring::TableShape;

pub(super) struct Table {
    pub(super) parameters: PirParameters,
    pub(super) shape: DatabaseShape,
    database: Database,
    /// Seconds on all threads.
    pub(super) seconds: f64,
}

impl Table {
    /// Encodes a table with enough pieces to fill this many bytes.
    pub(super) fn build(parameters: &PirParameters, bytes: u64) -> anyhow::Result<Self> {
        let pieces = bytes / parameters.piece_bytes() as u64;
        let started = Instant::now();
        let database = Database::from_pieces(parameters, 0, pieces, |index| record(index, parameters.piece_bytes()))?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Table { parameters: parameters.clone(), shape: database.shape(), database, seconds })
    }

    pub(super) fn places(&self) -> TableShape {
        self.shape.table(&self.parameters)
    }

    pub(super) fn words(&self) -> &[u32] {
        self.database.words()
    }

    pub(super) fn view(&self) -> TableView<'_> {
        self.database.view()
    }

    /// Bytes of records.
    pub(super) fn bytes(&self) -> u64 {
        self.shape.pieces * self.parameters.piece_bytes() as u64
    }

    /// Bytes of memory for each byte of records.
    pub(super) fn memory_per_byte(&self) -> f64 {
        self.database.bytes() as f64 / self.bytes() as f64
    }

    pub(super) fn piece(&self, index: u64) -> Vec<u8> {
        record(index, self.parameters.piece_bytes())
    }
}

/// The content of the record with this index: pseudorandom bytes (SplitMix64), so that every coefficient is in use.
pub(super) fn record(index: u64, bytes: usize) -> Vec<u8> {
    let words = bytes as u64 / 8;
    let word = |i: u64| {
        let mut x = (index * words + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    };
    (0..words).flat_map(word).collect()
}
