//! Retries with growing pauses.

use std::time::{Duration, Instant};

use super::{Cancel, Error, TransportConfig, Waiting};

/// Times that patience begins anew because the service had worked on an answer that was lost, at most: a service that
/// fails at the same place every time must not be asked for ever.
const MOST_LOST_ANSWERS: u32 = 3;

/// Pauses between tries of one call.
pub(super) struct Pauses<'a> {
    config: &'a TransportConfig,
    /// Whether the service has answered an earlier call.
    answered: bool,
    start: Instant,
    /// When the call began to fail.
    failing: Instant,
    next: Duration,
    tries: u32,
    lost_answers: u32,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(config: &'a TransportConfig, answered: bool) -> Self {
        let (start, next) = (Instant::now(), config.retry.first_pause);
        Self { config, answered, start, failing: start, next, tries: 0, lost_answers: 0 }
    }

    /// Notes that the service worked on an answer until now, so that patience begins now, unless the configuration has
    /// a timeout. An answer that takes longer than patience could not be asked for again otherwise.
    pub(super) fn lost_answer(&mut self) {
        if self.lost_answers < MOST_LOST_ANSWERS {
            self.lost_answers += 1;
            (self.failing, self.next, self.tries) = (Instant::now(), self.config.retry.first_pause, 0);
        }
    }

    /// The time that the next try may take, if the configuration has a timeout.
    pub(super) fn left(&self) -> Option<Duration> {
        self.config.timeout.map(|timeout| timeout.saturating_sub(self.start.elapsed()))
    }

    /// Waits before the next try, or returns the error if another try cannot help or the time is used up.
    pub(super) fn after(&mut self, error: Error, cancel: &Cancel) -> Result<(), Error> {
        let Some(asked) = error.pause() else { return Err(error) };
        let policy = &self.config.retry;
        // Random, so that clients that were refused together do not return together.
        let own = self.next.as_secs_f64() * (0.5 + random_fraction());
        let own = Duration::try_from_secs_f64(own).unwrap_or(Duration::MAX);
        self.next = self.next.saturating_mul(2).min(policy.longest_pause);
        let spread = asked.as_secs_f64() * 0.25 * random_fraction();
        let asked = asked.saturating_add(Duration::try_from_secs_f64(spread).unwrap_or(Duration::MAX));
        let pause = asked.max(own);
        let since = if self.config.timeout.is_some() { self.start } else { self.failing };
        let (spent, limit) = (since.elapsed(), self.limit(&error));
        if spent.saturating_add(pause) > limit {
            return Err(Error::GaveUp { after: spent, last: Box::new(error) });
        }
        self.tries += 1;
        if let Some(on_wait) = &self.config.on_wait {
            on_wait(&Waiting::after(&error, &self.config.url, self.tries, spent, limit));
        }
        cancel.sleep(pause)
    }

    /// Time after which this failure is the last.
    fn limit(&self, error: &Error) -> Duration {
        let policy = &self.config.retry;
        let unconnected = matches!(error, Error::Unreachable { cause, .. } if cause.is_before_connection());
        match self.config.timeout {
            Some(timeout) => timeout,
            None if unconnected && !self.answered => policy.connect_patience.min(policy.patience),
            None => policy.patience,
        }
    }
}

/// Uniform in [0, 1); one half if the system has no randomness, which only makes the pauses less spread.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.5, |value| f64::from(value) / (f64::from(u32::MAX) + 1.0))
}
