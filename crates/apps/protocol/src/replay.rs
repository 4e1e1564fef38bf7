//! Replay guards: they remember values that must not be used twice, such as the seeds of encrypted vectors.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use unspoken_ckks::{Ciphertext, CkksParameters, SeededCiphertext};

use crate::client_id::ClientId;
use crate::error::ProtocolError;

/// Bytes of memory for the seeds of one application.
const SEED_BYTES: u64 = 32 << 20;

/// Bytes that an entry needs in the maps of a guard, in addition to twice its key and once its value: pointers, hashes,
/// times of use, unused capacity.
const ENTRY_OVERHEAD: u64 = 96;

/// Bytes that a client needs in addition to its entries: its maps with unused capacity, and its places in the maps of
/// all clients. A map of one entry has room for several.
const CLIENT_OVERHEAD: u64 = 560;

/// A memory of bounded size with entries of many clients. When the memory is full, the client with the most entries
/// loses its least recently used entry; of several such clients, the client with the oldest entry. So a client keeps
/// its fair share, whatever the others send, and no client sees the entries of another.
pub struct ReplayGuard<K, V> {
    entry_bytes: u64,
    capacity_bytes: u64,
    memory: Mutex<Memory<K, V>>,
}

struct Memory<K, V> {
    clients: HashMap<ClientId, ClientEntries<K, V>>,
    /// Clients by their number of entries, then by the age of the oldest.
    by_size: BTreeSet<Rank>,
    total: usize,
    clock: u64,
}

/// A client's number of entries, and the time of last use of the oldest: the largest rank loses an entry first.
type Rank = (usize, Reverse<u64>, ClientId);

struct ClientEntries<K, V> {
    values: HashMap<K, (u64, V)>,
    /// Keys by time of last use.
    by_use: BTreeMap<u64, K>,
}

impl<K, V> Default for ClientEntries<K, V> {
    fn default() -> Self {
        ClientEntries { values: HashMap::new(), by_use: BTreeMap::new() }
    }
}

impl<K, V> ClientEntries<K, V> {
    /// Makes an entry the last used one.
    fn touch(&mut self, key: &K, now: u64)
    where
        K: Eq + Hash,
    {
        if let Some((used, _)) = self.values.get_mut(key)
            && let Entry::Occupied(old) = self.by_use.entry(std::mem::replace(used, now))
        {
            let key = old.remove();
            self.by_use.insert(now, key);
        }
    }

    fn rank(&self, client: ClientId) -> Rank {
        let oldest = self.by_use.first_key_value().map_or(0, |(used, _)| *used);
        (self.values.len(), Reverse(oldest), client)
    }
}

impl<K: Clone + Eq + Hash, V> ReplayGuard<K, V> {
    /// A guard with `capacity_bytes` bytes of memory; `value_bytes` is the size of a value with everything it points
    /// to.
    pub fn new(capacity_bytes: u64, value_bytes: u64) -> Self {
        let entry_bytes = 2 * size_of::<K>() as u64 + value_bytes + ENTRY_OVERHEAD;
        let memory = Memory { clients: HashMap::new(), by_size: BTreeSet::new(), total: 0, clock: 0 };
        ReplayGuard { entry_bytes, capacity_bytes, memory: Mutex::new(memory) }
    }

    /// Maximum number of bytes of memory that it uses.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Calls `check` with the value that a client has under `key`, or with a new value if there is none.
    pub fn with<T>(&self, client: ClientId, key: &K, new: impl FnOnce() -> V, check: impl FnOnce(&mut V) -> T) -> T {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.clock += 1;
        let now = memory.clock;
        let Memory { clients, by_size, .. } = &mut *memory;
        if let Some(entries) = clients.get_mut(&client)
            && entries.values.contains_key(key)
        {
            by_size.remove(&entries.rank(client));
            entries.touch(key, now);
            by_size.insert(entries.rank(client));
            if let Some((_, value)) = entries.values.get_mut(key) {
                return check(value);
            }
        }
        while memory.total > 0 && memory.bytes_with_another(client, self.entry_bytes) > self.capacity_bytes {
            memory.evict();
        }
        let mut value = new();
        let result = check(&mut value);
        memory.insert(client, key.clone(), now, value);
        result
    }
}

