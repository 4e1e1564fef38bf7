//! Counters that outlive a process.

use std::io;
use std::sync::Arc;

/// Counters on disk, each with a name. A value that was taken is never given again, whatever happens to the process or
/// the machine.
pub trait DurableCounters: Send + Sync {
    /// Starts a new counter at 0. It is on disk when this returns, so that a missing counter means a lost one.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn start(&self, name: &[u8; 16]) -> io::Result<()>;

    /// Takes `count` consecutive values and returns the first. That they are taken is on disk when this returns.
    ///
    /// # Errors
    /// If that cannot be stored, the counter was never started, or it has too few values left.
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
