//! Starting a service, accepting connections, and stopping.
//!
//! A shutdown closes connections without a request, refuses queries and uploads that are still arriving, and lets
//! answers finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use prometheus::core::Collector;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::application::Applications;
use crate::arriving::BodyMemory;
use crate::auth::Authenticator;
use crate::capacity::Capacity;
use crate::concurrency::ConcurrencyLimit;
use crate::config::ServerConfig;
use crate::connection::{ConnectionContext, accept};
use crate::descriptors;
use crate::disk::{Disk, LocalDisk};
use crate::engine::Engine;
use crate::error::ServerError;
use crate::listen::listen;
use crate::memory::KeyCache;
use crate::metrics::Metrics;
use crate::page::Page;
use crate::queue::FairQueue;
use crate::renewal::{ReloadSignal, read_again};
use crate::routes::{metrics_router, router};
use crate::service::Service;
use crate::starting::Starting;
use crate::store::{Store, StorePolicy};
use crate::timeouts::ConnectionTimeouts;
use crate::tls::Certificates;

/// Maximum number of connections to the metrics listener.
const METRICS_CONNECTIONS: usize = 16;

/// Time in which cancelled answers must stop, after the drain time.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// A service that is bound to its address but does not accept connections yet.
pub struct Server {
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    capacity: Capacity,
    connections_per_address: usize,
    service: Arc<Service>,
}

impl Server {
    /// Checks the configuration, opens the data directory, and listens.
    ///
    /// # Errors
    /// [`ServerError`], which names what to change.
    pub async fn bind(config: ServerConfig, applications: Applications) -> Result<Self, ServerError> {
        Self::bind_with_disk(config, applications, Arc::new(LocalDisk)).await
    }

    /// Like [`Server::bind`], in place of one that listens already, and was made with the same configuration.
    ///
    /// # Errors
    /// [`ServerError`], which names what to change.
    pub async fn bind_after(
        starting: Starting,
        config: ServerConfig,
        applications: Applications,
    ) -> Result<Self, ServerError> {
        Self::bind_to(Some(starting), config, applications, Arc::new(LocalDisk)).await
    }

    /// Like [`Server::bind`], with the given disk.
    ///
    /// # Errors
    /// [`ServerError`], which names what to change.
    pub async fn bind_with_disk(
        config: ServerConfig,
        applications: Applications,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, ServerError> {
        Self::bind_to(None, config, applications, disk).await
    }

    async fn bind_to(
        starting: Option<Starting>,
        config: ServerConfig,
        applications: Applications,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, ServerError> {
        config.check()?;
        let descriptors = descriptors::raise_limit();
        let page = config.web.as_deref().map(Page::load).transpose()?;
        let page_bytes = page.as_ref().map_or(0, Page::bytes);
        let capacity =
            Capacity::new(&config, &applications, page_bytes, descriptors::room_for_connections(descriptors))?;
        capacity.log(&config);
        let authenticator = Authenticator::new(config.tokens.as_deref())?;
        let certificates = config.tls.as_ref().map(Certificates::read).transpose()?.map(Arc::new);
        if certificates.is_none() && !config.listen.ip().is_loopback() {
            tracing::warn!("tokens and queries cross the network without TLS");
        }
        let engine = Arc::new(engine(&config, &capacity, &applications, disk)?);
        let listener = match starting {
            Some(starting) => starting.into_listener().await?,
            None => listen(config.listen).await?,
        };
        let metrics_listener = match config.metrics_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        if config.metrics_listen.is_some_and(|address| !address.ip().is_loopback()) {
            tracing::warn!("everyone who reaches metrics_listen reads the metrics; no token is needed there");
        }
        let service = Arc::new(Service {
            engine,
            applications,
            authenticator,
            certificates,
            page,
            allow_origins: config.allow_origins.clone(),
            queries: ConcurrencyLimit::new(config.limits.queries_per_client),
            timeouts: config.timeouts.clone(),
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
        });
        Ok(Self {
            listener,
            metrics_listener,
            connections_per_address: config.connections_per_address(capacity.connections),
            capacity,
            service,
        })
    }

    /// The address, with the selected port if port 0 was configured.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address of the metrics, if they are served.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn metrics_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics_listener.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Adds metrics of the program that starts the server.
    ///
    /// # Errors
    /// If a metric of such a name is there.
    pub fn add_metrics(&self, collector: Box<dyn Collector>) -> Result<(), ServerError> {
        Ok(self.service.engine.metrics.registry.register(collector)?)
    }

    /// Reads tokens, certificate and key again when the signal arrives; they are also read every `timeouts.sweep`.
    /// Files that cannot be used change nothing, and the log says why.
    pub fn reload_on(&self, signal: ReloadSignal) {
        tokio::spawn(signal.reload(self.service.clone(), self.service.engine.stop.clone()));
    }

    /// Serves until `shutdown` completes, then finishes running requests: until the end of the drain time they may
    /// finish, after that they are cancelled. An application that does not check its cancel flag may still be running
    /// on a thread when this returns; end the runtime with `shutdown_timeout`, or the process.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let timeouts = &self.service.timeouts;
        let graceful = GracefulShutdown::new();
        let stopped = CancellationToken::new();
        let _stopped = stopped.clone().drop_guard();
        let _sweeping = self.service.engine.stop.clone().drop_guard();
        tokio::spawn(sweep(self.service.clone()));
        if let Some(listener) = self.metrics_listener {
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving metrics");
            }
            tokio::spawn(serve_metrics(listener, self.service.clone(), stopped.clone()));
        }
        if let Ok(address) = self.listener.local_addr() {
            tracing::info!(%address, tls = self.service.certificates.is_some(), "serving");
        }
        let metrics = &self.service.engine.metrics;
        let context = ConnectionContext {
            total: Arc::new(Semaphore::new(self.capacity.connections)),
            per_network: ConcurrencyLimit::new(self.connections_per_address),
            certificates: self.service.certificates.clone(),
            router: router(self.service.clone()),
            timeouts: ConnectionTimeouts::of_clients(timeouts),
            closing: self.service.closing.clone(),
            stopped,
            requests: metrics.requests.clone(),
            open: metrics.connections.clone(),
            refused: metrics.connections_refused.clone(),
        };
        let stop = async {
            shutdown.await;
            self.service.draining.store(true, Ordering::Relaxed);
            tracing::info!("shutting down");
            tokio::time::sleep(timeouts.drain_notice).await;
        };
        tokio::select! {
            () = accept(&self.listener, &graceful, &context) => {}
            () = stop => {}
        }
        drop(self.listener);
        self.service.closing.cancel();
        finish(graceful, &self.service).await;
        tracing::info!("stopped");
    }
}

