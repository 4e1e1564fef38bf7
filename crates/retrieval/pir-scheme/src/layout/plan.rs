//! Planning of layouts: number and size of cells.

use super::bucket::{BUCKET_OVERHEAD, Bucket};
use super::{Layout, Length};
use crate::error::{SchemeError, range};
use crate::parameters::PirParameters;
use crate::table_kind::{MAX_PLANES, TableKind};

/// Minimum room of a bucket, in average entries. The second number is for one candidate, where an entry has no choice
/// between buckets: larger buckets overflow less often.
const ENTRIES: [usize; 2] = [4, 24];

/// Factor by which the load may be exceeded if the table then needs one index bit less.
const STRETCH: f64 = 1.06;

/// Requirements of the buckets of a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeysPlan {
    /// The kind of the tables.
    pub tables: TableKind,
    /// Buckets that a record may be in: 1 to 3. A query reads all of them.
    pub candidates: u32,
    /// Fraction of the buckets' bytes that entries may use.
    pub load: f64,
    /// Minimum number of keys to make room for. Additional keys are assumed to have records of average length.
    pub keys: u64,
    /// Minimum length of the longest value to make room for, in bytes.
    pub longest: usize,
    /// Seed of the hashes that map keys to tags and buckets.
    pub seed: [u8; 16],
}

impl KeysPlan {
    /// A plan with the load that the placement of records reaches with this number of candidates, and no room for more
    /// keys.
    pub fn new(tables: TableKind, candidates: u32, seed: [u8; 16]) -> Self {
        let load = match candidates {
            0 | 1 => 0.5,
            2 => 0.85,
            _ => 0.9,
        };
        KeysPlan { tables, candidates, load, keys: 0, longest: 0, seed }
    }
}

impl Layout {
    /// Plans buckets for values of these lengths. Each bucket has room for the longest entry and some average entries,
    /// in whole pieces, or in one piece of the bucket's length if such tables have these. The number of buckets is as
    /// small as the load allows, then rounded up to fill the table's last row.
    ///
    /// # Errors
    /// If the plan is outside its limits, or the values do not fit into any layout.
    pub fn for_keys(
        parameters: &PirParameters,
        value_lengths: impl IntoIterator<Item = usize>,
        plan: &KeysPlan,
    ) -> Result<Layout, SchemeError> {
        let (mut count, mut total, mut longest_value) = (0u64, 0u64, plan.longest);
        for length in value_lengths {
            let bytes = Bucket::entry_bytes(length);
            (count, total, longest_value) = (count + 1, total + bytes as u64, longest_value.max(length));
        }
        let longest = Bucket::entry_bytes(longest_value);
        if !(plan.load > 0.0 && plan.load <= 1.0) {
            let found = (plan.load * 100.0) as u64;
            return Err(range("layout: per cent of the buckets to use", found, "1 to 100"));
        }
        let average = if count == 0 { longest as f64 } else { total as f64 / count as f64 };
        let total = average * count.max(plan.keys) as f64;
        let entries = ENTRIES[usize::from(plan.candidates == 1)];
        let most = plan.tables.most_cell_bytes(parameters) - BUCKET_OVERHEAD;
        // Neither more than all entries need, nor more than a bucket may have.
        let several = (average * entries as f64).min(total).ceil() as usize;
        let least = BUCKET_OVERHEAD + longest.max(several.min(most));
        let needed = format!("at most {} bytes", Bucket::longest_value(most));
        let mut refused = SchemeError::Length { found: longest_value, needed };
        // Use larger buckets if there would be more than an index can address, or more than queries find reliably.
        for bytes in bucket_sizes(parameters, plan.tables).filter(|&bytes| bytes >= least) {
            let needed = (total / (plan.load * (bytes - BUCKET_OVERHEAD) as f64)).ceil() as u64;
            let layout = |buckets| {
                let (bucket_bytes, candidates, seed) = (bytes as u32, plan.candidates, plan.seed);
                let layout = Layout::Keys { buckets, bucket_bytes, candidates, seed };
                layout.check(parameters, plan.tables).map(|()| layout)
            };
            match rounded(parameters, plan, bytes, needed.max(plan.candidates.into())).and_then(layout) {
                Ok(layout) => return Ok(layout),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Bytes of the longest record for which there is a layout, by key or by index. By index, records of different
    /// lengths have 4 bytes less.
    pub fn longest_record(parameters: &PirParameters, tables: TableKind, by_key: bool) -> usize {
        let most = tables.most_cell_bytes(parameters);
        if by_key { Bucket::longest_value(most - BUCKET_OVERHEAD) } else { most }
    }

    /// Plans cells for records of these lengths, fixed if all are equal and variable otherwise. There is room for at
    /// least `capacity` records and for records of at least `longest` bytes.
    ///
    /// # Errors
    /// If there are too many records, or one is too long.
    pub fn for_index(
        parameters: &PirParameters,
        tables: TableKind,
        lengths: impl IntoIterator<Item = usize>,
        (capacity, longest): (u64, usize),
    ) -> Result<Layout, SchemeError> {
        let (mut count, mut shortest, mut longest) = (0u64, usize::MAX, longest);
        for length in lengths {
            (count, shortest, longest) = (count + 1, shortest.min(length), longest.max(length));
        }
        let most = tables.most_cell_bytes(parameters);
        let Some(max) = u32::try_from(longest).ok().filter(|_| longest <= most) else {
            return Err(SchemeError::Length { found: longest, needed: format!("at most {most} bytes") });
        };
        let length =
            if shortest == longest && capacity <= count { Length::Fixed(max) } else { Length::Variable { max } };
        let layout = Layout::Index { records: count.max(capacity), length };
        layout.check(parameters, tables)?;
        Ok(layout)
    }
}

/// The lengths that buckets may have, in ascending order: those without padding in tables of this kind.
fn bucket_sizes(parameters: &PirParameters, tables: TableKind) -> impl Iterator<Item = usize> {
    let (least, most) = (tables.piece_bytes(parameters, 0), tables.piece_bytes(parameters, usize::MAX));
    let single = std::iter::successors(Some(least), |bytes| Some(2 * bytes)).take_while(move |&bytes| bytes < most);
    single.chain((1..=MAX_PLANES).map(move |planes| planes * most))
}

/// Rounds a number of buckets of a length up to fill the rows that they use, or down to a power of two that is slightly
/// less.
fn rounded(parameters: &PirParameters, plan: &KeysPlan, bytes: usize, needed: u64) -> Result<u64, SchemeError> {
    let below = 1u64 << needed.ilog2();
    let stretched = plan.load * needed as f64 / below as f64;
    if needed > below && below >= 16 && needed as f64 <= STRETCH * below as f64 && stretched <= 0.95 {
        return Ok(below);
    }
    let row = plan.tables.shape(parameters, needed, bytes)?.row_cells(parameters);
    Ok(needed.next_multiple_of(row))
}
