//! Layouts of databases: how a client turns an index or a key into cells of the tables, and cells into a record. A
//! layout does not change when records change.

mod bucket;
mod index;
mod keys;
mod padding;
mod plan;
mod tag;

pub use bucket::{BUCKET_OVERHEAD, Bucket};
pub use plan::KeysPlan;
use serde::{Deserialize, Serialize};
pub use tag::Tag;

use crate::error::{SchemeError, range};
use crate::layout::padding::is_zero;
use crate::mode::Mode;
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters};
use crate::table_kind::TableKind;

/// Maximum number of pieces in all planes together.
const MAX_PIECES: u64 = 1 << 32;

/// Maximum number of candidate buckets of a key.
const MAX_CANDIDATES: u32 = 3;

/// Bytes in front of a record of variable length: its length and one, or zero where there is no record.
const LENGTH_BYTES: usize = 4;

/// Length of records that are read by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Length {
    /// All records have this number of bytes. A cell is the record and nothing else.
    Fixed(u32),
    /// Records have at most `max` bytes or are absent. A cell has four bytes more than the longest record.
    Variable {
        /// Bytes of the longest record there is room for.
        max: u32,
    },
}

/// Layout of records in cells. All cells of a database have the same length; cell `i` is piece `i` of each plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// Records are read by index: record `i` is in cell `i`.
    Index {
        /// Records there is room for.
        records: u64,
        /// Their length.
        length: Length,
    },
    /// Records are read by key: a record is in one of the candidate buckets of its key; a bucket is a cell.
    Keys {
        /// Number of buckets.
        buckets: u64,
        /// Bytes of a bucket.
        bucket_bytes: u32,
        /// Buckets that a record may be in: 1 to 3.
        candidates: u32,
        /// Public seed of the hashes that map keys to tags and buckets.
        seed: [u8; 16],
    },
}

impl Layout {
    /// Checks a layout from an untrusted source, for tables of a kind. Afterwards no product of its numbers overflows.
    ///
    /// # Errors
    /// If a number is outside its limits.
    pub fn check(&self, parameters: &PirParameters, kind: TableKind) -> Result<(), SchemeError> {
        let limit = |what, found: u64, least: u64, most: u64| match (least..=most).contains(&found) {
            true => Ok(()),
            false => Err(range(what, found, format!("{least} to {most}"))),
        };
        let (most_bytes, most_cells) = (kind.most_cell_bytes(parameters) as u64, kind.most_cells());
        let cell_bytes = match *self {
            Layout::Index { length: Length::Fixed(bytes), .. } => bytes.into(),
            Layout::Index { length: Length::Variable { max }, .. } => u64::from(max) + LENGTH_BYTES as u64,
            Layout::Keys { buckets, bucket_bytes, candidates, .. } => {
                limit("layout: candidate buckets of a key", candidates.into(), 1, MAX_CANDIDATES.into())?;
                limit("layout: buckets", buckets, candidates.into(), most_cells)?;
                limit("layout: bytes of a bucket", bucket_bytes.into(), bucket::MIN_BYTES as u64, most_bytes)?;
                bucket_bytes.into()
            }
        };
        limit("layout: bytes of a cell", cell_bytes, 0, most_bytes)?;
        limit("layout: cells", self.cells(), 1, most_cells)?;
        let planes = self.planes(parameters, kind) as u64;
        limit("layout: pieces in all planes", self.cells() * planes, 1, MAX_PIECES)?;
        // A record is correct only if all responses that it consists of are correct.
        let responses = planes * if let Layout::Keys { candidates, .. } = *self { candidates.into() } else { 1 };
        let shape = kind.shape(parameters, self.cells(), self.cell_bytes())?;
        let found = shape.log2_failure(parameters, Mode::Packed)? + (responses as f64).log2();
        match found <= MAX_LOG2_FAILURE {
            true => Ok(()),
            false => {
                let needed = format!("so few that one is wrong at most once in 2^{:.0}", -MAX_LOG2_FAILURE);
                Err(range("layout: responses for a record", responses, needed))
            }
        }
    }

    /// Cells of each plane.
    pub fn cells(&self) -> u64 {
        match *self {
            Layout::Index { records, .. } => records,
            Layout::Keys { buckets, .. } => buckets,
        }
    }

    /// Bytes of a cell before padding. Responses carry whole pieces, padded with zeros.
    pub fn cell_bytes(&self) -> usize {
        match *self {
            Layout::Index { length: Length::Fixed(bytes), .. } => bytes as usize,
            Layout::Index { length: Length::Variable { max }, .. } => max as usize + LENGTH_BYTES,
            Layout::Keys { bucket_bytes, .. } => bucket_bytes as usize,
        }
    }

    /// Number of planes of a kind of tables: pieces of a cell. At least one.
    pub(crate) fn planes(&self, parameters: &PirParameters, kind: TableKind) -> usize {
        self.cell_bytes().div_ceil(kind.piece_bytes(parameters, self.cell_bytes())).max(1)
    }

    /// The part of a cell before padding.
    fn content<'a>(&self, cell: &'a [u8]) -> Result<&'a [u8], SchemeError> {
        let Some((content, padding)) = cell.split_at_checked(self.cell_bytes()) else {
            return Err(SchemeError::Cell { what: "it is too short" });
        };
        match is_zero(padding) {
            true => Ok(content),
            false => Err(SchemeError::Cell { what: "what follows it is not zero" }),
        }
    }
}

#[cfg(test)]
mod tests;
