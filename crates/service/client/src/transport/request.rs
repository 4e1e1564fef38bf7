//! One request and its response. They run on a runtime of their own, so that callers may be in any context and can stop
//! waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::runtime::Runtime;
use unspoken_protocol::AnswerProgress;
use unspoken_wire::http::{BYTES, PROGRESS, PROTOBUF, UPLOAD_OFFSET};
use unspoken_wire::{AnswerFrame, AnswerReader, MAX_CONTROL_BYTES};

use super::cancel::POLL;
use super::live::{ClientSettings, Live, thread_gone};
use super::refusal::{refusal, refusal_in_steps};
use super::scheme::is_loopback;
use super::url::{endpoint, service_url};
use super::wait::{WaitCallback, Waiting};
use super::{Cancel, Error, TransportConfig, UnreachableCause, authorities};

/// Time without an answer to a short message after which the caller is told.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Kind of response that is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Control,
    /// An answer of at most this number of bytes.
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

/// What a caller sees of a request while it waits.
pub(super) struct Watch<'a> {
    /// Receives the steps of an answer that are done, and in total.
    pub(super) progress: &'a mut dyn FnMut(u32, u32),
    /// Whether the service accepted the query and said so before it had the answer: it waited there, or was computed.
    pub(super) was_held: bool,
}

pub(super) struct HttpConnection {
    live: Live,
    settings: ClientSettings,
    base: Url,
    request_timeout: Duration,
    max_answer_bytes: usize,
    /// Whether the service has ever answered.
    answered: AtomicBool,
    on_wait: Option<WaitCallback>,
}

impl HttpConnection {
    pub(super) fn new(config: &TransportConfig) -> Result<Self, Error> {
        // If another crate installed a provider first, that one stays; any provider works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = service_url(config)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(PROTOBUF));
        if let Some(token) = &config.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::config("the token has characters a header cannot carry"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let authorities = config.authorities.as_deref().map(authorities::read).transpose().map_err(Error::config)?;
        let settings = ClientSettings {
            headers,
            connect_timeout: config.connect_timeout,
            authorities: authorities.unwrap_or_default(),
            is_local: is_loopback(&base),
        };
        Ok(Self {
            live: Live::new(&settings)?,
            settings,
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

    /// Sends once and reads the response; waits no longer than `left`, if there is such a limit. `watch` receives how
    /// far an answer is, if that is expected.
    pub(super) fn send(
        &self,
        outgoing: &Outgoing,
        left: Option<Duration>,
        watch: &mut Watch<'_>,
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        cancel.check()?;
        let (client, runtime) = self.live.of_this_process(&self.settings)?;
        let own = outgoing.timeout.unwrap_or(self.request_timeout);
        // A timeout of the caller may be longer than the usual time of an answer, which has no other limit.
        let (limit, timeout) = match outgoing.expect {
            Expect::Control => (MAX_CONTROL_BYTES, left.map_or(own, |left| left.min(own))),
            Expect::Answer(most) | Expect::AnswerWithProgress(most) => {
                (most.min(self.max_answer_bytes), left.unwrap_or(own))
            }
        };
        let url = endpoint(&self.base, &outgoing.path)?;
        let mut request = client.request(outgoing.method.clone(), url).timeout(timeout);
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
        let began = Arc::new(AtomicBool::new(false));
        let steps_began = Arc::clone(&began);
        let mut shown = None;
        let mut show = || {
            let now = newest.newest();
            if let Some((done, total)) = now.filter(|_| now != shown) {
                shown = now;
                (watch.progress)(done, total);
            }
        };
        // Answers to queries, and checks of keys, may take long; so may sending.
        let short = outgoing.timeout.is_none() && outgoing.body.is_none();
        let sent = self.wait(runtime, cancel, short.then_some(timeout), &mut show, async move {
            let response = request.send().await.map_err(|error| failures.of(&error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            if !status.is_success() {
                let body = read_body(response, MAX_CONTROL_BYTES, &failures).await?;
                return Err(refusal(status, &headers, &body));
            }
            let in_steps = headers.get(CONTENT_TYPE).is_some_and(|media| media == PROGRESS);
            if in_steps && wants_steps {
                steps_began.store(true, Ordering::Relaxed);
                read_steps(response, limit, &reached, &failures).await
            } else {
                read_body(response, limit, &failures).await
            }
        });
        watch.was_held |= began.load(Ordering::Relaxed);
        if sent.as_ref().map_or_else(Error::is_of_service, |_| true) {
            self.answered.store(true, Ordering::Relaxed);
        }
        sent
    }

    /// Runs a future to completion, or drops it when cancelled. If it has a `limit` and is still not complete after
    /// [`NOTICE_AFTER`], the caller is told. `show` is called often meanwhile, and once when it is complete.
    fn wait<T: Send + 'static>(
        &self,
        runtime: &Runtime,
        cancel: &Cancel,
        limit: Option<Duration>,
        show: &mut dyn FnMut(),
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
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
                Err(RecvTimeoutError::Disconnected) => return Err(thread_gone()),
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
    let too_long = || Error::protocol(format!("a response of over {limit} bytes"));
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
            let frame = reader.read(&mut piece).map_err(Error::protocol)?;
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
