//! One request and its response. They run on a runtime of their own, so that callers may be in any context and can stop
//! waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Client, Method, Response, StatusCode, Url};
use tokio::runtime::Runtime;
use unspoken_protocol::AnswerProgress;
use unspoken_wire::http::{BYTES, PROGRESS, PROTOBUF, UPLOAD_OFFSET};
use unspoken_wire::{AnswerFrame, AnswerReader, MAX_CONTROL_BYTES, decode, v1};

use super::cancel::POLL;
use super::resolver::SystemResolver;
use super::url::is_loopback;
use super::wait::{WaitCallback, Waiting};
use super::{Cancel, Error, Problem, TransportConfig, UnreachableCause};

/// Time without an answer to a short message after which the caller is told.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Longest `Retry-After` that is honoured; a longer one is cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Kind of response that is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Control,
    /// An answer of at most so many bytes.
    Answer(usize),
    /// The same, and its progress if the service sends that.
    AnswerWithProgress(usize),
}

/// A request, which may be sent more than once.
#[derive(Clone)]
pub(super) struct Outgoing {
    method: Method,
    path: String,
    body: Option<Bytes>,
    offset: Option<u64>,
    expect: Expect,
    timeout: Option<Duration>,
}

impl Outgoing {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let expect = Expect::Control;
        Self { method, path: path.into(), body: None, offset: None, expect, timeout: None }
    }

    pub(super) fn with_body(mut self, body: Bytes) -> Self {
        self.body = Some(body);
        self
    }

    /// A chunk of an upload that starts at `offset`.
    pub(super) fn at_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    pub(super) fn expecting(mut self, expect: Expect, timeout: Duration) -> Self {
        self.expect = expect;
        self.timeout = Some(timeout);
        self
    }
}

