//! Retries with growing pauses.

use std::time::{Duration, Instant};

use super::{Cancel, Error, RetryPolicy};

/// Pauses between tries of one call.
pub(super) struct Pauses<'a> {
    policy: &'a RetryPolicy,
    start: Instant,
    next: Duration,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(policy: &'a RetryPolicy) -> Self {
        Self { policy, start: Instant::now(), next: policy.first_pause }
    }

    /// Waits before the next try, or returns the error if another try cannot help or the policy's time is used up.
    pub(super) fn after(&mut self, error: Error, cancel: &Cancel) -> Result<(), Error> {
        let Some(asked) = error.pause() else { return Err(error) };
        // Random, so that clients that were refused together do not return together.
        let own = self.next.as_secs_f64() * (0.5 + random_fraction());
        let own = Duration::try_from_secs_f64(own).unwrap_or(Duration::MAX);
        self.next = self.next.saturating_mul(2).min(self.policy.longest_pause);
        let spread = asked.as_secs_f64() * 0.25 * random_fraction();
        let asked = asked.saturating_add(Duration::try_from_secs_f64(spread).unwrap_or(Duration::MAX));
        let pause = asked.max(own);
        let spent = self.start.elapsed();
        if spent.saturating_add(pause) > self.policy.patience {
            return Err(Error::GaveUp { after: spent, last: Box::new(error) });
        }
        cancel.sleep(pause)
    }
}

/// Runs `attempt` until it succeeds or trying again cannot help.
pub(super) fn run<T>(
    policy: &RetryPolicy,
    cancel: &Cancel,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut pauses = Pauses::new(policy);
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) => pauses.after(error, cancel)?,
        }
    }
}

/// Uniform in [0, 1); one half if the system has no randomness, which only makes the pauses less spread.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.5, |value| f64::from(value) / (f64::from(u32::MAX) + 1.0))
}
