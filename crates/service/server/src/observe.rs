//! Middleware around every request: assigns an id, authenticates the client, writes a log line, counts metrics, and
//! renders the body of a refusal. It does not see the content of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method};
use unspoken_wire::ProblemCode;
use unspoken_wire::http::REQUEST_ID;

use crate::auth::{ClientName, RequestClient};
use crate::authorization::ConnectionAuthorization;
use crate::body::{SharedBody, declared_length};
use crate::refusal::{Refusal, wants_json};
use crate::service::Service;

/// Bytes and time spent on reading what a refused client is still sending.
const LINGER_BYTES: usize = 32 << 20;
const LINGER_TIME: Duration = Duration::from_secs(3);
const LINGER_TIME_CLOSING: Duration = Duration::from_millis(500);

pub(crate) async fn observe(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let json = wants_json(&parts.headers);
    let request_id = request_id(&parts.headers);
    let authorization = parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let client = service.authenticator.authenticate(authorization);
    if client.is_some()
        && let Some(connection) = parts.extensions.get::<ConnectionAuthorization>()
    {
        connection.confirm();
    }
    parts.extensions.insert(RequestClient(client.clone()));
    let is_page = || service.page.as_ref().is_some_and(|page| page.has(parts.uri.path()));
    let route = match parts.extensions.get::<MatchedPath>() {
        Some(path) => path.as_str(),
        None if is_page() => "page",
        None => "unmatched",
    };
    let log = Arc::new(RequestLog {
        service: service.clone(),
        start: Instant::now(),
        id: request_id,
        method: known_method(&parts.method),
        route: route.to_owned(),
        client,
        received: declared_length(&parts.headers),
        finished: AtomicBool::new(false),
    });
    parts.extensions.insert(log.clone());
    service.engine.metrics.in_flight.inc();

    let body = SharedBody::new(body);
    let request = Request::from_parts(parts, axum::body::Body::new(body.clone()));
    let mut response = next.run(request).await;
    if !body.is_finished() {
        let time = if service.closing.is_cancelled() { LINGER_TIME_CLOSING } else { LINGER_TIME };
        tokio::spawn(body.linger(LINGER_BYTES, time));
    }
    let refusal = response.extensions_mut().remove::<Refusal>().or_else(|| refusal_of_framework(&response));
    if let Some(refusal) = &refusal {
        // Headers of inner layers stay: the methods that are allowed, and what a page of another origin may read.
        let mut headers = std::mem::take(response.headers_mut());
        response = refusal.render(json, &log.id);
        headers.remove(header::CONTENT_LENGTH);
        for (name, value) in response.headers() {
            headers.insert(name, value.clone());
        }
        *response.headers_mut() = headers;
    }
    // Browsers neither keep what is not theirs to keep, nor guess another type.
    for (name, value) in [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(value) = HeaderValue::from_str(&log.id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    if response.extensions_mut().remove::<Unfinished>().is_none() {
        let sent = http_body::Body::size_hint(response.body()).exact();
        log.finish(response.status().as_u16(), sent, refusal.as_ref());
    }
    response
}

/// The refusal for a client error that axum has found, for instance a path that is not UTF-8.
fn refusal_of_framework(response: &Response) -> Option<Refusal> {
    let status = response.status();
    let message = || format!("the request cannot be read: {}", status.canonical_reason().unwrap_or("client error"));
    status.is_client_error().then(|| Refusal::new(ProblemCode::MalformedRequest, message(), "see docs/protocol.md"))
}

/// Extension of a response whose status is not known yet: its body finishes the log record.
#[derive(Clone)]
pub(crate) struct Unfinished;

/// Log record of one request, an extension of it. If all its holders drop it unfinished, the client disconnected.
pub(crate) struct RequestLog {
    service: Arc<Service>,
    start: Instant,
    /// Id of the request.
    pub(crate) id: String,
    method: &'static str,
    route: String,
    client: Option<ClientName>,
    received: Option<u64>,
    finished: AtomicBool,
}

impl RequestLog {
    /// Logs and counts the request, with the bytes sent if they are known.
    pub(crate) fn finish(&self, status: u16, sent: Option<u64>, refusal: Option<&Refusal>) {
        self.finished.store(true, Ordering::Relaxed);
        self.write(status, sent, refusal);
    }

    fn write(&self, status: u16, sent: Option<u64>, refusal: Option<&Refusal>) {
        let metrics = &self.service.engine.metrics;
        let labels = [self.route.as_str(), self.method, &status.to_string()];
        metrics.requests.with_label_values(&labels).inc();
        tracing::info!(
            request_id = self.id,
            method = self.method,
            route = self.route,
            status,
            client = self.client.as_ref().map(ClientName::as_str),
            received_bytes = self.received,
            sent_bytes = sent,
            millis = self.start.elapsed().as_millis() as u64,
            code = refusal.map(|refusal| refusal.code.name()),
            reason = refusal.map(Refusal::message),
            "request"
        );
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.service.engine.metrics.in_flight.dec();
        if !*self.finished.get_mut() {
            // The status that nginx logs for a client that closed its connection.
            self.write(499, None, None);
        }
    }
}

/// The client's own request id if it has the allowed characters, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let harmless = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if let Some(id) = given.filter(harmless) {
        return id.to_owned();
    }
    let mut bytes = [0; 8];
    // Only an id for the log: if the system has no randomness, all requests share one.
    let _ = getrandom::fill(&mut bytes);
    hex::encode(bytes)
}

/// A label for the metrics. Unknown methods share one label, so that clients cannot create new ones.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
