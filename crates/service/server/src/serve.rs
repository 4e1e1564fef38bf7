//! Starting, accepting connections, and stopping.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::application::Applications;
use crate::auth::{Gate, TokenError};
use crate::config::{ConfigError, ServerConfig, Timeouts};
use crate::disk::{Disk, LocalDisk};
use crate::engine::Engine;
use crate::memory::KeyCache;
use crate::metrics::Metrics;
use crate::queue::FairQueue;
use crate::routes::router;
use crate::service::Service;
use crate::share::Shares;
use crate::store::{Store, StorePolicy};
use crate::tls::{TlsError, acceptor};

/// What cancelled answers get to stop in, after the drain time.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token file makes no sense.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// Certificate or key make no sense.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An application needs more memory than there is.
    #[error(
        "start application {name}: one answer takes {needed} bytes of memory beside the \
         {prepared} of all models, limits.memory_bytes is {limit}; raise it"
    )]
    Memory {
        /// The application.
        name: String,
        /// Bytes for one query, its answer, and the work between.
        needed: u64,
        /// Bytes of the prepared models of all applications.
        prepared: u64,
        /// Bytes there are.
        limit: u64,
    },
    /// The data directory cannot be used.
    #[error("open data directory {path}: {source}")]
    Store {
        /// The directory.
        path: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("listen on {address}: {source}; choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: io::Error,
    },
    /// The metrics cannot be set up.
    #[error("set up metrics: {0}")]
    Metrics(String),
}

/// A service that is bound to its address and not yet accepting.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: usize,
    service: Arc<Service>,
}

impl Server {
    /// Checks the configuration, opens the data directory, and listens.
    ///
    /// # Errors
    /// [`ServeError`], naming what to change.
    pub async fn bind(config: ServerConfig, applications: Applications) -> Result<Self, ServeError> {
        Self::bind_with_disk(config, applications, Arc::new(LocalDisk)).await
    }

    /// [`Server::bind`] on a disk of the caller's.
    ///
    /// # Errors
    /// [`ServeError`], naming what to change.
    pub async fn bind_with_disk(
        config: ServerConfig,
        applications: Applications,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, ServeError> {
        config.check()?;
        let prepared = check_memory(&config, &applications)?;
        let gate = Gate::new(config.tokens.as_deref())?;
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        if tls.is_none() && !config.listen.ip().is_loopback() {
            tracing::warn!("tokens and queries cross the network without TLS");
        }
        let engine = Arc::new(engine(&config, prepared, disk)?);
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        let service = Arc::new(Service {
            engine,
            applications,
            gate,
            shares: Shares::new(config.limits.queries_per_client),
            timeouts: config.timeouts.clone(),
            draining: AtomicBool::new(false),
        });
        Ok(Self { listener, tls, connections: config.limits.connections, service })
    }

    /// The address, with the port that was taken for port 0.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is done, then finishes what runs: for the drain
    /// time undisturbed, after that cancelled. An application that does not
    /// look at its cancel flag may still be running on a thread when this
    /// returns; end the runtime with `shutdown_timeout`, or the process.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let timeouts = &self.service.timeouts;
        let graceful = GracefulShutdown::new();
        let closed = CancellationToken::new();
        let _closed = closed.clone().drop_guard();
        let _sweeping = self.service.engine.stop.clone().drop_guard();
        tokio::spawn(sweep(self.service.clone()));
        let doors = Doors {
            permits: Arc::new(Semaphore::new(self.connections)),
            tls: self.tls.clone(),
            router: router(self.service.clone()),
            timeouts: timeouts.clone(),
            closed,
        };
        if let Ok(address) = self.local_addr() {
            tracing::info!(%address, tls = self.tls.is_some(), "serving");
        }
        let stop = async {
            shutdown.await;
            self.service.draining.store(true, Ordering::Relaxed);
            tracing::info!("shutting down");
            tokio::time::sleep(timeouts.drain_notice).await;
        };
        tokio::select! {
            () = accept(&self.listener, &graceful, &doors) => {}
            () = stop => {}
        }
        drop(self.listener);
        finish(graceful, &self.service).await;
        tracing::info!("stopped");
    }
}

/// Waits for SIGTERM or SIGINT.
pub async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => {
            tracing::warn!("signals cannot be watched; the service stops when it is killed");
            std::future::pending().await
        }
    }
}

