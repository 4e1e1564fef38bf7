//! Pools of encryptions of zero, in memory or in a file.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use unspoken_encrypt::{ClientKey, Pool, PoolFile, PoolOptions, PoolPaths, PoolShape};
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::ZeroEncryption;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Encryptions of zero. Each is used once.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ExactPool {
    store: Mutex<Store>,
    capacity: u32,
}

enum Store {
    Memory(Pool),
    File(PoolFile),
}

impl ExactPool {
    /// A pool in memory, or in a file, which is made if missing, with the key that seals it.
    pub(crate) fn open(
        py: Python<'_>,
        key: ClientKey,
        capacity: u32,
        file: Option<(String, [u8; 32])>,
    ) -> PyResult<Self> {
        let file = file.map(|(path, sealing)| (path, Zeroizing::new(sealing)));
        interruptible::run(py, Reporter::Silent, |_, _| {
            let basis = Basis::chain(key.parameters().ring().chain().len());
            let store = match &file {
                None => {
                    let entry = ZeroEncryption::memory_bytes(key.parameters(), basis, key.is_seeded());
                    let capacity_bytes = entry.saturating_mul(capacity as usize);
                    Store::Memory(Pool::new(key, PoolOptions { basis, capacity_bytes, background: false })?)
                }
                Some((path, sealing)) => {
                    let (paths, shape) = (PoolPaths::beside(path), PoolShape { basis, capacity });
                    Store::File(match Path::new(path).exists() {
                        true => PoolFile::open(&paths, sealing, key, shape)?,
                        false => PoolFile::create(&paths, sealing, key, shape)?,
                    })
                }
            };
            Ok(ExactPool { store: Mutex::new(store), capacity })
        })
    }

    /// Takes an entry for this key, if there is one. A pool of another key is an error.
    pub(crate) fn take(&self, key: &ClientKey) -> Result<Option<ZeroEncryption>, Failure> {
        Ok(match &mut *self.lock() {
            Store::Memory(pool) => {
                pool.check_key(key)?;
                pool.take()?
            }
            Store::File(pool) => {
                pool.check_key(key)?;
                pool.take()?
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ExactPool {
    /// Makes entries until the pool is full; returns how many.
    fn fill(&self, py: Python<'_>) -> PyResult<usize> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let mut rng = SecretRng::from_os()?;
            Ok(match &mut *self.lock() {
                Store::Memory(pool) => pool.fill(&mut rng)?,
                Store::File(pool) => pool.refill(&mut rng, self.capacity as usize)?,
            })
        })
    }

    /// Number of entries that can be taken now.
    fn available(&self, py: Python<'_>) -> PyResult<usize> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            Ok(match &*self.lock() {
                Store::Memory(pool) => pool.available()?,
                Store::File(pool) => pool.available()?,
            })
        })
    }

    #[getter]
    fn capacity(&self) -> u32 {
        self.capacity
    }
}
