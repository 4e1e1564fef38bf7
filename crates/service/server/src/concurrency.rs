//! A limit on concurrent operations for each client, network or other key, so that no client or network uses all
//! capacity.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts concurrent operations for each key.
#[derive(Clone)]
pub(crate) struct ConcurrencyLimit<K: Eq + Hash> {
    limit: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// The right to one operation; released when dropped.
pub(crate) struct ConcurrencyPermit<K: Eq + Hash> {
    limit: ConcurrencyLimit<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> ConcurrencyLimit<K> {
    /// At most `limit` permits for each key. A limit of 0 counts as 1.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), counts: Arc::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns one more permit for this key, unless all of them are in use.
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
