//! Cancelling a call from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Error;

/// How often a waiting call checks whether it was cancelled.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Cancels the calls it was passed to. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl From<Arc<AtomicBool>> for Cancel {
    /// Cancels when the flag is set.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Cancel(flag)
    }
}

impl Cancel {
    /// A value that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all calls that hold this, within about 50 ms, and future ones.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for work outside this module.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag itself, for work outside this module that keeps it.
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Waits for this time.
    ///
    /// # Errors
    /// If it is cancelled meanwhile.
    pub fn sleep(&self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}
