//! Queries over HTTP, from one client and from many concurrent clients.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::sync::oneshot;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, ServiceClient, StateDir};
use unspoken_database::{Builder, Database, Record};
use unspoken_pir::{PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::{Mode, Preset, TableKind};
use unspoken_server::{Applications, Server, ServerConfig, ServiceLimits};

use super::{Case, Size};
use crate::clock::median;
use crate::error::wrong;
use crate::harness::Harness;
use crate::machine::MachineInfo;
use crate::row::{Metric, params};

const APPLICATION: &str = "pir/bench";
const RATE: Metric = Metric::more("queries_per_second", "queries/s");
const LATENCY: Metric = Metric::less("latency", "s");

/// Memory of the service: keys of all modes for the clients that ask at the same time.
const MEMORY_BYTES: u64 = 8 << 30;

/// Bytes of a record.
const RECORD_BYTES: usize = 256;

/// Queries that concurrent clients send to tables of a kind. Each client has a secret and keys of its own.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub tables: TableKind,
    pub mode: Mode,
    /// Numbers of clients at a time.
    pub clients: &'static [usize],
    /// Total number of queries, or one per client if there are more clients.
    pub queries: usize,
}

/// Serves databases with one record per 256 bytes, by index, from this process, and queries them.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case, size: Size) -> anyhow::Result<()> {
    for kind in [TableKind::Transformed, TableKind::Dense] {
        let loads: Vec<&Load> = case.loads.iter().filter(|load| load.tables == kind).collect();
        if loads.is_empty() {
            continue;
        }
        harness.progress(format!("a service of {}, {kind} tables", size.name));
        let folder = tempfile::tempdir().map_err(unavailable)?;
        let most = loads.iter().flat_map(|load| load.clients).copied().max().unwrap_or(1);
        let service = Service::start(folder.path(), (case.preset, kind), size.bytes / RECORD_BYTES as u64, most)?;
        for load in loads {
            measure_load(harness, size, &service, load, folder.path())?;
        }
    }
    Ok(())
}

fn measure_load(
    harness: &mut Harness<'_>,
    size: Size,
    service: &Service,
    load: &Load,
    folder: &Path,
) -> anyhow::Result<()> {
    let &Load { tables, mode, queries, .. } = load;
    for &clients in load.clients {
        harness.progress(format!("{}, {tables}: {mode}, {clients} clients", size.name));
        let concurrent = ConcurrentClients { mode, clients, each: queries.div_ceil(clients) };
        let (elapsed, latencies) = concurrent.measure(service, &folder.join(format!("client-{mode}")))?;
        let params = params! {
            "clients": clients, "queries": latencies.len(), "threads": MachineInfo::detect().cores, "clock": "wall",
            "tables": tables.to_string(), "keys": "each client has its own",
        };
        let case = format!("{}, {tables}, {mode}, {clients} at a time", size.name);
        harness.value(RATE, &case, latencies.len() as f64 / elapsed, None, params.clone());
        harness.value(LATENCY, &case, median(&latencies), None, params);
    }
    Ok(())
}

/// A service on its own port; it ends when this value is dropped.
struct Service {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    url: String,
    records: u64,
    insecure: bool,
}

