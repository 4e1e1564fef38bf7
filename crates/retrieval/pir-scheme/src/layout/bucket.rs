//! Buckets: records with the tags of their keys, sorted by tag.
//!
//! A bucket consists of the number of its entries (2 bytes, little-endian), the entries, and padding with zeros. An
//! entry consists of a tag of 12 bytes, the length of the value in groups of 7 bits (lowest first, the highest bit set
//! in all groups but the last), and the value.

use super::padding::is_zero;
use super::tag::Tag;
use crate::error::SchemeError;

/// Bytes of a bucket that entries cannot use.
pub const BUCKET_OVERHEAD: usize = 2;

/// Bytes of a bucket that holds one empty value.
pub(super) const MIN_BYTES: usize = BUCKET_OVERHEAD + Bucket::entry_bytes(0);

/// The records of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    entries: Vec<(Tag, Vec<u8>)>,
}

impl Bucket {
    /// Bytes of the longest value whose entry has at most `bytes` bytes.
    pub const fn longest_value(bytes: usize) -> usize {
        let mut longest = bytes.saturating_sub(Self::entry_bytes(0));
        while longest > 0 && Self::entry_bytes(longest) > bytes {
            longest -= 1;
        }
        longest
    }

    /// Bytes of an entry with a value of `value_bytes` bytes: tag, length and value.
    pub const fn entry_bytes(value_bytes: usize) -> usize {
        let mut bytes = size_of::<Tag>() + 1 + value_bytes;
        let mut rest = value_bytes >> 7;
        while rest > 0 {
            bytes += 1;
            rest >>= 7;
        }
        bytes
    }

    /// Reads the bytes of a whole bucket.
    ///
    /// # Errors
    /// If [`Bucket::to_bytes`] does not write such bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, SchemeError> {
        let mut entries = Vec::new();
        Self::for_each_entry(bytes, |tag, value| entries.push((tag, value.to_vec())))?;
        Ok(Bucket { entries })
    }

    /// Finds the value with a tag in the bytes of a whole bucket, without copying values.
    ///
    /// # Errors
    /// As for [`Bucket::read`].
    pub fn find(bytes: &[u8], tag: Tag) -> Result<Option<&[u8]>, SchemeError> {
        let mut found = None;
        Self::for_each_entry(bytes, |other, value| found = if other == tag { Some(value) } else { found })?;
        Ok(found)
    }

    fn for_each_entry<'a>(bytes: &'a [u8], mut entry: impl FnMut(Tag, &'a [u8])) -> Result<(), SchemeError> {
        let fail = |what| Err(SchemeError::Cell { what });
        let Some((count, mut rest)) = bytes.split_first_chunk() else { return fail("it is too short") };
        let mut last = None;
        for _ in 0..u16::from_le_bytes(*count) {
            let Some((tag, after)) = rest.split_first_chunk() else { return fail("an entry is cut off") };
            let tag = Tag(*tag);
            if last.is_some_and(|last| last >= tag) {
                return fail("its entries are not in order");
            }
            last = Some(tag);
            let Some((length, after)) = read_length(after) else { return fail("the length of an entry is wrong") };
            let Some((value, after)) = after.split_at_checked(length) else { return fail("an entry is cut off") };
            entry(tag, value);
            rest = after;
        }
        match is_zero(rest) {
            true => Ok(()),
            false => fail("what follows its entries is not zero"),
        }
    }

    /// The bytes of a whole bucket.
    ///
    /// # Errors
    /// If the entries need more than `bucket_bytes`.
    pub fn to_bytes(&self, bucket_bytes: usize) -> Result<Vec<u8>, SchemeError> {
        let found = self.bytes();
        let count = u16::try_from(self.entries.len()).ok().filter(|_| found <= bucket_bytes);
        let Some(count) = count else {
            return Err(SchemeError::Length { found, needed: format!("buckets have {bucket_bytes} bytes") });
        };
        let mut bytes = Vec::with_capacity(bucket_bytes);
        bytes.extend_from_slice(&count.to_le_bytes());
        for (tag, value) in &self.entries {
            bytes.extend_from_slice(&tag.0);
            write_length(&mut bytes, value.len());
            bytes.extend_from_slice(value);
        }
        bytes.resize(bucket_bytes, 0);
        Ok(bytes)
    }

    /// Bytes that the bucket needs.
    pub fn bytes(&self) -> usize {
        BUCKET_OVERHEAD + self.entries.iter().map(|(_, value)| Bucket::entry_bytes(value.len())).sum::<usize>()
    }

    /// Entries, sorted by tag.
    pub fn entries(&self) -> &[(Tag, Vec<u8>)] {
        &self.entries
    }

    /// Adds an entry, or overwrites the entry with the same tag and returns the old value.
    pub fn insert(&mut self, tag: Tag, value: Vec<u8>) -> Option<Vec<u8>> {
        let mut value = value;
        match self.entries.binary_search_by_key(&tag, |(tag, _)| *tag) {
            Ok(at) => self.entries.get_mut(at).map(|(_, old)| {
                std::mem::swap(old, &mut value);
                value
            }),
            Err(at) => {
                self.entries.insert(at, (tag, value));
                None
            }
        }
    }

    /// The value with a tag.
    pub fn get(&self, tag: Tag) -> Option<&[u8]> {
        self.entries.iter().find(|(found, _)| *found == tag).map(|(_, value)| value.as_slice())
    }

    /// Removes an entry and returns its value.
    pub fn remove(&mut self, tag: Tag) -> Option<Vec<u8>> {
        let at = self.entries.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
        Some(self.entries.remove(at).1)
    }
}

fn write_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// Reads a length and returns it with the rest of the bytes. It must have the shortest encoding and at most 4 bytes.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for (i, &byte) in bytes.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (byte != 0 || i == 0).then(|| (length, &bytes[i + 1..]));
        }
    }
    None
}
