//! Buckets changed by an operation, held until it is known whether the operation succeeds.

use std::collections::BTreeMap;

use unspoken_pir_scheme::Layout;
use unspoken_pir_scheme::layout::{Bucket, Tag};

use crate::error::DatabaseError;
use crate::place::Buckets;

/// Buckets, read on demand.
pub(crate) struct EditedBuckets<F> {
    layout: Layout,
    read: F,
    buckets: BTreeMap<u64, Bucket>,
}

impl<F: Fn(u64) -> Vec<u8>> EditedBuckets<F> {
    /// No buckets yet. `read` returns the bytes of a bucket.
    pub fn new(layout: Layout, read: F) -> Self {
        EditedBuckets { layout, read, buckets: BTreeMap::new() }
    }

    /// Removes the entry with a tag and returns whether there was one.
    pub fn remove(&mut self, tag: Tag) -> Result<bool, DatabaseError> {
        let mut found = false;
        for bucket in self.layout.buckets_of(tag)? {
            found |= self.bucket(bucket)?.remove(tag).is_some();
        }
        Ok(found)
    }

    /// The bytes of all buckets that were read.
    pub fn into_cells(self) -> Result<Vec<(u64, Vec<u8>)>, DatabaseError> {
        let bytes = self.layout.cell_bytes();
        self.buckets.into_iter().map(|(number, bucket)| Ok((number, bucket.to_bytes(bytes)?))).collect()
    }

    fn bucket(&mut self, number: u64) -> Result<&mut Bucket, DatabaseError> {
        Ok(match self.buckets.entry(number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Bucket::read(&(self.read)(number))?),
        })
    }
}

impl<F: Fn(u64) -> Vec<u8>> Buckets for EditedBuckets<F> {
    type Entry = (Tag, Vec<u8>);

    fn bytes(&self, (_, value): &Self::Entry) -> usize {
        Bucket::entry_bytes(value.len())
    }

    fn candidates(&self, (tag, _): &Self::Entry) -> Result<Vec<u64>, DatabaseError> {
        Ok(self.layout.buckets_of(*tag)?)
    }

    fn room(&mut self, bucket: u64) -> Result<usize, DatabaseError> {
        Ok(self.layout.cell_bytes().saturating_sub(self.bucket(bucket)?.bytes()))
    }

    fn put(&mut self, bucket: u64, (tag, value): Self::Entry) -> Result<(), DatabaseError> {
        self.bucket(bucket)?.insert(tag, value);
        Ok(())
    }

    fn take(&mut self, bucket: u64, any: u64) -> Result<Option<Self::Entry>, DatabaseError> {
        let bucket = self.bucket(bucket)?;
        let count = bucket.entries().len().max(1) as u64;
        let tag = bucket.entries().get((any % count) as usize).map(|(tag, _)| *tag);
        Ok(tag.and_then(|tag| bucket.remove(tag).map(|value| (tag, value))))
    }
}
