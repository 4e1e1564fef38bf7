//! Records as input, and as collected in memory until their cells are known.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::error::DatabaseError;
use crate::progress::{Monitor, Phase};

/// Records between two reports of progress.
const REPORT: u64 = 1 << 12;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key. Records without keys are read by their number.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Vec<u8>,
}

/// Handling of two records with the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// An error that names the key.
    #[default]
    Refuse,
    /// The first one is kept.
    First,
    /// The last one is kept.
    Last,
}

/// Byte strings, concatenated in one buffer.
#[derive(Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).and_then(|&end| self.bytes.get(start..end)).unwrap_or_default()
    }

    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|number| self.get(number).len())
    }
}

/// All records.
pub(crate) struct Collected {
    pub values: Strings,
    /// The number of each key's value.
    pub keys: Option<HashMap<Vec<u8>, usize>>,
    /// Records that were left out because another one has the same key.
    pub dropped: u64,
}

impl Collected {
    /// Reads all records. `longest` says how many bytes one may have that has a key or none.
    pub fn read<E>(
        records: impl IntoIterator<Item = Result<Record, E>>,
        duplicates: Duplicates,
        longest: impl Fn(bool) -> usize,
        monitor: &mut Monitor<'_>,
    ) -> Result<Self, DatabaseError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut collected = Collected { values: Strings::default(), keys: None, dropped: 0 };
        let mut count = 0;
        for record in records {
            let record = record.map_err(|error| DatabaseError::Source(error.into()))?;
            let (found, needed) = (record.value.len(), longest(record.key.is_some()));
            if found > needed {
                return Err(DatabaseError::TooLong { record: count, key: record.key, found, needed });
            }
            collected.add(count, record, duplicates)?;
            count += 1;
            if count % REPORT == 0 {
                monitor.at(Phase::Read, count, None)?;
            }
        }
        monitor.at(Phase::Read, count, Some(count))?;
        Ok(collected)
    }

    fn add(&mut self, number: u64, record: Record, duplicates: Duplicates) -> Result<(), DatabaseError> {
        let Record { key, value } = record;
        if number == 0 && key.is_some() {
            self.keys = Some(HashMap::new());
        }
        let name = |keyed| if keyed { "a key" } else { "no key" };
        if key.is_some() != self.keys.is_some() {
            let (found, needed) = (name(key.is_some()), name(self.keys.is_some()));
            return Err(DatabaseError::Mixed { record: number, found, needed });
        }
        if let (Some(key), Some(keys)) = (key, &mut self.keys) {
            match keys.entry(key) {
                Entry::Vacant(entry) => _ = entry.insert(self.values.len()),
                Entry::Occupied(entry) if duplicates == Duplicates::Refuse => {
                    return Err(DatabaseError::Duplicate { key: entry.key().clone(), record: number });
                }
                Entry::Occupied(mut entry) => {
                    self.dropped += 1;
                    if duplicates == Duplicates::First {
                        return Ok(());
                    }
                    entry.insert(self.values.len());
                }
            }
        }
        self.values.push(&value);
        Ok(())
    }
}
