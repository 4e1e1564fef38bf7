//! A pool of precomputed encryptions of zero in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unspoken_ring::{Basis, SecretRng, process_generation};
use unspoken_rlwe::ZeroEncryption;

use crate::error::EncryptError;
use crate::key::ClientKey;

/// Size of a pool and how it is refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The primes of an entry: `CkksParameters::basis_up_to` a level, or all primes of the ring for exact schemes. A
    /// message over some of them can use it.
    pub basis: Basis,
    /// Maximum bytes of memory of the entries, including the one being made.
    pub capacity_bytes: usize,
    /// Whether a background thread on one core keeps the pool full. Without it, call [`Pool::fill`].
    pub background: bool,
}

/// A pool of encryptions of zero in memory. Each entry is handed out once.
///
/// For exact integers, `unspoken_exact::Encoder::encrypt_with` uses the entries of a pool:
///
/// ```
/// use std::sync::Arc;
///
/// use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
/// use unspoken_exact::{Encoder, Encrypted, Preset, Scheme};
/// use unspoken_ring::SecretRng;
/// use unspoken_rlwe::SecretKey;
///
/// let parameters = Preset::find("n12_exact17")?.build(Scheme::Bfv)?;
/// let mut rng = SecretRng::from_os()?;
/// let secret = Arc::new(SecretKey::generate(parameters.rlwe(), &mut rng)?);
/// let basis = parameters.basis();
/// let options = PoolOptions { basis, capacity_bytes: 1 << 20, background: false };
/// let pool = Pool::new(ClientKey::Secret(Arc::clone(&secret)), options)?;
/// assert_eq!(pool.fill(&mut rng)?, pool.capacity());
///
/// let encoder = Encoder::new(&parameters);
/// let counts = encoder.encode_slots(&[3, 1, 4])?;
/// let sent = match pool.take()? {
///     Some(zero) => encoder.encrypt_with(&counts, zero)?,
///     None => Encrypted::Seeded(encoder.encrypt(&counts, &secret, &mut rng)?),
/// };
/// assert_eq!(encoder.decode_slots(&encoder.decrypt(&sent.expand()?, &secret)?)?[..3], [3, 1, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Safe to share among threads. A thread on one core keeps the pool full, or the caller does ([`Pool::fill`]). If the
/// pool is empty, [`Pool::take`] returns `None` and [`Pool::take_within`] waits.
///
/// # Why each zero is used once
/// If two messages are encrypted with the same zero, the difference of the ciphertexts is the difference of the
/// messages, and anybody can compute it. Therefore an entry cannot be cloned ([`ZeroEncryption`]), adding a message
/// consumes it, and unused entries are wiped. Adding fresh small errors to a cached zero, as Zinc does, does not help:
/// the difference is still the difference of the messages, up to the small errors.
///
/// # Forks and snapshots
/// A forked child has the parent's memory, including the entries. A generation number detects the fork
/// ([`process_generation`]): a fork handler of the C library changes it in the child, and on Linux so does a page that
/// the kernel clears in the child (`MADV_WIPEONFORK`), which also detects children that were made without the C
/// library. In the child every call on a pool returns an error before it touches a lock, and [`SecretRng`] draws from a
/// new key. The bytes of the entries are still in the child's memory, as are all other secrets of its parent: a process
/// that forks to drop privileges must execute another program. Threads do not survive a fork, including the workers of
/// rayon, so a child that needs to encrypt in a large ring should also execute a new program.
///
/// **Not detected:** a snapshot of a running machine or process that is restored twice. Both copies have the same
/// entries. Do not use a pool where this can happen: encryption without a pool draws from a generator with a new key
/// from the operating system.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    key: ClientKey,
    options: PoolOptions,
    capacity: usize,
    /// Generation of the process it belongs to.
    generation: u64,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    zeros: VecDeque<ZeroEncryption>,
    stopped: bool,
    failure: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Makes an empty pool, and starts the background thread if the options request one.
    ///
    /// # Errors
    /// If the memory is too small for one entry, or the system provides no randomness or no thread.
    pub fn new(key: ClientKey, options: PoolOptions) -> Result<Self, EncryptError> {
        let entry = key.zero_bytes(options.basis);
        let capacity = options.capacity_bytes / entry;
        if capacity == 0 {
            return Err(EncryptError::Capacity { found: options.capacity_bytes, needed: entry });
        }
        let mut pool =
            Pool { shared: Arc::default(), key, options, capacity, generation: process_generation(), worker: None };
        if options.background {
            pool.worker = Some(pool.start()?);
        }
        Ok(pool)
    }

    /// The primes of an entry. A message over some of them can use it.
    pub fn basis(&self) -> Basis {
        self.options.basis
    }

    /// Checks that its entries are encryptions under `key`, in the same ring.
    ///
    /// # Errors
    /// [`EncryptError::OtherKey`] if they are not, or if the key belongs to another object of the parameters.
    pub fn check_key(&self, key: &ClientKey) -> Result<(), EncryptError> {
        key.check_pool("encrypt with a pool", &self.key)
    }

    /// Maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of entries that can be taken now.
    ///
    /// # Errors
    /// [`EncryptError::Forked`] in a forked child.
    pub fn available(&self) -> Result<usize, EncryptError> {
        self.check_process("count a pool")?;
        Ok(self.shared.lock().zeros.len())
    }

    /// Takes an entry if there is one.
    ///
    /// # Errors
    /// [`EncryptError::Forked`] in a forked child, [`EncryptError::Refill`] if the pool is empty and its background
    /// thread has failed.
    pub fn take(&self) -> Result<Option<ZeroEncryption>, EncryptError> {
        self.check_process("take from a pool")?;
        let mut state = self.shared.lock();
        self.pop(&mut state)
    }

    /// Takes an entry, and waits for one at most `patience`.
    ///
    /// # Errors
    /// [`EncryptError::Exhausted`] if no entry was added within `patience`, or as for [`Pool::take`].
    pub fn take_within(&self, patience: Duration) -> Result<ZeroEncryption, EncryptError> {
        self.check_process("take from a pool")?;
        let start = Instant::now();
        let mut state = self.shared.lock();
        loop {
            if let Some(zero) = self.pop(&mut state)? {
                return Ok(zero);
            }
            let Some(left) = patience.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                return Err(EncryptError::Exhausted { waited: patience });
            };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes entries in the calling thread until the pool is full. Returns the number added.
    ///
    /// # Errors
    /// If the ring has fewer primes than the entries, or as for [`Pool::take`].
    pub fn fill(&self, rng: &mut SecretRng) -> Result<usize, EncryptError> {
        let mut made = 0;
        while self.available()? < self.capacity {
            let zero = self.key.zero(self.options.basis, rng)?;
            let mut state = self.shared.lock();
            if state.zeros.len() >= self.capacity {
                break;
            }
            state.zeros.push_back(zero);
            self.shared.changed.notify_all();
            made += 1;
        }
        Ok(made)
    }

    fn pop(&self, state: &mut State) -> Result<Option<ZeroEncryption>, EncryptError> {
        let zero = state.zeros.pop_front();
        if zero.is_some() {
            self.shared.changed.notify_all();
        } else if let Some(reason) = &state.failure {
            return Err(EncryptError::Refill { reason: reason.clone() });
        }
        Ok(zero)
    }

    /// Checks that this is the process that made the pool. Must be called before any lock, because in a child a lock
    /// may be held by a thread that does not exist there.
    fn check_process(&self, operation: &'static str) -> Result<(), EncryptError> {
        let own = process_generation() == self.generation;
        if own { Ok(()) } else { Err(EncryptError::Forked { operation }) }
    }

    fn start(&self) -> Result<JoinHandle<()>, EncryptError> {
        let mut rng = SecretRng::from_os()?;
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(std::io::Error::other)?;
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        let (capacity, basis) = (self.capacity, self.options.basis);
        let refill = move || {
            while shared.wait_for_room(capacity) {
                let made = threads.install(|| key.zero(basis, &mut rng));
                let mut state = shared.lock();
                match made {
                    Ok(zero) if state.zeros.len() < capacity => state.zeros.push_back(zero),
                    // The pool was filled by another thread in the meantime.
                    Ok(_) => {}
                    Err(error) => {
                        state.failure = Some(error.to_string());
                        state.stopped = true;
                    }
                }
                shared.changed.notify_all();
            }
        };
        Ok(std::thread::Builder::new().name("unspoken-pool".into()).spawn(refill)?)
    }
}

impl Shared {
    /// Waits until there is room for an entry. Returns false when the pool is stopped.
    fn wait_for_room(&self, capacity: usize) -> bool {
        let full = |state: &mut State| !state.stopped && state.zeros.len() >= capacity;
        let state = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        !state.stopped
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if process_generation() != self.generation {
            // A child does not have the thread, and may wait forever for this lock or for the lock of the ring's
            // memory. So nothing is locked or freed.
            std::mem::forget((self.worker.take(), Arc::clone(&self.shared)));
            return;
        }
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(worker) = self.worker.take() {
            // A panic of the thread needs no handling here.
            let _ = worker.join();
        }
    }
}
