//! A memory budget, counted in bytes, and the cache of loaded keys that uses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::application::AnyKeys;
use crate::store::KeyId;

/// There is not enough memory left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes of memory are needed; {in_use} of {limit} are in use")]
pub(crate) struct MemoryFull {
    pub(crate) needed: u64,
    pub(crate) in_use: u64,
    pub(crate) limit: u64,
}

impl MemoryFull {
    /// Whether the same request can succeed once memory is freed.
    pub(crate) fn may_pass(&self) -> bool {
        self.needed <= self.limit
    }
}

/// Reserved bytes; freed when dropped.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

struct Budget {
    limit: u64,
    in_use: Mutex<u64>,
}

impl Budget {
    fn in_use(&self) -> MutexGuard<'_, u64> {
        self.in_use.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, MemoryFull> {
        let mut in_use = self.in_use();
        match in_use.checked_add(bytes) {
            Some(total) if total <= self.limit => {
                *in_use = total;
                Ok(Reservation { budget: self.clone(), bytes })
            }
            _ => Err(MemoryFull { needed: bytes, in_use: *in_use, limit: self.limit }),
        }
    }
}

impl Reservation {
    /// Frees all but `bytes`. A reservation of fewer bytes does not change.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let unused = self.bytes.saturating_sub(bytes);
        *self.budget.in_use() -= unused;
        self.bytes -= unused;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *self.budget.in_use() -= self.bytes;
    }
}

/// Bytes of an answer, counted against the budget until they have been sent.
pub(crate) struct CountedBytes {
    bytes: Vec<u8>,
    // Dropped after the bytes.
    _memory: Reservation,
}

impl CountedBytes {
    /// Shrinks the reservation to the memory that the bytes use.
    pub(crate) fn new(bytes: Vec<u8>, mut memory: Reservation) -> Self {
        memory.shrink_to(bytes.capacity() as u64);
        Self { bytes, _memory: memory }
    }
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keys in memory. They count against the budget until the last user drops them.
pub(crate) struct LoadedKeys {
    pub(crate) keys: AnyKeys,
    // Dropped after the keys.
    _memory: Reservation,
}

/// The memory that the service may use, and the keys loaded into it. When memory is short, keys that are not in use are
/// evicted, the least recently used first.
pub(crate) struct KeyCache {
    budget: Arc<Budget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: u64,
    slots: HashMap<KeyId, CacheSlot>,
}

/// Place of one bundle. Its lock is held while the bundle is loaded, so that it is loaded only once.
#[derive(Clone)]
struct CacheSlot {
    keys: Arc<Mutex<Option<Arc<LoadedKeys>>>>,
    used: u64,
}

impl KeyCache {
    pub(crate) fn new(limit: u64) -> Self {
        let budget = Arc::new(Budget { limit, in_use: Mutex::new(0) });
        Self { budget, state: Mutex::default() }
    }

    /// Reserves bytes, and evicts unused keys if necessary. Takes as long as freeing them takes.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation, MemoryFull> {
        loop {
            match self.budget.reserve(bytes) {
                Err(full) if full.may_pass() && self.evict_one() => {}
                other => return other,
            }
        }
    }

    /// The keys of `id`. If they are not in memory, `bytes` returns how much memory they need and `load` loads them.
    /// Blocks while another thread loads the same keys.
    pub(crate) fn get_or_load<E: From<MemoryFull>>(
        &self,
        id: KeyId,
        bytes: impl FnOnce() -> Result<u64, E>,
        load: impl FnOnce() -> Result<AnyKeys, E>,
    ) -> Result<Arc<LoadedKeys>, E> {
        let slot = {
            let mut state = self.lock();
            state.clock += 1;
            let used = state.clock;
            let slot = state.slots.entry(id).or_insert_with(|| CacheSlot { keys: Arc::default(), used });
            slot.used = used;
            slot.keys.clone()
        };
        let mut place = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(keys) = &*place {
            return Ok(keys.clone());
        }
        let memory = self.reserve(bytes()?)?;
        let loaded = Arc::new(LoadedKeys { keys: load()?, _memory: memory });
        *place = Some(loaded.clone());
        Ok(loaded)
    }

    /// Removes keys from the cache. Users that have them keep them.
    pub(crate) fn remove(&self, id: KeyId) {
        let slot = self.lock().slots.remove(&id);
        drop(slot);
    }

