//! Placement of records in buckets: a record goes to the emptiest of its candidates. If all are full, other records
//! move.

use crate::error::DatabaseError;

/// Maximum number of moves for one record.
const MOVES: usize = 1000;

/// Buckets with entries of different sizes.
pub(crate) trait Buckets {
    type Entry;

    fn bytes(&self, entry: &Self::Entry) -> usize;
    fn candidates(&self, entry: &Self::Entry) -> Result<Vec<u64>, DatabaseError>;
    /// Free bytes of a bucket.
    fn room(&mut self, bucket: u64) -> Result<usize, DatabaseError>;
    fn put(&mut self, bucket: u64, entry: Self::Entry) -> Result<(), DatabaseError>;
    /// Removes an entry, chosen by the random number `any`; `None` if the bucket is empty.
    fn take(&mut self, bucket: u64, any: u64) -> Result<Option<Self::Entry>, DatabaseError>;
}

/// Random numbers for random walks. They are not secret, and the same for the same seed.
#[derive(Debug)]
pub(crate) struct Random(blake3::OutputReader);

impl Random {
    pub fn new(seed: &[u8]) -> Self {
        Random(blake3::Hasher::new_derive_key("unspoken database: random walks").update(seed).finalize_xof())
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    pub fn next(&mut self) -> u64 {
        let mut word = [0; 8];
        self.fill(&mut word);
        u64::from_le_bytes(word)
    }
}

/// Puts an entry into one of its candidate buckets. If no candidate has room, entries of one candidate move to their
/// other candidates, and so on. Returns whether that succeeded; if not, some entries are in no bucket.
pub(crate) fn place<B: Buckets>(buckets: &mut B, entry: B::Entry, random: &mut Random) -> Result<bool, DatabaseError> {
    let (mut unplaced, mut moves) = (vec![entry], 0);
    while let Some(entry) = unplaced.pop() {
        let (bytes, candidates) = (buckets.bytes(&entry), buckets.candidates(&entry)?);
        let mut best: Option<(usize, u64)> = None;
        for &bucket in &candidates {
            let room = buckets.room(bucket)?;
            if room >= bytes && best.is_none_or(|(most, _)| room > most) {
                best = Some((room, bucket));
            }
        }
        if let Some((_, bucket)) = best {
            buckets.put(bucket, entry)?;
            continue;
        }
        moves += 1;
        let any = random.next() % candidates.len().max(1) as u64;
        let Some(&bucket) = candidates.get(any as usize).filter(|_| moves <= MOVES) else { return Ok(false) };
        while buckets.room(bucket)? < bytes {
            match buckets.take(bucket, random.next())? {
                Some(evicted) => unplaced.push(evicted),
                None => return Ok(false),
            }
        }
        buckets.put(bucket, entry)?;
    }
    Ok(true)
}
