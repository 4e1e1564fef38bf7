//! `unspoken-storm load`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::amount::Amount;
use crate::client::{Client, Kind, Outcome};
use crate::service::{Binary, Files, Service, Settings};
use crate::verdict::Verdict;

/// Time after the load until the memory of the idle service is measured.
const IDLE: Duration = Duration::from_secs(5);
/// Longest time in which all clients must have uploaded their keys.
const CONNECT: Duration = Duration::from_secs(600);

/// Ask a service with a memory limit from many clients at once, each with its own keys
///
/// Every second client retrieves records, the others classify messages; all at presets of 128 bits. Nobody retries
/// silently: refusals are counted, and a client comes back when the service says. --count is the number of answers
/// after which a client is content; --seconds the time of asking [default: 30].
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    binary: Binary,
    /// Number of clients
    #[arg(long, default_value_t = 24)]
    clients: usize,
    /// The service's memory limit in MiB
    #[arg(long, default_value_t = 1536)]
    memory_mib: u64,
    /// Memory of the process beyond its limit that is accepted, in percent of the limit
    #[arg(long, default_value_t = 10)]
    tolerance: u64,
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    answers: u64,
    refusals: BTreeMap<String, u64>,
    unreachable: u64,
    findings: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let amount = &arguments.amount;
    let files = Files::new(arguments.clients)?;
    let listen = ([127, 0, 0, 1], 0).into();
    let settings = Settings { classifier: true, memory_mib: arguments.memory_mib, listen };
    let mut service = Service::start(&arguments.binary, &files, settings)?;
    let started = service.memory_mib();
    let url = service.url();
    let time = Duration::from_secs(amount.seconds.unwrap_or(30));
    let content = amount.count.unwrap_or(u64::MAX);
    let (connected, all_there) = (AtomicU64::new(0), Barrier::new(arguments.clients));
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..arguments.clients)
            .map(|client| {
                let (files, url, connected, all_there) = (&files, &url, &connected, &all_there);
                let random = fastrand::Rng::with_seed(amount.seed.wrapping_add(client as u64));
                scope.spawn(move || {
                    let mut seen = Seen::default();
                    let found = connect(client, files, url, &mut seen);
                    connected.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
                    all_there.wait();
                    if let Some(client) = found {
                        ask(client, random, Instant::now() + time, content, &mut seen);
                    }
                    seen
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap_or_else(|_| lost())).collect()
    });
    let mut verdict = Verdict::new("load");
    let answers: u64 = seen.iter().map(|seen| seen.answers).sum();
    let starved = seen.iter().filter(|seen| seen.answers == 0).count();
    let mut refusals = BTreeMap::<&str, u64>::new();
    for (code, count) in seen.iter().flat_map(|seen| &seen.refusals) {
        *refusals.entry(code).or_default() += count;
    }
    seen.iter().flat_map(|seen| &seen.findings).for_each(|what| verdict.finding(what.clone()));
    if starved > 0 {
        verdict.finding(format!("{starved} of {} clients got no answer", arguments.clients));
    }
    std::thread::sleep(IDLE);
    if !service.is_running() || !service.is_ready() {
        verdict.finding(format!("the service does not run any more:\n{}", service.log_end()));
    }
    verdict.number("clients", arguments.clients);
    verdict.number("connected", connected.into_inner());
    verdict.number("answers", answers);
    verdict.number("refusals", json!(refusals));
    verdict.number("unreachable", seen.iter().map(|seen| seen.unreachable).sum::<u64>());
    verdict.number("starved", starved);
    verdict.number("limit_mib", arguments.memory_mib);
    if let (Some((start, _)), Some((idle, peak))) = (started, service.memory_mib()) {
        let most = arguments.memory_mib * (100 + arguments.tolerance) / 100;
        for (what, found) in [("peak", peak), ("idle", idle)] {
            if found > most {
                verdict.finding(format!("{what} memory of {found} MiB; the limit is {} MiB", arguments.memory_mib));
            }
        }
        verdict.number("start_mib", start);
        verdict.number("peak_mib", peak);
        verdict.number("idle_mib", idle);
    }
    Ok(verdict.print(amount.json))
}

fn lost() -> Seen {
    Seen { findings: vec!["a client of this program panicked".into()], ..Seen::default() }
}

impl Seen {
    /// Notes a failure. Returns the time after which to come back, or `None` if that is of no use.
    fn failure(&mut self, outcome: Outcome) -> Option<Duration> {
        match outcome {
            Outcome::Right => Some(Duration::ZERO),
            Outcome::Later(code, pause) => {
                *self.refusals.entry(code).or_default() += 1;
                Some(pause)
            }
            Outcome::Unreachable => {
                self.unreachable += 1;
                Some(Duration::from_millis(200))
            }
            Outcome::Wrong(what) => {
                self.findings.push(format!("a wrong answer: {what}"));
                None
            }
            Outcome::Failed(what) => {
                self.findings.push(format!("a call failed: {what}"));
                None
            }
        }
    }
}

/// Makes and uploads keys; comes back after refusals.
fn connect(client: usize, files: &Files, url: &str, seen: &mut Seen) -> Option<Client> {
    let kind = if client.is_multiple_of(2) { Kind::Retrieve } else { Kind::Classify };
    let state = files.folder().join(format!("state-{client}"));
    let end = Instant::now() + CONNECT;
    while Instant::now() < end {
        match Client::connect(kind, url, &files.tokens[client], &state, files) {
            Ok(connected) => return Some(connected),
            Err(outcome) => std::thread::sleep(seen.failure(outcome)?),
        }
    }
    seen.findings.push(format!("a client could not upload its keys within {CONNECT:?}"));
    None
}

/// Asks until the time is up or the client is content.
fn ask(mut client: Client, mut random: fastrand::Rng, end: Instant, content: u64, seen: &mut Seen) {
    while Instant::now() < end && seen.answers < content {
        match client.ask(&mut random) {
            Outcome::Right => seen.answers += 1,
            outcome => match seen.failure(outcome) {
                Some(pause) => std::thread::sleep(pause.min(end.saturating_duration_since(Instant::now()))),
                None => return,
            },
        }
    }
}