impl<K: Clone + Eq + Hash, V> Memory<K, V> {
    /// Bytes of memory with another entry of this client.
    fn bytes_with_another(&self, client: ClientId, entry_bytes: u64) -> u64 {
        let clients = self.clients.len() + usize::from(!self.clients.contains_key(&client));
        (self.total as u64 + 1) * entry_bytes + clients as u64 * CLIENT_OVERHEAD
    }

    fn insert(&mut self, client: ClientId, key: K, now: u64, value: V) {
        let entries = self.clients.entry(client).or_default();
        self.by_size.remove(&entries.rank(client));
        entries.values.insert(key.clone(), (now, value));
        entries.by_use.insert(now, key);
        self.by_size.insert(entries.rank(client));
        self.total += 1;
    }

    /// Removes the least recently used entry of the client with the largest rank.
    fn evict(&mut self) {
        let Some((size, _, client)) = self.by_size.pop_last() else { return };
        let Some(entries) = self.clients.get_mut(&client) else { return };
        if let Some((_, key)) = entries.by_use.pop_first() {
            entries.values.remove(&key);
            self.total -= 1;
        }
        if size > 1 {
            self.by_size.insert(entries.rank(client));
        } else {
            self.clients.remove(&client);
        }
    }
}

/// Refuses a seed that arrives twice with different vectors: the difference of two such vectors is the difference of
/// their messages, unencrypted except for small errors. A vector that was sent before may be sent again.
pub struct SeedGuard(ReplayGuard<[u8; 16], [u8; 16]>);

impl Default for SeedGuard {
    fn default() -> Self {
        SeedGuard(ReplayGuard::new(SEED_BYTES, 16))
    }
}

impl SeedGuard {
    /// Maximum number of bytes of memory that it uses.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    /// Reads a query's vectors from untrusted bytes, each a [`SeededCiphertext`].
    ///
    /// # Errors
    /// If one is malformed, or an error of [`SeedGuard::admit`].
    pub fn read(
        &self,
        client: ClientId,
        parameters: &CkksParameters,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, ProtocolError> {
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(parameters, bytes);
        let seeded = vectors.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        self.admit(client, seeded.iter().map(|vector| vector.seed().as_slice()), vectors)?;
        Ok(seeded.iter().map(|vector| vector.expand(parameters)).collect())
    }

    /// Stores the seeds of a query's vectors.
    ///
    /// # Errors
    /// If a seed occurs twice, in this query or with another vector in an earlier query of the same client.
    pub fn admit<'a>(
        &self,
        client: ClientId,
        seeds: impl ExactSizeIterator<Item = &'a [u8]>,
        vectors: &[Vec<u8>],
    ) -> Result<(), ProtocolError> {
        let mut own = HashSet::with_capacity(seeds.len());
        for (seed, vector) in seeds.zip(vectors) {
            if !own.insert(seed) || !self.accept(client, seed, vector) {
                return Err(ProtocolError::mismatch("a seed", "one used before", "a fresh seed for each vector"));
            }
        }
        Ok(())
    }

    fn accept(&self, client: ClientId, seed: &[u8], vector: &[u8]) -> bool {
        let hash = short_hash(vector);
        self.0.with(client, &short_hash(seed), || hash, |known| *known == hash)
    }
}

