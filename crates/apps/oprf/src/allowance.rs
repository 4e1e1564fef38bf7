//! How many keys a client may ask for.

use std::time::Duration;

use unspoken_protocol::ProtocolError;
use unspoken_symmetric_pir::MAX_ELEMENTS;

use crate::error::OprfError;

/// Longest window: about a year.
const MAX_SECONDS: u32 = 366 * 24 * 3600;

/// Most evaluations for each second of the window, more than a service can compute.
const MAX_PER_SECOND: u32 = 1_000_000;

/// How many keys a client may ask for: a number at once, which come back evenly within a window (a token bucket). In
/// any time of one window a client gets less than twice the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    evaluations: u32,
    window_seconds: u32,
}

impl Allowance {
    /// At most `evaluations` keys at once, all of which come back within `window_seconds` seconds.
    ///
    /// # Errors
    /// If a number is 0, the window is longer than about a year, or there are more than a million for each second.
    pub fn new(evaluations: u32, window_seconds: u32) -> Result<Self, OprfError> {
        let most = MAX_PER_SECOND.saturating_mul(window_seconds);
        if !(1..=most).contains(&evaluations) || window_seconds > MAX_SECONDS {
            let found = format!("{evaluations} in {window_seconds} s");
            let needed = format!("1 to {MAX_PER_SECOND} for each second, in 1 to {MAX_SECONDS} s");
            return Err(ProtocolError::mismatch("keys that a client may ask for", found, needed).into());
        }
        Ok(Allowance { evaluations, window_seconds })
    }

    /// Keys that a client may ask for at once.
    pub fn evaluations(self) -> u32 {
        self.evaluations
    }

    /// Seconds in which all of them come back.
    pub fn window_seconds(self) -> u32 {
        self.window_seconds
    }

    /// Maximum number of keys in one request.
    pub fn most_questions(self) -> usize {
        MAX_ELEMENTS.min(self.evaluations as usize)
    }

    /// The window.
    pub(crate) fn window(self) -> Duration {
        Duration::from_secs(u64::from(self.window_seconds))
    }

    /// The time in which `evaluations` evaluations come back, rounded down to whole nanoseconds: the sum over single
    /// evaluations must not be longer than the window.
    pub(crate) fn time_of(self, evaluations: u32) -> Duration {
        let nanoseconds = self.window().as_nanos() * u128::from(evaluations) / u128::from(self.evaluations);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}
