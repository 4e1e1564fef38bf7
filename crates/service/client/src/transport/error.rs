//! Errors of the connection to a service.

use std::io;
use std::time::Duration;

use unspoken_wire::ProblemCode;

use super::UnreachableCause;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused the request.
    #[error("{0}")]
    Refused(Problem),
    /// The service could not be reached, or the connection was lost.
    #[error("reach {url}: {cause}; {}", cause.remedy())]
    Unreachable {
        /// The service.
        url: String,
        /// What went wrong.
        cause: UnreachableCause,
    },
    /// No answer in the time allowed.
    #[error(
        "wait for {url}: no answer within {:.1} s; allow more with --timeout SECONDS (timeout= in Python), or ask for \
         less",
        after.as_secs_f64()
    )]
    TimedOut {
        /// The service.
        url: String,
        /// The time allowed.
        after: Duration,
    },
    /// Retries did not help within the time that the policy allows.
    #[error("{}: {last}", reason.after(*after))]
    GaveUp {
        /// Time since the call began to fail; with a timeout of the caller, since it began.
        after: Duration,
        /// Why it is not tried again.
        reason: GiveUp,
        /// The last failure.
        last: Box<Error>,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The key bundle cannot be read.
    #[error("read the key bundle: {0}")]
    Source(io::Error),
    /// The configuration cannot be used.
    #[error("set up connection: {reason}")]
    Config {
        /// What is wrong and what is needed.
        reason: String,
    },
    /// A key id is malformed.
    #[error("read key id: found {found:?}, needed 32 lower-case hexadecimal digits")]
    KeyId {
        /// The text, shortened.
        found: String,
    },
    /// The other side is not a service of this version.
    #[error("understand the service: {reason}; check the address and the versions of both sides")]
    Protocol {
        /// What was unexpected.
        reason: String,
    },
}

/// Why a call is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// The time that the caller allows is used up.
    Timeout,
    /// The time that [`RetryPolicy`](super::RetryPolicy) allows is used up.
    Patience,
    /// The service asks to wait for longer than the caller allows.
    ToldToWait {
        /// The pause that the service asks for.
        asked: Duration,
        /// The time of the whole call.
        allowed: Duration,
    },
}

impl GiveUp {
    /// What happened after so much time, and what to do.
    fn after(self, time: Duration) -> String {
        let time = time.as_secs_f64();
        let option = "--timeout SECONDS (timeout= in Python)";
        match self {
            GiveUp::Timeout => format!("gave up after {time:.1} s, as {option} says"),
            GiveUp::Patience => format!("gave up after {time:.1} s; to wait for longer, set {option}"),
            GiveUp::ToldToWait { asked, allowed } => {
                let (asked, allowed) = (asked.as_secs_f64(), allowed.as_secs_f64());
                format!(
                    "not tried again: the service asks to wait for {asked:.0} s, and a call waits for {allowed:.0} s \
                     at most; ask later, or set {option}"
                )
            }
        }
    }
}

/// Code of a [`Problem`] that no service made, but a proxy on the way.
pub(super) const OF_PROXY: &str = "unknown";

/// A refusal of the service, or of a proxy on the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}; {remedy}", self.of())]
pub struct Problem {
    /// The stable code, as text; see [`Problem::known_code`].
    pub code: String,
    /// The HTTP status.
    pub status: u16,
    /// What was found and what was needed.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// When to send the same request again, if it may succeed later.
    pub retry_after: Option<Duration>,
    /// Id of the request in the service's log.
    pub request_id: String,
}

impl Problem {
    /// The code, if this version knows it.
    pub fn known_code(&self) -> Option<ProblemCode> {
        ProblemCode::from_name(&self.code)
    }

    /// Who refused.
    fn of(&self) -> String {
        if self.is_of_proxy() {
            return "no Unspoken service answered".into();
        }
        format!("the service refused ({}, request {})", self.code, self.request_id)
    }

    /// Whether a proxy on the way answered, not the service.
    pub(super) fn is_of_proxy(&self) -> bool {
        self.code == OF_PROXY
    }
}

impl Error {
    /// What the caller configured cannot be used.
    pub(super) fn config(reason: impl ToString) -> Self {
        Self::Config { reason: reason.to_string() }
    }

    /// The other side sent what no service of this version sends.
    pub(super) fn protocol(reason: impl ToString) -> Self {
        Self::Protocol { reason: reason.to_string() }
    }

    /// The code of a refusal, also of one that ended the retries.
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused(problem) => problem.known_code(),
            Self::GaveUp { last, .. } => last.code(),
            _ => None,
        }
    }

    /// Whether the service itself refused.
    pub(super) fn is_of_service(&self) -> bool {
        matches!(self, Self::Refused(problem) if !problem.is_of_proxy())
    }

    /// Shortest time to wait before trying again, if that may help.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after,
            Self::Unreachable { cause, .. } => (!cause.is_permanent()).then_some(Duration::ZERO),
            _ => None,
        }
    }
}
