//! Tags of keys, their candidate buckets, and search for records in buckets.

use zeroize::{Zeroizing, zeroize_stack};

use super::bucket::Bucket;
use super::tag::{TAG_BYTES, Tag};
use super::{Layout, MAX_CANDIDATES};
use crate::entry::HASH_STACK_BYTES;
use crate::error::SchemeError;

/// Purpose of a hash under the layout's seed.
#[derive(Clone, Copy)]
enum Purpose {
    Tag = 1,
    Buckets = 2,
}

impl Layout {
    /// The tag of a key.
    ///
    /// # Errors
    /// If the database is read by index.
    pub fn tag(&self, key: &[u8]) -> Result<Tag, SchemeError> {
        let mut tag = [0; TAG_BYTES];
        self.hash(Purpose::Tag, key, &mut tag)?;
        Ok(Tag(tag))
    }

    /// The buckets that a record with this tag may be in: the layout's number of candidates, all different.
    ///
    /// # Errors
    /// If the database is read by index.
    pub fn buckets_of(&self, tag: Tag) -> Result<Vec<u64>, SchemeError> {
        let Layout::Keys { buckets, candidates, .. } = *self else { return Err(by_index()) };
        let mut words = [[0; 8]; MAX_CANDIDATES as usize];
        self.hash(Purpose::Buckets, &tag.0, words.as_flattened_mut())?;
        let mut chosen: Vec<u64> = Vec::with_capacity(candidates as usize);
        for (taken, word) in (0..u64::from(candidates)).zip(words) {
            let left = buckets.saturating_sub(taken);
            // Choose one of the buckets that are left, by skipping those already chosen in ascending order.
            let mut bucket = ((u128::from(u64::from_le_bytes(word)) * u128::from(left)) >> 64) as u64;
            for taken in sorted(&chosen) {
                bucket += u64::from(bucket >= taken);
            }
            chosen.push(bucket);
        }
        Ok(chosen)
    }

    /// The buckets that the record of a key may be in.
    ///
    /// # Errors
    /// If the database is read by index.
    pub fn candidates(&self, key: &[u8]) -> Result<Zeroizing<Vec<u64>>, SchemeError> {
        Ok(Zeroizing::new(self.buckets_of(self.tag(key)?)?))
    }

    /// Finds the record of a key in the cells of its [`Layout::candidates`], as a part of one of them. The cells may
    /// have zeros appended.
    ///
    /// # Errors
    /// If there are more or fewer cells than candidates, one is not of this layout, or the database is read by index.
    pub fn find<'a>(&self, key: &[u8], cells: &'a [impl AsRef<[u8]>]) -> Result<Option<&'a [u8]>, SchemeError> {
        let Layout::Keys { candidates, .. } = *self else { return Err(by_index()) };
        if cells.len() != candidates as usize {
            return Err(SchemeError::Cell { what: "there is not one for each candidate of the key" });
        }
        let tag = self.tag(key)?;
        let mut found = None;
        for cell in cells {
            let Some(value) = Bucket::find(self.content(cell.as_ref())?, tag)? else { continue };
            if found.replace(value).is_some() {
                return Err(SchemeError::Cell { what: "two buckets have a record of the key" });
            }
        }
        Ok(found)
    }

    /// Keyed hash of secret input. Wipes the stack that it used.
    fn hash(&self, purpose: Purpose, message: &[u8], out: &mut [u8]) -> Result<(), SchemeError> {
        #[inline(never)]
        fn fill(key: &[u8; blake3::KEY_LEN], message: &[u8], out: &mut [u8]) {
            blake3::Hasher::new_keyed(key).update(message).finalize_xof().fill(out);
        }
        let Layout::Keys { seed, .. } = *self else { return Err(by_index()) };
        let mut key = [0; blake3::KEY_LEN];
        key[..16].copy_from_slice(&seed);
        key[16] = purpose as u8;
        fill(&key, message, out);
        zeroize_stack::<HASH_STACK_BYTES>();
        Ok(())
    }
}

/// The numbers in ascending order. They tell the key, so no branch depends on them; there are at most two.
fn sorted(numbers: &[u64]) -> Vec<u64> {
    let mut sorted = numbers.to_vec();
    for end in (1..sorted.len()).rev() {
        for i in 0..end {
            (sorted[i], sorted[i + 1]) = (sorted[i].min(sorted[i + 1]), sorted[i].max(sorted[i + 1]));
        }
    }
    sorted
}

fn by_index() -> SchemeError {
    SchemeError::Kind { operation: "ask by key", found: "index" }
}
