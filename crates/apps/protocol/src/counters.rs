//! Counters that persist across processes.

use std::io;
use std::sync::Arc;

/// Counters on disk, each with a name. A value that was taken is never returned again, even if the process or the
/// machine crashes.
pub trait DurableCounters: Send + Sync {
    /// Starts a new counter at 0. It is on disk when this returns, so a counter that is missing later was lost.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn start(&self, name: &[u8; 16]) -> io::Result<()>;

    /// Takes `count` consecutive values and returns the first. The new state is on disk when this returns.
    ///
    /// # Errors
    /// If the state cannot be stored, the counter was never started, or it has too few values left.
    fn take(&self, name: &[u8; 16], count: u32) -> io::Result<u32>;
}

impl<C: DurableCounters + ?Sized> DurableCounters for Arc<C> {
    fn start(&self, name: &[u8; 16]) -> io::Result<()> {
        C::start(self, name)
    }

    fn take(&self, name: &[u8; 16], count: u32) -> io::Result<u32> {
        C::take(self, name, count)
    }
}

/// The counters of a client that numbers no queries: none can be taken.
#[derive(Clone, Copy, Debug)]
pub struct NoCounters;

impl DurableCounters for NoCounters {
    fn start(&self, _name: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _name: &[u8; 16], _count: u32) -> io::Result<u32> {
        Err(io::Error::other("found no counters on a disk; use another kind of queries"))
    }
}