pub(super) struct HttpConnection {
    /// Taken when dropped.
    runtime: Option<Runtime>,
    client: Client,
    base: Url,
    request_timeout: Duration,
    max_answer_bytes: usize,
    /// Whether the service has ever answered.
    answered: AtomicBool,
    on_wait: Option<WaitCallback>,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpConnection {
    pub(super) fn new(config: &TransportConfig) -> Result<Self, Error> {
        // If another crate installed a provider first, that one stays; any provider works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = parse_url(config)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(PROTOBUF));
        if let Some(token) = &config.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| wrong("the token has characters a header cannot carry"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .default_headers(headers)
            .connect_timeout(config.connect_timeout)
            .dns_resolver(SystemResolver)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("unspoken/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        if let Some(pem) = &config.authorities_pem {
            let authorities = Certificate::from_pem_bundle(pem)
                .map_err(|error| wrong(format!("certificate authorities: {error}")))?;
            if authorities.is_empty() {
                return Err(wrong("certificate authorities: no certificate in the PEM"));
            }
            builder = builder.tls_certs_merge(authorities);
        }
        let client = builder.build().map_err(|error| wrong(reasons(&error)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("unspoken-transport")
            .enable_all()
            .build()
            .map_err(|error| wrong(format!("no thread for the connection: {error}")))?;
        Ok(Self {
            runtime: Some(runtime),
            client,
            base,
            request_timeout: config.request_timeout,
            max_answer_bytes: config.max_answer_bytes,
            answered: AtomicBool::new(false),
            on_wait: config.on_wait.clone(),
        })
    }

    /// Whether the service has ever answered.
    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Sends once and reads the response; waits no longer than `left`, if there is such a limit. `progress` receives
    /// how far an answer is, if that is expected.
    pub(super) fn send(
        &self,
        outgoing: &Outgoing,
        left: Option<Duration>,
        progress: &mut dyn FnMut(u32, u32),
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        cancel.check()?;
        let own = outgoing.timeout.unwrap_or(self.request_timeout);
        // A timeout of the caller may be longer than the usual time of an answer, which has no other limit.
        let (limit, timeout) = match outgoing.expect {
            Expect::Control => (MAX_CONTROL_BYTES, left.map_or(own, |left| left.min(own))),
            Expect::Answer(most) | Expect::AnswerWithProgress(most) => {
                (most.min(self.max_answer_bytes), left.unwrap_or(own))
            }
        };
        let url = self.base.join(&outgoing.path).map_err(|error| wrong(error.to_string()))?;
        let mut request = self.client.request(outgoing.method.clone(), url).timeout(timeout);
        if let Some(offset) = outgoing.offset {
            request = request.header(UPLOAD_OFFSET, offset);
        }
        if let Some(body) = &outgoing.body {
            request = request.header(CONTENT_TYPE, BYTES).body(body.clone());
        }
        let wants_steps = matches!(outgoing.expect, Expect::AnswerWithProgress(_));
        if wants_steps {
            // A service that does not know the first answers plainly.
            request = request.header(ACCEPT, format!("{PROGRESS}, {PROTOBUF}"));
        }
        let (failures, reached) = (Failures { url: self.base.to_string(), after: timeout }, Arc::default());
        let newest: Arc<AnswerProgress> = Arc::clone(&reached);
        let mut shown = None;
        let mut show = || {
            let now = newest.newest();
            if let Some((done, total)) = now.filter(|_| now != shown) {
                shown = now;
                progress(done, total);
            }
        };
        // Answers to queries, and checks of keys, may take long; so may sending.
        let short = outgoing.timeout.is_none() && outgoing.body.is_none();
        let sent = self.wait(cancel, short.then_some(timeout), &mut show, async move {
            let response = request.send().await.map_err(|error| failures.of(&error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            if !status.is_success() {
                let body = read_body(response, MAX_CONTROL_BYTES, &failures).await?;
                return Err(refusal(status, &headers, &body));
            }
            let in_steps = headers.get(CONTENT_TYPE).is_some_and(|media| media == PROGRESS);
            match in_steps && wants_steps {
                true => read_steps(response, limit, &reached, &failures).await,
                false => read_body(response, limit, &failures).await,
            }
        });
        if matches!(sent, Ok(_) | Err(Error::Refused(_))) {
            self.answered.store(true, Ordering::Relaxed);
        }
        sent
    }

    /// Runs a future to completion, or drops it when cancelled. If it has a `limit` and is still not complete after
    /// [`NOTICE_AFTER`], the caller is told. `show` is called often meanwhile, and once when it is complete.
    fn wait<T: Send + 'static>(
        &self,
        cancel: &Cancel,
        limit: Option<Duration>,
        show: &mut dyn FnMut(),
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let lost = || wrong("the thread of the connection is gone");
        let runtime = self.runtime.as_ref().ok_or_else(lost)?;
        let (done, result) = channel();
        let task = runtime.spawn(async move {
            // The receiver is gone only if the call was cancelled.
            let _ = done.send(work.await);
        });
        let start = Instant::now();
        let mut notice = limit.filter(|limit| *limit > NOTICE_AFTER).zip(self.on_wait.as_ref());
        loop {
            let spent = start.elapsed();
            if let Some((limit, on_wait)) = notice.take_if(|_| spent >= NOTICE_AFTER) {
                let (url, reason) = (self.base.to_string(), "connected, but no answer yet".into());
                on_wait(&Waiting { url, reason, tries: 1, spent, limit });
            }
            let received = result.recv_timeout(POLL);
            show();
            match received {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                    task.abort();
                    return Err(Error::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Makes the errors of one request.
struct Failures {
    url: String,
    /// The request's time limit.
    after: Duration,
}

impl Failures {
    fn of(&self, error: &reqwest::Error) -> Error {
        if error.is_timeout() && !error.is_connect() {
            return Error::TimedOut { url: self.url.clone(), after: self.after };
        }
        Error::Unreachable { url: self.url.clone(), cause: UnreachableCause::of(error) }
    }

    fn broken_off(&self) -> Error {
        let cause = UnreachableCause::Lost("the response ended before the answer".into());
        Error::Unreachable { url: self.url.clone(), cause }
    }
}

async fn read_body(mut response: Response, limit: usize, failures: &Failures) -> Result<Bytes, Error> {
    let too_long = || Error::Protocol { reason: format!("a response of over {limit} bytes") };
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_long());
    }
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failures.of(&error))? {
        if piece.len() > limit - body.len() {
            return Err(too_long());
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// Reads an answer of at most `limit` bytes that is sent while it is computed, and reports how far it is. Reads to the
/// end, so that nothing follows the answer and the connection can be used again.
async fn read_steps(
    mut response: Response,
    limit: usize,
    reached: &AnswerProgress,
    failures: &Failures,
) -> Result<Bytes, Error> {
    let (mut reader, mut last) = (AnswerReader::new(limit), None);
    while let Some(piece) = response.chunk().await.map_err(|error| failures.of(&error))? {
        let mut piece = piece.as_ref();
        while !piece.is_empty() {
            let frame = reader.read(&mut piece).map_err(|error| Error::Protocol { reason: error.to_string() })?;
            match frame {
                Some(AnswerFrame::Progress(step)) => reached.report(step.done, step.total),
                Some(AnswerFrame::Problem(problem)) => last = Some(Err(refusal_in_steps(problem))),
                Some(AnswerFrame::Answer(answer)) => last = Some(Ok(answer.into())),
                None => {}
            }
        }
    }
    last.unwrap_or_else(|| Err(failures.broken_off()))
}

/// The error for a status other than success. A proxy on the way may answer without a `Problem`.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Error {
    let is_problem = headers.get(CONTENT_TYPE).is_some_and(|media| media == PROTOBUF);
    let problem =
        is_problem.then(|| decode::<v1::Problem>(body, MAX_CONTROL_BYTES).ok()).flatten().unwrap_or_else(|| {
            v1::Problem {
                code: "unknown".into(),
                message: format!("HTTP status {status}, without a reason"),
                remedy: "check the address, and any proxy on the way".into(),
                ..v1::Problem::default()
            }
        });
    let seconds: Option<u64> = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    refused(problem, status.as_u16(), seconds)
}

/// The error for a problem that came while an answer was computed.
fn refusal_in_steps(problem: v1::Problem) -> Error {
    let seconds = (problem.retry_after_seconds > 0).then_some(problem.retry_after_seconds.into());
    let status = problem.status.try_into().unwrap_or(u16::MAX);
    refused(problem, status, seconds)
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

fn parse_url(config: &TransportConfig) -> Result<Url, Error> {
    let url = Url::parse(&config.url).map_err(|error| wrong(format!("URL {:?}: {error}", config.url)))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong(format!("URL {:?}: needed https://HOST:PORT, or http://HOST:PORT", config.url)));
    }
    let in_the_clear = url.scheme() == "http" && !is_loopback(&url);
    if in_the_clear && !config.insecure_http {
        let what = if config.token.is_some() { "the token and all else" } else { "everything" };
        return Err(wrong(format!(
            "{what} would travel to {url} in the clear; use https, or allow it (insecure_http, --insecure-http)"
        )));
    }
    Ok(url)
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::Config { reason: reason.into() }
}

/// An error and what caused it, on one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
