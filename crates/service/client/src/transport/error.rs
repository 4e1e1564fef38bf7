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
    #[error("gave up after {:.1} s (set by --timeout SECONDS, or timeout= in Python): {last}", after.as_secs_f64())]
    GaveUp {
        /// Time spent.
        after: Duration,
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

/// A refusal of the service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service refused ({code}, request {request_id}): {message}; {remedy}")]
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
}

impl Error {
    /// The code of a refusal, also of one that ended the retries.
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused(problem) => problem.known_code(),
            Self::GaveUp { last, .. } => last.code(),
            _ => None,
        }
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
