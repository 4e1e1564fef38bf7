//! Refusals: of the service, and of a proxy on the way.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use unspoken_wire::http::PROTOBUF;
use unspoken_wire::{MAX_CONTROL_BYTES, decode, v1};

use super::error::OF_PROXY;
use super::{Error, Problem};

/// Longest `Retry-After` that is honoured; a longer one is cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Statuses by which a proxy says that it does not get through to the service now, or that there is too much to do.
const OF_BUSY_PROXIES: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// The error for a status other than success. A proxy on the way may answer without a `Problem`.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Error {
    let seconds: Option<u64> = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let is_problem = headers.get(CONTENT_TYPE).is_some_and(|media| media == PROTOBUF);
    match is_problem.then(|| decode::<v1::Problem>(body, MAX_CONTROL_BYTES).ok()).flatten() {
        Some(problem) => refused(problem, status.as_u16(), seconds),
        None => refused_by_proxy(status, seconds),
    }
}

/// The error for a problem that came while an answer was computed.
pub(super) fn refusal_in_steps(problem: v1::Problem) -> Error {
    let seconds = (problem.retry_after_seconds > 0).then_some(problem.retry_after_seconds.into());
    let status = problem.status.try_into().unwrap_or(u16::MAX);
    refused(problem, status, seconds)
}

fn refused_by_proxy(status: StatusCode, seconds: Option<u64>) -> Error {
    let problem = v1::Problem {
        code: OF_PROXY.into(),
        message: format!("HTTP status {status}"),
        remedy: "check the address, and any proxy on the way".into(),
        ..v1::Problem::default()
    };
    let at_once = OF_BUSY_PROXIES.contains(&status).then_some(0);
    refused(problem, status.as_u16(), seconds.or(at_once))
}

fn refused(problem: v1::Problem, status: u16, retry_after_seconds: Option<u64>) -> Error {
    Error::Refused(Problem {
        code: problem.code,
        status,
        message: problem.message,
        remedy: problem.remedy,
        retry_after: retry_after_seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)),
        request_id: problem.request_id,
    })
}
