//! What a call waits for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Error;

/// Receives what a call waits for.
pub type WaitCallback = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// A call failed and will be tried again after a pause, or the service has not answered for some seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The service.
    pub url: String,
    /// Why the last try failed, or that there is no answer yet.
    pub reason: String,
    /// Number of tries so far, from 1.
    pub tries: u32,
    /// Time since the call began to fail; with a timeout of the caller, since it began.
    pub spent: Duration,
    /// The value of `spent` at which the call gives up.
    pub limit: Duration,
}

impl Waiting {
    /// The wait after an error.
    pub(super) fn after(error: &Error, url: &str, tries: u32, spent: Duration, limit: Duration) -> Self {
        let reason = match error {
            Error::Refused(problem) if problem.is_of_proxy() => problem.message.clone(),
            Error::Refused(problem) => format!("{} ({})", problem.message, problem.code),
            Error::Unreachable { cause, .. } => cause.to_string(),
            other => other.to_string(),
        };
        Waiting { url: url.into(), reason, tries, spent, limit }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.limit.saturating_sub(self.spent).as_secs_f64();
        write!(f, "waiting for {}: {}; giving up in {left:.0} s", self.url, self.reason)
    }
}
