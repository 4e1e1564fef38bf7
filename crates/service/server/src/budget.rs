//! A budget of memory, counted in bytes.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

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

/// A number of bytes, of which parts can be reserved.
pub(crate) struct Budget {
    limit: u64,
    in_use: Mutex<u64>,
    freed: Arc<Notify>,
}

/// Reserved bytes; freed when dropped.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, in_use: Mutex::new(0), freed: Arc::default() })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn in_use(&self) -> u64 {
        *self.lock()
    }

    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, MemoryFull> {
        let mut reservation = self.empty();
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// A reservation of no bytes, to be grown.
    pub(crate) fn empty(self: &Arc<Self>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Completes when memory was freed after this call. It may complete without reason.
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut notified = Box::pin(self.freed.clone().notified_owned());
        // From here on, a notification is not missed.
        notified.as_mut().enable();
        notified
    }

    /// Wakes those that wait for memory.
    pub(crate) fn notify(&self) {
        self.freed.notify_waiters();
    }

    fn free(&self, bytes: u64) {
        *self.lock() -= bytes;
        self.notify();
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.in_use.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more bytes.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), MemoryFull> {
        let limit = self.budget.limit;
        let mut in_use = self.budget.lock();
        match in_use.checked_add(bytes) {
            Some(total) if total <= limit => *in_use = total,
            _ => return Err(MemoryFull { needed: bytes, in_use: *in_use, limit }),
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Frees all but `bytes`. A reservation of fewer bytes does not change.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        drop(self.split(self.bytes.saturating_sub(bytes)));
    }

    /// Moves `bytes`, or all if there are fewer, into a reservation of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.free(self.bytes);
    }
}
