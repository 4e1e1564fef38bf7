//! A limit on how much happens at once for each client, network or other key, so that one of them cannot take
//! everything.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts what happens at once for each key.
#[derive(Clone)]
pub(crate) struct ConcurrencyLimit<K: Eq + Hash> {
    limit: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// The right to do one thing; given back when dropped.
pub(crate) struct ConcurrencyPermit<K: Eq + Hash> {
    limit: ConcurrencyLimit<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> ConcurrencyLimit<K> {
    /// At most `limit` permits of each key, at least one.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), counts: Arc::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// One more permit of this key, unless all of them are taken.
    pub(crate) fn try_acquire(&self, key: &K) -> Option<ConcurrencyPermit<K>> {
        let mut counts = self.lock();
        // A key without permits has no entry.
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(ConcurrencyPermit { limit: self.clone(), key: key.clone() })
    }
}

impl<K: Eq + Hash> ConcurrencyLimit<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<K: Eq + Hash> Drop for ConcurrencyPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.limit.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_limit_and_keys_without_permits_are_forgotten() {
        let limit = ConcurrencyLimit::new(2);
        let first = limit.try_acquire(&"ann");
        let second = limit.try_acquire(&"ann");
        assert!(first.is_some() && second.is_some() && limit.try_acquire(&"ann").is_none());
        assert!(limit.try_acquire(&"bob").is_some());
        drop(first);
        assert!(limit.try_acquire(&"ann").is_some());
        drop(second);
        assert!(limit.lock().is_empty());
    }
}