fn short_hash(bytes: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut hash);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const VICTIM: ClientId = ClientId::new([1; 16]);
    const ATTACKER: ClientId = ClientId::new([2; 16]);

    #[test]
    fn a_seed_serves_one_vector() {
        let guard = SeedGuard::default();
        assert!(guard.accept(VICTIM, &[1; 16], b"first"));
        assert!(guard.accept(VICTIM, &[1; 16], b"first"), "a retry");
        assert!(!guard.accept(VICTIM, &[1; 16], b"second"));
        assert!(guard.accept(VICTIM, &[2; 16], b"second"));
        let vectors = [b"third".to_vec(), b"third".to_vec()];
        let twice = [[3; 16], [3; 16]];
        assert!(guard.admit(VICTIM, twice.iter().map(|seed| seed.as_slice()), &vectors).is_err());
    }

    #[test]
    fn a_client_cannot_burn_the_seeds_of_another() {
        let guard = SeedGuard::default();
        assert!(guard.accept(ATTACKER, &[7; 16], b"anything"));
        assert!(guard.accept(VICTIM, &[7; 16], b"the victim's vector"));
    }

    #[test]
    fn a_client_cannot_push_out_the_entries_of_another() {
        let guard = ReplayGuard::<u32, u32>::new(100 * (8 + 4 + ENTRY_OVERHEAD) + 2 * CLIENT_OVERHEAD, 4);
        let remembered = |client, key| guard.with(client, &key, || 0, |value| std::mem::replace(value, 1) == 1);
        assert!((0..10).all(|key| !remembered(VICTIM, key)));
        (0..1000).for_each(|key| {
            remembered(ATTACKER, key);
        });
        assert!((0..10).all(|key| remembered(VICTIM, key)), "the victim's entries are there");
        assert!(remembered(ATTACKER, 999) && !remembered(ATTACKER, 0), "the attacker lost its own oldest ones");
        let memory = guard.memory.lock().unwrap();
        assert_eq!(memory.total, 100);
        assert_eq!(memory.clients.values().map(|entries| entries.values.len()).sum::<usize>(), 100);
    }

    #[test]
    fn what_is_used_stays() {
        let guard = ReplayGuard::<u32, u32>::new(3 * (8 + 4 + ENTRY_OVERHEAD) + CLIENT_OVERHEAD, 4);
        let remembered = |key| guard.with(VICTIM, &key, || 0, |value| std::mem::replace(value, 1) == 1);
        assert!(!remembered(1) && !remembered(2) && !remembered(3));
        assert!(remembered(1));
        assert!(!remembered(4));
        assert!(remembered(1) && !remembered(2));
    }

    #[test]
    fn of_clients_with_equally_many_entries_the_oldest_entry_goes() {
        let guard = ReplayGuard::<u32, u32>::new(3 * (8 + 4 + ENTRY_OVERHEAD + CLIENT_OVERHEAD), 4);
        let client = |number| ClientId::new([number; 16]);
        let remembered = |number| guard.with(client(number), &0, || 0, |value| std::mem::replace(value, 1) == 1);
        // The oldest entry is of neither the smallest nor the largest id, and the largest id was used last.
        assert!([5, 1, 9].into_iter().all(|number| !remembered(number)));
        assert!(!remembered(7), "a fourth client takes the place of 5");
        assert!([1, 9, 7].into_iter().all(remembered));
        assert!(remembered(1));
        assert!(!remembered(5), "takes the place of 9, whose last use is the oldest");
        assert!([7, 1, 5].into_iter().all(remembered) && !remembered(9));
    }

    #[test]
    fn the_memory_of_one_client_after_many_has_a_bound() {
        let guard = ReplayGuard::<u32, u32>::new(8 * (8 + 4 + ENTRY_OVERHEAD + CLIENT_OVERHEAD), 4);
        for number in 0..1000u32 {
            let mut client = [0; 16];
            client[..4].copy_from_slice(&number.to_le_bytes());
            guard.with(ClientId::new(client), &number, || number, |_| ());
        }
        let memory = guard.memory.lock().unwrap();
        assert_eq!((memory.total, memory.clients.len(), memory.by_size.len()), (8, 8, 8));
    }
}
