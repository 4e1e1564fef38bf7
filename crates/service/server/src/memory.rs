//! Memory for loaded keys and running jobs, counted in bytes, and the cache of loaded keys.
//!
//! With its worker, a request waits for memory for its keys (unless they are loaded), its computation and its answer,
//! all at once and in the order of the workers. So nothing is loaded that cannot be used, and nobody is overtaken for
//! ever. When room is needed, keys that are not in use are evicted, the least recently used first. Keys come from
//! memory or disk. When they are read from disk, their BLAKE3 hash is checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::blocking::blocking;
use crate::budget::{Budget, MemoryFull, Reservation};
use crate::refusal::Refusal;
use crate::store::KeyId;
use crate::untyped::LoadedKeys;

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
struct CountedKeys {
    keys: LoadedKeys,
    // Dropped after the keys.
    memory: Reservation,
}

/// Loaded keys in use by a job. They are not evicted before it is dropped.
pub(crate) struct KeysInUse {
    loaded: Option<Arc<CountedKeys>>,
    budget: Arc<Budget>,
}

impl KeysInUse {
    pub(crate) fn keys(&self) -> Option<&LoadedKeys> {
        self.loaded.as_deref().map(|loaded| &loaded.keys)
    }

    /// Bytes of memory that the keys take.
    fn bytes(&self) -> u64 {
        self.loaded.as_deref().map_or(0, |loaded| loaded.memory.bytes())
    }
}

impl Drop for KeysInUse {
    fn drop(&mut self) {
        drop(self.loaded.take());
        // Keys without a user can be evicted.
        self.budget.notify();
    }
}

/// The memory of one job, reserved at once before it starts, so that it does not run out of memory later.
pub(crate) struct JobMemory {
    pub(crate) keys: KeyMemory,
    /// For the computation and the answer.
    pub(crate) work: Reservation,
}

/// Keys in memory, or memory for them.
pub(crate) enum KeyMemory {
    Loaded(KeysInUse),
    Reserved(Reservation),
}

/// Memory for keys and jobs, and the keys loaded into it. When memory is short, keys that are not in use are evicted,
/// the least recently used first.
pub(crate) struct KeyCache {
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Held by the job that waits for memory. Later jobs wait for this lock, in their order. So a job that needs much
    /// is not overtaken for ever by jobs that need little.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    clock: u64,
    slots: HashMap<KeyId, CacheSlot>,
}

/// Place of one bundle. Its lock is held while the bundle is loaded, so that it is loaded only once.
#[derive(Clone)]
struct CacheSlot {
    keys: Arc<Mutex<Option<Arc<CountedKeys>>>>,
    used: u64,
}

impl KeyCache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { budget: Budget::new(limit), state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Waits until there is memory for a job with the keys of `id`: `work` bytes, and if the keys are not loaded, the
    /// bytes that `key_bytes` returns, which may block.
    ///
    /// # Errors
    /// If the job can never have so much memory, or `key_bytes` fails.
    pub(crate) async fn reserve_job(
        self: &Arc<Self>,
        id: KeyId,
        work: u64,
        key_bytes: impl FnOnce() -> Result<u64, Refusal> + Send + 'static,
    ) -> Result<JobMemory, Refusal> {
        let _turn = self.turn.lock().await;
        let mut loaded = self.loaded(id);
        let key_bytes = if loaded.is_some() { 0 } else { blocking(key_bytes).await?? };
        loop {
            let freed = self.budget.freed();
            loaded = loaded.or_else(|| self.loaded(id));
            // Keys that this job uses are not evicted for the job, so work without room beside these keys never gets
            // room.
            let beside = loaded.as_ref().map_or(key_bytes, KeysInUse::bytes).saturating_add(work);
            if beside > self.budget.limit() {
                let (in_use, limit) = self.usage();
                return Err(MemoryFull { needed: beside, in_use, limit }.into());
            }
            let needed = if loaded.is_some() { work } else { beside };
            let cache = self.clone();
            // Freeing evicted keys can take long.
            match blocking(move || cache.reserve(needed)).await? {
                Ok(mut memory) => {
                    let work = memory.split(work);
                    let keys = loaded.map_or(KeyMemory::Reserved(memory), KeyMemory::Loaded);
                    return Ok(JobMemory { keys, work });
                }
                Err(full) if full.may_pass() => freed.await,
                Err(full) => return Err(full.into()),
            }
        }
    }

