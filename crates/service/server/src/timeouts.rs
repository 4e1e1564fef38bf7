//! How long a service waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time limits and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Time limit for the TLS handshake and for a request head; also how long an idle connection is kept.
    #[serde(with = "humantime_serde")]
    pub head: Duration,
    /// Time limit from the start of a connection to the head of its first request with a known token. A connection that
    /// has sent none by then is closed, unless it loads files of the page.
    #[serde(with = "humantime_serde")]
    pub authorization: Duration,
    /// Time limit from the start of a connection that has sent no known token to the end of the files of the page that
    /// it loads.
    #[serde(with = "humantime_serde")]
    pub page: Duration,
    /// Time limit for every 64 KiB of a body, and longest pause while a response is sent.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// Time limit for a whole query body, and for a body's wait for memory.
    #[serde(with = "humantime_serde")]
    pub query_body: Duration,
    /// Time limit from a complete request to its answer: waiting, loading, computing.
    #[serde(with = "humantime_serde")]
    pub answer: Duration,
    /// How long an upload is kept after its last byte.
    #[serde(with = "humantime_serde")]
    pub upload_lifetime: Duration,
    /// How long a finished key bundle is kept.
    #[serde(with = "humantime_serde")]
    pub key_lifetime: Duration,
    /// How often expired bundles are deleted and the disk is tested.
    #[serde(with = "humantime_serde")]
    pub sweep: Duration,
    /// Time after a shutdown signal in which the service still accepts connections but reports that it is not ready, so
    /// that a load balancer can redirect clients first.
    #[serde(with = "humantime_serde")]
    pub drain_notice: Duration,
    /// Time after that in which running requests may finish before they are cancelled.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            authorization: Duration::from_secs(10),
            page: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            query_body: Duration::from_secs(300),
            answer: Duration::from_secs(900),
            upload_lifetime: Duration::from_secs(24 * 3600),
            key_lifetime: Duration::from_secs(30 * 24 * 3600),
            sweep: Duration::from_secs(30),
            drain_notice: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    pub(crate) head: Duration,
    pub(crate) stall: Duration,
    /// Time limit until the first authorized request; `None` if no authorization is needed.
    pub(crate) authorization: Option<Duration>,
    /// Time limit for loading the page, which needs no authorization.
    pub(crate) page: Duration,
}

impl ConnectionTimeouts {
    /// The time limits of a listener for clients.
    pub(crate) fn of_clients(timeouts: &Timeouts) -> Self {
        let Timeouts { head, stall, authorization, page, .. } = *timeouts;
        Self { head, stall, authorization: Some(authorization), page }
    }
}
