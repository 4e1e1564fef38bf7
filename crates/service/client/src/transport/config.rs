//! Configuration of the connection to a service.

use std::fmt;
use std::time::Duration;

use super::Error;
use super::scheme::with_scheme;
use super::wait::WaitCallback;

/// Address of the service, token, timeouts and retries.
#[derive(Clone)]
pub struct TransportConfig {
    /// `https://host:port`, or `http://` for a service on this machine; a path may follow, as behind a proxy.
    pub url: String,
    /// Bearer token, if the service requires one.
    pub token: Option<String>,
    /// Certificate authorities to trust besides the system's: PEM, or one certificate in DER.
    pub authorities: Option<Vec<u8>>,
    /// Allows plain HTTP to another machine, with the token if there is one.
    pub insecure_http: bool,
    /// Total time for one answer, retries and the service's work included, after which a call gives up; of an upload,
    /// for each chunk. `None`: only the limits below apply.
    pub timeout: Option<Duration>,
    /// Called on the thread of a call before each pause after which it tries again, and when a short message has no
    /// answer after some seconds.
    pub on_wait: Option<WaitCallback>,
    /// Time limit for establishing a connection, TLS included.
    pub connect_timeout: Duration,
    /// Time limit for a control message or one chunk of an upload.
    pub request_timeout: Duration,
    /// Time limit for an answer, the wait in the service's queue included.
    pub answer_timeout: Duration,
    /// Bytes in one chunk of an upload.
    pub chunk_bytes: usize,
    /// Longest answer that is read, in bytes, unless the application sets a lower limit.
    pub max_answer_bytes: usize,
    /// When and how often to retry.
    pub retry: RetryPolicy,
}

/// When and how often to retry. A longer pause in the service's `Retry-After` takes precedence. A call is tried again
/// after a lost connection, a refusal with `Retry-After`, and a status 429, 502, 503 or 504 of a proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Time after which a call that keeps failing gives up, counted from its first failure. An upload that makes
    /// progress starts again with each chunk, and an answer that is lost while the query waits at the service or is
    /// computed there, with the loss, up to three times.
    pub patience: Duration,
    /// The same, shorter, for a service that has never answered and accepts no connection, or that only a proxy answers
    /// for: the address may be wrong.
    pub connect_patience: Duration,
    /// First pause; each pause is twice as long as the one before.
    pub first_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
}

impl TransportConfig {
    /// Default time limits and retries, no token. An address without a scheme gets one: `http://` for a service on this
    /// machine, otherwise `https://`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: with_scheme(url.into()),
            token: None,
            authorities: None,
            insecure_http: false,
            timeout: None,
            on_wait: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(120),
            answer_timeout: Duration::from_secs(1200),
            chunk_bytes: 4 << 20,
            max_answer_bytes: 1 << 30,
            retry: RetryPolicy::default(),
        }
    }

    /// The same configuration with a token.
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The same configuration with a total time for one answer.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not a positive number of seconds.
    pub fn with_timeout(mut self, seconds: f64) -> Result<Self, Error> {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        let wrong = || Error::config(format!("timeout: found {seconds}; needed seconds, more than 0"));
        self.timeout = Some(timeout.ok_or_else(wrong)?);
        Ok(self)
    }

    /// The same configuration with certificate authorities: PEM, or one certificate in DER.
    pub fn with_authorities(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(certificates.into());
        self
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(120),
            connect_patience: Duration::from_secs(10),
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportConfig")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "[secret]"))
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