    /// Bytes in use and bytes in total.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (*self.budget.in_use(), self.budget.limit)
    }

    /// Number of bundles in memory or being loaded.
    pub(crate) fn count(&self) -> usize {
        self.lock().slots.len()
    }

    /// Removes places whose load failed.
    pub(crate) fn tidy(&self) {
        self.lock().slots.retain(|_, slot| {
            Arc::strong_count(&slot.keys) > 1 || !matches!(slot.keys.try_lock().as_deref(), Ok(None))
        });
    }

    fn evict_one(&self) -> bool {
        let victim = {
            let mut state = self.lock();
            let oldest = state
                .slots
                .iter()
                .filter(|(_, slot)| is_idle(slot))
                .min_by_key(|(_, slot)| slot.used)
                .map(|(id, _)| *id);
            oldest.and_then(|id| state.slots.remove(&id))
        };
        // Freed here, outside the lock.
        victim.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Whether the keys are loaded and have no user. New users need the cache's lock, which the caller holds.
fn is_idle(slot: &CacheSlot) -> bool {
    let place = match slot.keys.try_lock() {
        Ok(place) => place,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    Arc::strong_count(&slot.keys) == 1 && place.as_ref().is_some_and(|keys| Arc::strong_count(keys) == 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn id(number: u8) -> KeyId {
        KeyId::from_bytes([number; 16])
    }

    fn load(cache: &KeyCache, number: u8, bytes: u64) -> Result<Arc<LoadedKeys>, MemoryFull> {
        cache.get_or_load(id(number), || Ok(bytes), || Ok(Arc::new(number)))
    }

    #[test]
    fn the_longest_unused_keys_make_room() {
        let cache = KeyCache::new(100);
        for number in 1..=2 {
            load(&cache, number, 40).unwrap();
        }
        load(&cache, 1, 40).unwrap();
        load(&cache, 3, 40).unwrap();
        assert_eq!(cache.usage(), (80, 100));
        // 1 and 3 are still in memory: loading them again would fail.
        for number in [1, 3] {
            let hit = cache.get_or_load(id(number), || Ok(40), || Err(MemoryFull { needed: 0, in_use: 0, limit: 0 }));
            assert!(hit.is_ok(), "{number} was evicted");
        }
    }

    #[test]
    fn keys_in_use_stay_and_the_refusal_says_whether_to_wait() {
        let cache = KeyCache::new(100);
        let in_use = load(&cache, 1, 80).unwrap();
        let refused = load(&cache, 2, 40).err().unwrap();
        assert_eq!(refused, MemoryFull { needed: 40, in_use: 80, limit: 100 });
        assert!(refused.may_pass());
        drop(in_use);
        load(&cache, 2, 40).unwrap();
        assert_eq!(cache.usage(), (40, 100));
        assert!(!load(&cache, 3, 101).err().unwrap().may_pass());
        assert!(cache.reserve(u64::MAX).is_err());
    }

    #[test]
    fn an_answer_is_counted_until_it_is_dropped() {
        let cache = KeyCache::new(100);
        let memory = cache.reserve(90).unwrap();
        let answer = bytes::Bytes::from_owner(CountedBytes::new(vec![7; 30], memory));
        assert_eq!(cache.usage().0, 30);
        let rest = answer.slice(20..);
        drop(answer);
        assert_eq!(cache.usage().0, 30);
        drop(rest);
        assert_eq!(cache.usage().0, 0);
    }

    #[test]
    fn many_threads_load_once() {
        let cache = KeyCache::new(100);
        let loads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let loaded = cache.get_or_load::<MemoryFull>(
                        id(1),
                        || Ok(60),
                        || {
                            loads.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(std::time::Duration::from_millis(20));
                            Ok(Arc::new(1u8))
                        },
                    );
                    assert!(loaded.is_ok());
                });
            }
        });
        assert_eq!(loads.load(Ordering::Relaxed), 1);
        assert_eq!(cache.usage().0, 60);
    }

    #[test]
    fn a_failed_load_leaves_nothing() {
        let cache = KeyCache::new(100);
        let full = MemoryFull { needed: 1, in_use: 2, limit: 3 };
        assert!(cache.get_or_load(id(1), || Ok(60), || Err(full)).is_err());
        assert_eq!(cache.usage().0, 0);
        cache.tidy();
        assert_eq!(cache.count(), 0);
        load(&cache, 1, 60).unwrap();
        cache.tidy();
        assert_eq!(cache.count(), 1);
    }
}
