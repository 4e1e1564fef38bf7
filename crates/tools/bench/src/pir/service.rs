//! Questions over HTTP, of one client and of many at the same time.

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
use unspoken_pir::{Mode, Preset};
use unspoken_retrieve::{Question, RetrieveClient, RetrieveOptions, RetrieveServer};
use unspoken_server::{Applications, PrivateApplication, Server, ServerConfig, ServiceLimits};

use super::{Case, Size};
use crate::clock::median;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::row::{Metric, params};
use crate::session::Session;

const APPLICATION: &str = "pir/bench";
const RATE: Metric = Metric::more("queries_per_second", "queries/s");
const LATENCY: Metric = Metric::less("latency", "s");

/// Clients at the same time.
const CROWDS: [usize; 3] = [1, 8, 64];

/// Bytes of a record.
const RECORD_BYTES: usize = 256;

/// How many questions of a kind are asked in all, if there are not more clients.
pub(super) type Load = (Mode, usize);

/// Serves a database of one record for each 256 bytes, by index, from this process, and asks it.
pub(super) fn run(session: &mut Session<'_>, case: &Case, size: Size) -> Result<(), BenchError> {
    session.note(format!("a service of {}", size.name));
    let folder = tempfile::tempdir().map_err(unavailable)?;
    let service = Service::start(folder.path(), case.preset, size.bytes / RECORD_BYTES as u64)?;
    for &(mode, questions) in case.loads {
        for clients in CROWDS {
            session.note(format!("{}: {mode}, {clients} clients", size.name));
            let crowd = Crowd { mode, clients, each: questions.div_ceil(clients) };
            let (elapsed, latencies) = crowd.ask(&service, &folder.path().join(format!("client-{mode}")))?;
            let params = params! {
                "clients": clients, "queries": latencies.len(), "threads": Machine::detect().cores, "clock": "wall",
                "keys": "one set for all clients",
            };
            let case = format!("{}, {mode}, {clients} at a time", size.name);
            session.fact(RATE, &case, latencies.len() as f64 / elapsed, None, params.clone());
            session.fact(LATENCY, &case, median(&latencies), None, params);
        }
    }
    Ok(())
}

/// A service on a port of its own; it ends with this value.
struct Service {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    url: String,
    records: u64,
    insecure: bool,
}

impl Service {
    fn start(folder: &Path, preset: Preset, records: u64) -> Result<Self, BenchError> {
        let directory = folder.join("database");
        let all = (0..records).map(|i| Ok::<_, Infallible>(Record { key: None, value: record(i) }));
        Builder::new(preset).build(&directory, all, |_| (), &AtomicBool::new(false))?;
        let database = Database::open(&directory)?;
        let insecure = database.snapshot().parameters().is_insecure();
        let application = PrivateApplication::new(APPLICATION, RetrieveServer::new(database)?);
        let applications = Applications::new().with(application).map_err(unavailable)?;
        let most = 2 * CROWDS[CROWDS.len() - 1];
        let limits = ServiceLimits { queue_per_client: most, queries_per_client: most, ..ServiceLimits::default() };
        let listen = ([127, 0, 0, 1], 0).into();
        let config = ServerConfig { listen, data_dir: folder.join("keys"), limits, ..ServerConfig::default() };
        let runtime = RuntimeBuilder::new_multi_thread().enable_all().build().map_err(unavailable)?;
        let server = runtime.block_on(Server::bind(config, applications)).map_err(unavailable)?;
        let url = format!("http://{}", server.local_addr().map_err(unavailable)?);
        let (stop, stopped) = oneshot::channel::<()>();
        runtime.spawn(server.run(async {
            // An error says that the sender is gone, which means the same.
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

/// Clients that ask at the same time.
struct Crowd {
    mode: Mode,
    clients: usize,
    /// Questions of each.
    each: usize,
}

impl Crowd {
    /// Seconds from the first question to the last answer, and of each answer; connections and keys are there before.
    fn ask(&self, service: &Service, state: &Path) -> Result<(f64, Vec<f64>), BenchError> {
        // The first one makes the keys that all use.
        let mut clients: Vec<ServiceClient<RetrieveClient>> =
            (0..self.clients).map(|_| self.connect(service, state)).collect::<Result<_, _>>()?;
        if let Some(client) = clients.first_mut() {
            // From here on the service has the keys in memory.
            self.check(client, service, 0)?;
        }
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

    fn connect(&self, service: &Service, state: &Path) -> Result<ServiceClient<RetrieveClient>, BenchError> {
        let transport = Transport::new(TransportConfig::new(&service.url)).map_err(ClientError::from)?;
        let state = StateDir::open(state, &service.url, APPLICATION).map_err(unavailable)?;
        let connect = if service.insecure { ServiceClient::insecure_connect } else { ServiceClient::connect };
        let options = RetrieveOptions::new(self.mode, state.clone());
        Ok(connect(transport, APPLICATION, options, &state, &mut |_| (), &Cancel::new())?)
    }

    /// Seconds of an answer, which must be right.
    fn check(
        &self,
        client: &mut ServiceClient<RetrieveClient>,
        service: &Service,
        turn: u64,
    ) -> Result<f64, BenchError> {
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
        Err(BenchError::Wrong { case, found, needed: RECORD_BYTES as f64 })
    }
}

fn record(index: u64) -> Vec<u8> {
    let text = format!("record {index} ");
    text.bytes().cycle().take(RECORD_BYTES).collect()
}

fn unavailable(error: impl ToString) -> BenchError {
    BenchError::Service { reason: error.to_string() }
}
