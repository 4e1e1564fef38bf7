//! A service that listens and still loads: it answers every request with the progress of loading and the time to come
//! again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, StatusCode, Uri};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use unspoken_wire::ProblemCode;

use crate::auth::Authenticator;
use crate::concurrency::ConcurrencyLimit;
use crate::config::ServerConfig;
use crate::connection::{ConnectionContext, accept};
use crate::error::ServerError;
use crate::listen::listen;
use crate::metrics::Metrics;
use crate::origin::AllowedOrigin;
use crate::refusal::{Refusal, wants_json};
use crate::routes::cross_origin;
use crate::timeouts::ConnectionTimeouts;
use crate::tls::Certificates;

/// Seconds after which a client asks again.
const RETRY_SECONDS: u32 = 1;

/// Maximum number of connections, in all and of one network: each ends with its first answer.
const CONNECTIONS: usize = 256;
const CONNECTIONS_PER_NETWORK: usize = 64;

/// Time in which the last answers must have been read.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a starting service does, as it tells its clients. Clones share one text.
#[derive(Clone)]
pub struct StartingStep(Arc<Mutex<String>>);

impl StartingStep {
    /// Replaces the text, for instance by "loading classify/spam (2 of 3)".
    pub fn set(&self, step: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A service that listens before its applications are loaded. [`Server::bind_after`](crate::Server::bind_after) takes
/// its place, on the same address. Dropped, it stops answering and gives its address back.
pub struct Starting {
    step: StartingStep,
    address: SocketAddr,
    stop: DropGuard,
    listening: JoinHandle<TcpListener>,
}

impl Starting {
    /// Checks the configuration, listens, and answers from now on: `/healthz` that the process runs, `/readyz` and all
    /// else that the service is starting.
    ///
    /// # Errors
    /// [`ServerError`], which names what to change.
    pub async fn listen(config: &ServerConfig) -> Result<Self, ServerError> {
        config.check()?;
        // Wrong tokens are told now, not after the models are loaded.
        Authenticator::new(config.tokens.as_deref())?;
        let certificates = config.tls.as_ref().map(Certificates::read).transpose()?.map(Arc::new);
        let metrics = Metrics::new()?;
        let listener = listen(config.listen).await?;
        let address = listener.local_addr().map_err(|source| ServerError::Listen { address: config.listen, source })?;
        let step = StartingStep(Arc::new(Mutex::new("loading".into())));
        let stop = CancellationToken::new();
        let context = ConnectionContext {
            total: Arc::new(Semaphore::new(CONNECTIONS)),
            per_network: ConcurrencyLimit::new(CONNECTIONS_PER_NETWORK),
            certificates,
            router: router(step.clone(), &config.allow_origins),
            timeouts: ConnectionTimeouts::of_clients(&config.timeouts),
            closing: stop.clone(),
            stopped: CancellationToken::new(),
            requests: metrics.requests,
            open: metrics.connections,
            refused: metrics.connections_refused,
        };
        tracing::info!(%address, "listening, and loading");
        let listening = tokio::spawn(answer(listener, context, stop.clone()));
        Ok(Self { step, address, stop: stop.drop_guard(), listening })
    }

    /// The address, with the selected port if port 0 was configured.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What clients are told.
    pub fn step(&self) -> StartingStep {
        self.step.clone()
    }

    /// Stops answering, and returns the listener. Connections that are not accepted yet wait for the next who accepts.
    pub(crate) async fn into_listener(self) -> Result<TcpListener, ServerError> {
        drop(self.stop);
        let lost = |error| ServerError::Listen { address: self.address, source: std::io::Error::other(error) };
        self.listening.await.map_err(lost)
    }
}

/// Pages of allowed origins may read the answers, too, so that they wait.
fn router(step: StartingStep, allowed: &[AllowedOrigin]) -> Router {
    let router = Router::new().fallback(respond).with_state(step);
    if allowed.is_empty() { router } else { router.layer(cross_origin(allowed)) }
}

/// Answers until it is told to stop.
async fn answer(listener: TcpListener, context: ConnectionContext, stop: CancellationToken) -> TcpListener {
    let _stopped = context.stopped.clone().drop_guard();
    let graceful = GracefulShutdown::new();
    tokio::select! {
        () = accept(&listener, &graceful, &context) => {}
        () = stop.cancelled() => {}
    }
    if tokio::time::timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
        tracing::debug!("connections were closed that did not read that the service is starting");
    }
    listener
}

async fn respond(State(step): State<StartingStep>, uri: Uri, headers: HeaderMap) -> Response {
    let step = step.text();
    let mut response = match uri.path() {
        "/healthz" => "ok\n".into_response(),
        "/readyz" => {
            let retry = [(header::RETRY_AFTER, RETRY_SECONDS.to_string())];
            (StatusCode::SERVICE_UNAVAILABLE, retry, format!("starting: {step}\n")).into_response()
        }
        _ => {
            let message = format!("the service is starting: {step}");
            let refusal = Refusal::new(ProblemCode::Starting, message, "ask again later").retry_after(RETRY_SECONDS);
            refusal.render(wants_json(&headers), "of the start")
        }
    };
    for (name, value) in [(header::CONNECTION, "close"), (header::CACHE_CONTROL, "no-store")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