    /// Reserves bytes, and evicts unused keys if necessary. Takes as long as freeing them takes.
    fn reserve(&self, bytes: u64) -> Result<Reservation, MemoryFull> {
        loop {
            match self.budget.reserve(bytes) {
                Err(full) if full.may_pass() && self.evict_oldest() => {}
                other => return other,
            }
        }
    }

    /// The keys of `id` if they are loaded.
    pub(crate) fn loaded(&self, id: KeyId) -> Option<KeysInUse> {
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        let slot = state.slots.get_mut(&id)?;
        let place = match slot.keys.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let keys = self.in_use(place.as_ref()?);
        drop(place);
        slot.used = used;
        Some(keys)
    }

    /// The keys of `id`. If they are not loaded, `load` loads them into `memory`. Blocks while another thread loads the
    /// same keys.
    pub(crate) fn get_or_load<E>(
        &self,
        id: KeyId,
        memory: Reservation,
        load: impl FnOnce() -> Result<LoadedKeys, E>,
    ) -> Result<KeysInUse, E> {
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
            return Ok(self.in_use(keys));
        }
        let loaded = Arc::new(CountedKeys { keys: load()?, memory });
        *place = Some(loaded.clone());
        Ok(self.in_use(&loaded))
    }

    fn in_use(&self, keys: &Arc<CountedKeys>) -> KeysInUse {
        KeysInUse { loaded: Some(keys.clone()), budget: self.budget.clone() }
    }

    /// Takes keys out of memory. Users that have them keep them.
    pub(crate) fn evict(&self, id: KeyId) {
        let slot = self.lock().slots.remove(&id);
        drop(slot);
    }

    /// Bytes in use and bytes in total.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.budget.in_use(), self.budget.limit())
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

    fn evict_oldest(&self) -> bool {
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
    use std::time::Duration;

    use super::*;

    fn id(number: u8) -> KeyId {
        KeyId::from_bytes([number; 16])
    }

    fn load(cache: &KeyCache, number: u8, bytes: u64) -> Result<KeysInUse, MemoryFull> {
        if let Some(keys) = cache.loaded(id(number)) {
            return Ok(keys);
        }
        let memory = cache.reserve(bytes)?;
        cache.get_or_load(id(number), memory, || Ok(LoadedKeys::new(number)))
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
        for (number, in_memory) in [(1, true), (2, false), (3, true)] {
            assert_eq!(cache.loaded(id(number)).is_some(), in_memory, "{number}");
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
        let cache = KeyCache::new(1000);
        let loads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let memory = cache.reserve(60).unwrap();
                    let loaded = cache.get_or_load::<MemoryFull>(id(1), memory, || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(20));
                        Ok(LoadedKeys::new(1u8))
                    });
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
        let memory = cache.reserve(60).unwrap();
        assert!(cache.get_or_load(id(1), memory, || Err(full)).is_err());
        assert_eq!(cache.usage().0, 0);
        cache.tidy();
        assert_eq!(cache.count(), 0);
        load(&cache, 1, 60).unwrap();
        cache.tidy();
        assert_eq!(cache.count(), 1);
    }

    #[tokio::test]
    async fn a_job_waits_for_the_memory_of_its_keys_and_its_work() {
        let cache = Arc::new(KeyCache::new(100));
        let in_use = load(&cache, 1, 50).unwrap();
        let wait = |number, key_bytes, work| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.reserve_job(id(number), work, move || Ok(key_bytes)).await })
        };
        let large = wait(2, 60, 40);
        while cache.turn.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        // A small job does not overtake it, although there is memory for the small one.
        let small = wait(3, 1, 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!large.is_finished() && !small.is_finished());
        assert_eq!(cache.usage().0, 50);
        drop(in_use);
        let large = large.await.unwrap().ok().unwrap();
        assert_eq!((large.work.bytes(), cache.usage().0), (40, 100));
        drop(large);
        let small = small.await.unwrap().ok().unwrap();
        assert!(matches!(small.keys, KeyMemory::Reserved(memory) if memory.bytes() == 1));
        // Loaded keys take no second reservation.
        let keys = load(&cache, 1, 50).unwrap();
        let third = cache.reserve_job(id(1), 10, || Ok(50)).await.ok().unwrap();
        assert!(matches!(third.keys, KeyMemory::Loaded(_)));
        drop((keys, third));
        // Work that has no room beside the keys is refused at once: the keys would never be evicted for it.
        for work in [51, 101] {
            let refused = cache.reserve_job(id(1), work, || Ok(0)).await.err().unwrap();
            let expected = format!("{} bytes of memory are needed", 50 + work);
            assert!(refused.message().contains(&expected), "{}", refused.message());
        }
    }
}
