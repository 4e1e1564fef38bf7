//! Retries with growing pauses.

use std::time::{Duration, Instant};

use super::{Cancel, Error, GiveUp, TransportConfig, Waiting};

/// Times that patience begins anew because the service had held a query whose answer was lost, at most: a service that
/// fails at the same place every time must not be asked for ever.
const MAX_LOST_ANSWERS: u32 = 3;

/// Pauses between tries of one call.
pub(super) struct Pauses<'a> {
    config: &'a TransportConfig,
    /// Whether the service has answered an earlier call.
    answered: bool,
    start: Instant,
    /// When the call began to fail, if it has.
    failing: Option<Instant>,
    next: Duration,
    tries: u32,
    lost_answers: u32,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(config: &'a TransportConfig, answered: bool) -> Self {
        let (start, next) = (Instant::now(), config.retry.first_pause);
        Self { config, answered, start, failing: None, next, tries: 0, lost_answers: 0 }
    }

    /// Notes that the service held a query until now, so that patience begins now, unless the configuration has a
    /// timeout. An answer that takes longer than patience could not be asked for again otherwise.
    pub(super) fn lost_answer(&mut self) {
        if self.lost_answers < MAX_LOST_ANSWERS {
            self.lost_answers += 1;
            (self.failing, self.next, self.tries) = (Some(Instant::now()), self.config.retry.first_pause, 0);
        }
    }

    /// The time that the next try may take, if the configuration has a timeout.
    pub(super) fn left(&self) -> Option<Duration> {
        self.config.timeout.map(|timeout| timeout.saturating_sub(self.start.elapsed()))
    }

    /// Waits before the next try, or returns the error if another try cannot help or the time is used up. The try that
    /// failed began at `began`.
    pub(super) fn after(&mut self, error: Error, began: Instant, cancel: &Cancel) -> Result<(), Error> {
        let Some(asked) = error.pause() else { return Err(self.of_whole_call(error)) };
        // A service that was reached has only failed now, however long it took.
        let start = if is_unconnected(&error) { began } else { Instant::now() };
        let failing = *self.failing.get_or_insert(start);
        let since = if self.config.timeout.is_some() { self.start } else { failing };
        let (spent, limit) = (since.elapsed(), self.limit(&error));
        let (left, least) = (limit.saturating_sub(spent), self.config.retry.first_pause / 2);
        if left.is_zero() || asked.saturating_add(least) > left {
            let reason = match self.config.timeout {
                _ if asked > limit => GiveUp::ToldToWait { asked, allowed: limit },
                Some(_) => GiveUp::Timeout,
                None => GiveUp::Patience,
            };
            return Err(Error::GaveUp { after: spent, reason, last: Box::new(error) });
        }
        let pause = self.pause(asked, left);
        self.tries += 1;
        if let Some(on_wait) = &self.config.on_wait {
            on_wait(&Waiting::after(&error, &self.config.url, self.tries, spent, limit));
        }
        cancel.sleep(pause)
    }

    /// The next pause. What is left is used to the end: towards it, pauses become shorter again.
    fn pause(&mut self, asked: Duration, left: Duration) -> Duration {
        // Random, so that clients that were refused together do not return together.
        let own = scaled(self.next, 0.5 + random_fraction());
        self.next = self.next.saturating_mul(2).min(self.config.retry.longest_pause);
        let asked_and_spread = asked.saturating_add(scaled(asked, 0.25 * random_fraction()));
        let pause = asked_and_spread.max(own);
        if pause < left { pause } else { asked.max(left / 2) }
    }

    /// The error with the time of the whole call, if that was used up in the last of several tries.
    fn of_whole_call(&self, error: Error) -> Error {
        match (error, self.config.timeout) {
            (Error::TimedOut { url, .. }, Some(timeout)) if self.start.elapsed() >= timeout => {
                Error::TimedOut { url, after: timeout }
            }
            (error, _) => error,
        }
    }

    /// Time after which this failure is the last.
    fn limit(&self, error: &Error) -> Duration {
        let policy = &self.config.retry;
        // A proxy may answer for a service that is not there.
        let may_be_wrong = is_unconnected(error) || matches!(error, Error::Refused(problem) if problem.is_of_proxy());
        match self.config.timeout {
            Some(timeout) => timeout,
            None if may_be_wrong && !self.answered => policy.connect_patience.min(policy.patience),
            None => policy.patience,
        }
    }
}

/// Whether no connection was made.
fn is_unconnected(error: &Error) -> bool {
    matches!(error, Error::Unreachable { cause, .. } if cause.is_before_connection())
}

fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// Uniform in [0, 1); one half if the system has no randomness, which only makes the pauses less spread.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.5, |value| f64::from(value) / (f64::from(u32::MAX) + 1.0))
}