fn engine(config: &ServerConfig, prepared: u64, disk: Arc<dyn Disk>) -> Result<Engine, ServeError> {
    let limits = &config.limits;
    let policy = StorePolicy {
        key_disk_bytes: limits.key_disk_bytes,
        keys_per_client: limits.keys_per_client,
        upload_lifetime: config.timeouts.upload_lifetime,
        key_lifetime: config.timeouts.key_lifetime,
    };
    let store = Store::open_at(disk, &config.data_dir, policy)
        .map_err(|source| ServeError::Store { path: config.data_dir.display().to_string(), source })?;
    let workers = config.worker_count();
    Ok(Engine {
        store,
        // What models take is never given back.
        cache: KeyCache::new(limits.memory_bytes - prepared),
        queue: FairQueue::new(workers, limits.queue, limits.queue_per_client),
        metrics: Metrics::new().map_err(|error| ServeError::Metrics(error.to_string()))?,
        workers,
        patience: config.timeouts.answer,
        stop: CancellationToken::new(),
        recent_millis: AtomicU64::new(0),
    })
}

/// Bytes of all prepared models, once there is room for an answer of each application beside them.
fn check_memory(config: &ServerConfig, applications: &Applications) -> Result<u64, ServeError> {
    let limit = config.limits.memory_bytes;
    let prepared = applications.offers().map(|(_, offer)| offer.application.prepared_bytes());
    let prepared = prepared.fold(0, u64::saturating_add);
    for (name, offer) in applications.offers() {
        let bytes = [
            offer.limits.max_query_bytes as u64,
            offer.limits.max_answer_bytes as u64,
            offer.application.working_bytes(),
        ];
        let needed = bytes.into_iter().fold(0, u64::saturating_add);
        if needed.saturating_add(prepared) > limit {
            return Err(ServeError::Memory { name: name.into(), needed, prepared, limit });
        }
    }
    Ok(prepared.min(limit))
}

/// What every connection needs.
struct Doors {
    permits: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
    router: Router,
    timeouts: Timeouts,
    /// Cancelled when the service is gone; connections still open are closed.
    closed: CancellationToken,
}

async fn accept(listener: &TcpListener, graceful: &GracefulShutdown, doors: &Doors) {
    loop {
        let Ok(permit) = doors.permits.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most often too many open files: wait for some to close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let watcher = graceful.watcher();
        let (tls, router) = (doors.tls.clone(), doors.router.clone());
        let (timeouts, closed) = (doors.timeouts.clone(), doors.closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, tls, router, &timeouts, watcher) => {}
                () = closed.cancelled() => {}
            }
            drop(permit);
        });
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    timeouts: &Timeouts,
    watcher: Watcher,
) {
    // Answers are written whole, so waiting to fill packets only delays them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(timeouts.stall));
    let stream = Box::pin(stream);
    let Some(tls) = tls else { return http(stream, router, timeouts, watcher).await };
    match tokio::time::timeout(timeouts.head, tls.accept(stream)).await {
        Ok(Ok(stream)) => http(stream, router, timeouts, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    timeouts: &Timeouts,
    watcher: Watcher,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Removes what expired, reads changed tokens, and tries the disk.
async fn sweep(service: Arc<Service>) {
    let every = service.timeouts.sweep;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let stop = service.engine.stop.clone();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let service = service.clone();
        let swept = tokio::task::spawn_blocking(move || sweep_once(&service)).await;
        if let Err(error) = swept {
            tracing::error!(%error, "sweeping failed");
        }
    }
}

fn sweep_once(service: &Service) {
    let engine = &service.engine;
    for id in engine.store.sweep() {
        tracing::info!(key = %id, "expired bundle removed");
        engine.cache.remove(id);
    }
    engine.cache.tidy();
    engine.store.probe();
    match service.gate.reload() {
        Ok(true) => tracing::info!("tokens read again"),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "tokens stay as they were"),
    }
}

async fn finish(graceful: GracefulShutdown, service: &Service) {
    let finished = graceful.shutdown();
    tokio::pin!(finished);
    if tokio::time::timeout(service.timeouts.drain, &mut finished).await.is_ok() {
        return;
    }
    tracing::warn!("out of patience; running answers are cancelled");
    service.engine.stop.cancel();
    if tokio::time::timeout(CANCEL_TIME, finished).await.is_err() {
        tracing::warn!("some answers did not stop");
    }
}
