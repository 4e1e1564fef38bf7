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