impl Service {
    fn start(folder: &Path, (preset, tables): (Preset, TableKind), records: u64, most: usize) -> anyhow::Result<Self> {
        let directory = folder.join("database");
        let all = (0..records).map(|i| Ok::<_, Infallible>(Record { key: None, value: record(i) }));
        Builder { tables, ..Builder::new(preset) }.build(&directory, all, |_| (), &AtomicBool::new(false))?;
        let database = Database::open(&directory)?;
        let insecure = database.snapshot().parameters().is_insecure();
        let applications = Applications::new().with(APPLICATION, PirServer::new(database)?).map_err(unavailable)?;
        let (queue, connections) = ((2 * most).max(256), (4 * most).max(1024));
        let limits = ServiceLimits {
            memory_bytes: MEMORY_BYTES,
            queue,
            queue_per_client: queue,
            queries_per_client: queue,
            connections,
            connections_per_address: connections,
            // All clients are on this machine.
            bundles_per_address: ServiceLimits::default().bundles,
            ..ServiceLimits::default()
        };
        let listen = ([127, 0, 0, 1], 0).into();
        let config = ServerConfig { listen, data_dir: folder.join("keys"), limits, ..ServerConfig::default() };
        let runtime = RuntimeBuilder::new_multi_thread().enable_all().build().map_err(unavailable)?;
        let server = runtime.block_on(Server::bind(config, applications)).map_err(unavailable)?;
        let url = format!("http://{}", server.local_addr().map_err(unavailable)?);
        let (stop, stopped) = oneshot::channel::<()>();
        runtime.spawn(server.run(async {
            // An error means that the sender was dropped, which also means to stop.
            let _ = stopped.await;
        }));
        Ok(Service { runtime: Some(runtime), stop: Some(stop), url, records, insecure })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Clients that send queries concurrently.
struct ConcurrentClients {
    mode: Mode,
    clients: usize,
    /// Number of queries of each client.
    each: usize,
}

impl ConcurrentClients {
    /// Seconds from the first query to the last answer, and of each answer. Connections and keys are set up before, and
    /// every client has asked once, so that the service has its keys in memory if there is room. The names of the
    /// clients' directories begin with `state`.
    fn measure(&self, service: &Service, state: &Path) -> anyhow::Result<(f64, Vec<f64>)> {
        let client = |number| {
            let mut client = self.connect(service, &state.with_extension(format!("{number}")))?;
            self.check(&mut client, service, 0)?;
            Ok(client)
        };
        let clients: Vec<ServiceClient<PirClient>> = (0..self.clients).map(client).collect::<anyhow::Result<_>>()?;
        let barrier = Barrier::new(self.clients + 1);
        let (elapsed, asked) = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .enumerate()
                .map(|(number, mut client)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let ask = |i| self.check(&mut client, service, (number * self.each + i) as u64);
                        (0..self.each).map(ask).collect::<Result<Vec<f64>, _>>()
                    })
                })
                .collect();
            barrier.wait();
            let started = Instant::now();
            let asked: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (started.elapsed().as_secs_f64(), asked)
        });
        let mut latencies = Vec::new();
        for asked in asked {
            latencies.extend(asked.map_err(|_| unavailable("a client panicked"))??);
        }
        Ok((elapsed, latencies))
    }

    fn connect(&self, service: &Service, state: &Path) -> anyhow::Result<ServiceClient<PirClient>> {
        let transport = Transport::new(TransportConfig::new(&service.url)).map_err(ClientError::from)?;
        let state = StateDir::open(state, &service.url, APPLICATION).map_err(unavailable)?;
        let connect = if service.insecure { ServiceClient::insecure_connect } else { ServiceClient::connect };
        let options = PirOptions::new(self.mode, state.clone());
        Ok(connect(transport, APPLICATION, options, &state, &mut |_| (), &Cancel::new())?)
    }

    /// Seconds of an answer, which is checked.
    fn check(&self, client: &mut ServiceClient<PirClient>, service: &Service, turn: u64) -> anyhow::Result<f64> {
        let index = turn.wrapping_mul(0x9e37_79b1) % service.records;
        let started = Instant::now();
        let answers = client.ask(&[Question::Index(index)], &mut |_| (), &Cancel::new())?;
        let seconds = started.elapsed().as_secs_f64();
        let found = answers.into_iter().next().and_then(|answer| answer.record);
        if found.as_ref().is_some_and(|found| **found == record(index)) {
            return Ok(seconds);
        }
        let case = format!("{} query for record {index} over HTTP, bytes found", self.mode);
        let found = found.map_or(0.0, |record| record.len() as f64);
        Err(wrong(case, found, RECORD_BYTES as f64))
    }
}

fn record(index: u64) -> Vec<u8> {
    let text = format!("record {index} ");
    text.bytes().cycle().take(RECORD_BYTES).collect()
}

fn unavailable(error: impl ToString) -> anyhow::Error {
    let reason = error.to_string();
    anyhow::anyhow!("cannot start the measured service: {reason}; needed a free local port and a temporary directory")
}