/// Waits for SIGTERM or SIGINT. A second one, after this has returned, ends the process at once with status 1.
pub async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            let mut next = async move || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            next().await;
            tokio::spawn(async move {
                next().await;
                tracing::warn!("second signal: ended without waiting for running requests");
                std::process::exit(1);
            });
        }
        _ => {
            tracing::warn!("signals cannot be received; the service stops only when it is killed");
            std::future::pending().await
        }
    }
}

/// Serves the metrics until the service has stopped, so that a shutdown can be monitored.
async fn serve_metrics(listener: TcpListener, service: Arc<Service>, stopped: CancellationToken) {
    let (timeouts, metrics) = (&service.timeouts, &service.engine.metrics);
    let context = ConnectionContext {
        total: Arc::new(Semaphore::new(METRICS_CONNECTIONS)),
        per_network: ConcurrencyLimit::new(METRICS_CONNECTIONS),
        certificates: None,
        router: metrics_router(service.clone()),
        timeouts: ConnectionTimeouts { authorization: None, ..ConnectionTimeouts::of_clients(timeouts) },
        closing: stopped.clone(),
        stopped: stopped.clone(),
        requests: metrics.requests.clone(),
        open: metrics.metrics_connections.clone(),
        refused: metrics.metrics_connections_refused.clone(),
    };
    let graceful = GracefulShutdown::new();
    tokio::select! {
        () = accept(&listener, &graceful, &context) => {}
        () = stopped.cancelled() => {}
    }
}

fn engine(
    config: &ServerConfig,
    capacity: &Capacity,
    applications: &Applications,
    disk: Arc<dyn Disk>,
) -> Result<Engine, ServerError> {
    let limits = &config.limits;
    let policy = StorePolicy {
        key_disk_bytes: limits.key_disk_bytes,
        key_bytes_per_token: limits.key_bytes_per_token,
        bundles: limits.bundles,
        bundles_per_token: config.bundles_per_token(),
        bundles_per_address: config.bundles_per_address(),
        key_sets: applications.iter().map(|application| application.key_set.to_string()).collect(),
        upload_lifetime: config.timeouts.upload_lifetime,
        key_lifetime: config.timeouts.key_lifetime,
    };
    let store = Store::open_at(disk, &config.data_dir, policy)
        .map_err(|source| ServerError::DataDirectory { path: config.data_dir.clone(), source })?;
    let workers = capacity.workers;
    let gathering = applications.iter().filter(|application| application.gathering.is_some()).map(|application| {
        // At most half of the memory for those who wait, so that other applications have some.
        let fitting = (capacity.job_bytes / 2 / application.work_bytes().max(1)) as usize;
        let slots = application.half().limits().most_together.min(fitting).max(workers);
        (application.name().to_owned(), FairQueue::new(slots, limits.queue, limits.queue_per_client))
    });
    Ok(Engine {
        store,
        cache: Arc::new(KeyCache::new(capacity.job_bytes)),
        bodies: BodyMemory::new(capacity.body_bytes, capacity.largest_body),
        queue: FairQueue::new(workers, limits.queue, limits.queue_per_client),
        gathering_queues: gathering.collect(),
        loads: Semaphore::new(workers),
        metrics: Metrics::new()?,
        workers,
        answer_timeout: config.timeouts.answer,
        stop: CancellationToken::new(),
        recent_millis: AtomicU64::new(0),
    })
}

/// Deletes expired bundles, reads changed tokens and certificates, and tests the disk.
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
        tracing::info!(key = %id, "expired bundle deleted");
        engine.cache.evict(id);
    }
    engine.cache.tidy();
    engine.store.probe();
    read_again(service);
}

async fn finish(graceful: GracefulShutdown, service: &Service) {
    let finished = graceful.shutdown();
    tokio::pin!(finished);
    if tokio::time::timeout(service.timeouts.drain, &mut finished).await.is_ok() {
        return;
    }
    tracing::warn!("drain time is over; running answers are cancelled");
    service.engine.stop.cancel();
    if tokio::time::timeout(CANCEL_TIME, finished).await.is_err() {
        tracing::warn!("some answers did not stop after they were cancelled");
    }
}
