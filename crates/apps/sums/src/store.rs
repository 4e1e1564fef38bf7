//! Where the state of a collection is stored at a service.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Storage of one collection at a service. Its files belong to one service at a time.
///
/// The ids of the contributions that were added grow in a file of their own, so that storing a contribution takes no
/// more time when there are many. The state says how many of them count.
pub trait SumStore: Send + Sync + 'static {
    /// The state as it was last replaced; `None` if it never was.
    ///
    /// # Errors
    /// If it cannot be read.
    fn state(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the state: after a crash there is the old one or the new one. It is durable when this returns.
    ///
    /// # Errors
    /// If it cannot be written. Then either state may be there.
    fn replace_state(&self, state: &[u8]) -> io::Result<()>;

    /// The first `count` bytes that were written as ids, or fewer, if fewer were written.
    ///
    /// # Errors
    /// If they cannot be read.
    fn ids(&self, count: usize) -> io::Result<Vec<u8>>;

    /// Writes ids at an offset in bytes, where others may be that do not count. They are durable when this returns.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write_ids(&self, offset: u64, ids: &[u8]) -> io::Result<()>;
}

/// A store in memory: for a collection that need not outlive its process.
#[derive(Default)]
pub struct MemoryStore(Mutex<Stored>);

#[derive(Default)]
struct Stored {
    state: Option<Vec<u8>>,
    ids: Vec<u8>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        // A change is one step, so what a thread that panicked left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SumStore for MemoryStore {
    fn state(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.lock().state.clone())
    }

    fn replace_state(&self, state: &[u8]) -> io::Result<()> {
        self.lock().state = Some(state.to_vec());
        Ok(())
    }

    fn ids(&self, count: usize) -> io::Result<Vec<u8>> {
        let ids = &self.lock().ids;
        Ok(ids[..count.min(ids.len())].to_vec())
    }

    /// An offset after the last id is an error.
    fn write_ids(&self, offset: u64, ids: &[u8]) -> io::Result<()> {
        let stored = &mut self.lock().ids;
        let start = usize::try_from(offset).ok().filter(|start| *start <= stored.len());
        stored.truncate(start.ok_or(io::ErrorKind::InvalidInput)?);
        stored.extend(ids);
        Ok(())
    }
}
