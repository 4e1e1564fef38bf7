//! Connections: accepts them within limits, negotiates TLS, and closes connections that send no authorized request.
//!
//! A connection counts against the limit of its address. It is closed if it sends no request with a known token in
//! time; files of the page may be loaded before, for `timeouts.page` at most. The head of a request has at most 16 KiB.
//! A longer head is a 431, a malformed head a 400, both without a body (hyper writes them) and counted with the route
//! `unreadable`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use prometheus::{IntCounter, IntCounterVec, IntGauge};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use crate::authorization::ConnectionAuthorization;
use crate::concurrency::ConcurrencyLimit;
use crate::network::Network;
use crate::timeouts::ConnectionTimeouts;
use crate::tls::Certificates;

/// Pause after an error of the listener; the usual cause is too many open files, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest head of a request: request line and headers. A longer one is answered with 431.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Bytes of memory that a connection takes at most besides bodies and answers: a head, and what is written.
pub(crate) const CONNECTION_BYTES: u64 = 2 * MAX_HEAD_BYTES as u64;

/// Bytes of memory that TLS takes for a connection.
pub(crate) const TLS_BYTES: u64 = 64 << 10;

/// State that all connections of one listener share.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    /// Limit of open connections; more wait to be accepted.
    pub(crate) total: Arc<Semaphore>,
    /// Limit of open connections from one network; more are closed.
    pub(crate) per_network: ConcurrencyLimit<Network>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) router: Router,
    pub(crate) timeouts: ConnectionTimeouts,
    /// Cancelled when the service accepts no more connections; those without a request are closed.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the service has stopped; connections that are still open are closed.
    pub(crate) stopped: CancellationToken,
    /// Counts requests whose head cannot be read, and which therefore do not reach the router.
    pub(crate) requests: IntCounterVec,
    pub(crate) open: IntGauge,
    pub(crate) refused: IntCounter,
}

/// Accepts connections until it is dropped.
pub(crate) async fn accept(listener: &TcpListener, graceful: &GracefulShutdown, context: &ConnectionContext) {
    loop {
        let Ok(permit) = context.total.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let network = Network::of(peer.ip());
        let Some(network_permit) = context.per_network.try_acquire(&network) else {
            context.refused.inc();
            tracing::debug!(address = %peer.ip(), limit = context.per_network.limit(), "too many connections");
            continue;
        };
        let (watcher, context) = (graceful.watcher(), context.clone());
        tokio::spawn(async move {
            let connected =
                Connected { network, authorization: ConnectionAuthorization::default(), begun: Arc::default() };
            context.open.inc();
            tokio::select! {
                () = connection(stream, &context, &connected, watcher) => {}
                () = context.stopped.cancelled() => {}
                // Hyper closes other connections: without a request at once, with a request after its answer.
                () = closing_unused(&context.closing, &connected.begun) => {}
                () = connected.authorization.overdue(context.timeouts) => {
                    tracing::debug!(address = %peer.ip(), "connection closed: it sent no authorized request in time");
                }
            }
            context.open.dec();
            drop((permit, network_permit));
        });
    }
}

/// Returns when the service closes and no request has begun.
async fn closing_unused(closing: &CancellationToken, begun: &AtomicBool) {
    closing.cancelled().await;
    if begun.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

async fn connection(stream: TcpStream, context: &ConnectionContext, connected: &Connected, watcher: Watcher) {
    // Answers are written whole, so waiting until packets are full only delays them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(context.timeouts.stall));
    let stream = Box::pin(stream);
    let Some(certificates) = &context.certificates else { return http(stream, context, connected, watcher).await };
    match tokio::time::timeout(context.timeouts.head, certificates.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => http(stream, context, connected, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: &ConnectionContext,
    connected: &Connected,
    watcher: Watcher,
) {
    let requests =
        ConnectionRequests { router: TowerToHyperService::new(context.router.clone()), connected: connected.clone() };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.timeouts.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), requests);
    match watcher.watch(connection).await {
        Err(error) if error.is_parse() => log_unreadable(&error, &context.requests),
        Err(error) => tracing::debug!(%error, "connection ended"),
        Ok(()) => {}
    }
}

/// Logs and counts a request that hyper has answered itself, without a body, because it could not read the head.
fn log_unreadable(error: &hyper::Error, requests: &IntCounterVec) {
    let status = if error.is_parse_too_large() { "431" } else { "400" };
    requests.with_label_values(&["unreadable", "other", status]).inc();
    tracing::info!(route = "unreadable", status, reason = %error, "request");
}

/// What is known of an open connection.
#[derive(Clone)]
struct Connected {
    network: Network,
    authorization: ConnectionAuthorization,
    /// Whether it has sent a whole head.
    begun: Arc<AtomicBool>,
}

/// The router; adds to each request where its connection comes from, and its authorization state.
struct ConnectionRequests {
    router: TowerToHyperService<Router>,
    connected: Connected,
}

impl Service<Request<Incoming>> for ConnectionRequests {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.connected.begun.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(self.connected.authorization.clone());
        request.extensions_mut().insert(self.connected.network);
        self.router.call(request)
    }
}
