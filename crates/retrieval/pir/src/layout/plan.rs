//! Planning of layouts: number and size of cells.

use super::{BUCKET_OVERHEAD, Bucket, Layout, LayoutError, Length, MAX_PLANES};
use crate::parameters::PirParameters;
use crate::shape::DatabaseShape;

/// Minimum room of a bucket, in average entries. The second number is for one candidate, where an entry has no choice
/// between buckets: larger buckets overflow less often.
const ENTRIES: [usize; 2] = [4, 24];

/// Factor by which the load may be exceeded if the table then needs one index bit less.
const STRETCH: f64 = 1.06;

/// Requirements of the buckets of a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeysPlan {
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
    pub fn new(candidates: u32, seed: [u8; 16]) -> Self {
        let load = match candidates {
            0 | 1 => 0.5,
            2 => 0.85,
            _ => 0.9,
        };
        KeysPlan { candidates, load, keys: 0, longest: 0, seed }
    }
}

impl Layout {
    /// Plans buckets for values of these lengths. Each has room for the longest entry and some average ones, in whole
    /// pieces. Their number is as small as the load allows, and then rounded up to fill the table's last row.
    ///
    /// # Errors
    /// If the plan is outside its limits, or the values do not fit into any layout.
    pub fn for_keys(
        parameters: &PirParameters,
        value_lengths: impl IntoIterator<Item = usize>,
        plan: &KeysPlan,
    ) -> Result<Layout, LayoutError> {
        let (mut count, mut total, mut longest) = (0u64, 0u64, Bucket::entry_bytes(plan.longest));
        for length in value_lengths {
            let bytes = Bucket::entry_bytes(length);
            (count, total, longest) = (count + 1, total + bytes as u64, longest.max(bytes));
        }
        if !(plan.load > 0.0 && plan.load <= 1.0) {
            let (what, found) = ("per cent of the buckets to use", (plan.load * 100.0) as u64);
            return Err(LayoutError::Limit { what, found, needed: "1 to 100".into() });
        }
        let average = if count == 0 { longest as f64 } else { total as f64 / count as f64 };
        let total = average * count.max(plan.keys) as f64;
        let piece = parameters.piece_bytes();
        let entries = ENTRIES[usize::from(plan.candidates == 1)];
        let most = MAX_PLANES * piece - BUCKET_OVERHEAD;
        // Neither more than all entries need, nor more than a bucket may have.
        let several = (average * entries as f64).min(total).ceil() as usize;
        let least = BUCKET_OVERHEAD + longest.max(several.min(most));
        let mut refused = LayoutError::Length { found: least, needed: format!("buckets have at most {most} bytes") };
        // Use larger buckets if there would be more than an index can address, or more than queries find reliably.
        for planes in least.div_ceil(piece)..=MAX_PLANES {
            let needed = (total / (plan.load * (planes * piece - BUCKET_OVERHEAD) as f64)).ceil() as u64;
            let layout = |buckets| {
                let (bucket_bytes, candidates, seed) = ((planes * piece) as u32, plan.candidates, plan.seed);
                let layout = Layout::Keys { buckets, bucket_bytes, candidates, seed };
                layout.check(parameters).map(|()| layout)
            };
            match rounded(parameters, needed.max(plan.candidates.into()), plan.load).and_then(layout) {
                Ok(layout) => return Ok(layout),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Plans cells for records of these lengths, fixed if all are equal and variable otherwise. There is room for at
    /// least `capacity` records and for records of at least `longest` bytes.
    ///
    /// # Errors
    /// If there are too many records, or one is too long.
    pub fn for_index(
        parameters: &PirParameters,
        lengths: impl IntoIterator<Item = usize>,
        capacity: u64,
        longest: usize,
    ) -> Result<Layout, LayoutError> {
        let (mut count, mut shortest, mut longest) = (0u64, usize::MAX, longest);
        for length in lengths {
            (count, shortest, longest) = (count + 1, shortest.min(length), longest.max(length));
        }
        let most = MAX_PLANES * parameters.piece_bytes();
        let Some(max) = u32::try_from(longest).ok().filter(|_| longest <= most) else {
            return Err(LayoutError::Length { found: longest, needed: format!("at most {most} bytes") });
        };
        let length =
            if shortest == longest && capacity <= count { Length::Fixed(max) } else { Length::Variable { max } };
        let layout = Layout::Index { records: count.max(capacity), length };
        layout.check(parameters)?;
        Ok(layout)
    }
}

/// Rounds a number of buckets up to fill the rows that `needed` buckets use, or down to a power of two that is slightly
/// less.
fn rounded(parameters: &PirParameters, needed: u64, load: f64) -> Result<u64, LayoutError> {
    let below = 1u64 << needed.ilog2();
    let stretched = load * needed as f64 / below as f64;
    if needed > below && below >= 16 && needed as f64 <= STRETCH * below as f64 && stretched <= 0.95 {
        return Ok(below);
    }
    let shape = DatabaseShape::new(parameters, needed)?;
    Ok((shape.rows as u64) << (shape.column_bits + shape.piece_bits))
}
