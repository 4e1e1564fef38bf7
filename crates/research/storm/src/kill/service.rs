//! A service that is killed at random moments, while clients upload keys and ask.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use unspoken_client::transport::Cancel;

use super::ServiceArguments;
use crate::client::{Client, Kind, Outcome, transport};
use crate::service::{Files, Service, Settings, free_address};
use crate::verdict::Verdict;

/// Longest life of a service after it was ready.
const LONGEST: Duration = Duration::from_millis(1200);
/// Questions with one set of keys, at most.
const QUESTIONS: u64 = 8;
/// Pause of a client that found no service.
const PAUSE: Duration = Duration::from_millis(20);

/// What the clients saw.
#[derive(Default)]
struct Counts {
    uploads: AtomicU64,
    answers: AtomicU64,
    interrupted: AtomicU64,
    refusals: AtomicU64,
    findings: Mutex<Vec<String>>,
}

impl Counts {
    fn finding(&self, what: String) {
        self.findings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(what);
    }
}

/// Runs the command.
pub fn run(arguments: &ServiceArguments) -> anyhow::Result<ExitCode> {
    let amount = &arguments.amount;
    let files = Files::new(arguments.clients)?;
    let settings = Settings { classifier: false, memory_mib: 2048, listen: free_address()? };
    let mut verdict = Verdict::new("kill service");
    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    let (mut rounds, mut random, mut kills) = (amount.rounds(20), amount.random(), 0u64);
    let mut service = Service::start(&arguments.binary, &files, settings)?;
    let url = service.url();
    std::thread::scope(|scope| {
        for client in 0..arguments.clients {
            let (files, counts, stop, url) = (&files, &counts, &stop, &url);
            let random = fastrand::Rng::with_seed(amount.seed.wrapping_add(1 + client as u64));
            scope.spawn(move || clients_life(client, files, url, random, counts, stop));
        }
        let storm = (|| {
            while rounds.next() {
                std::thread::sleep(LONGEST.mul_f64(random.f64()));
                service.kill()?;
                kills += 1;
                // Fails if the service is not ready within a minute.
                service = Service::start(&arguments.binary, &files, settings)?;
            }
            // All clients ask once more, to find keys that were lost last.
            std::thread::sleep(Duration::from_secs(3));
            anyhow::ensure!(service.is_running(), "the service ended by itself:\n{}", service.log_end());
            anyhow::Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        storm
    })?;
    let Counts { uploads, answers, interrupted, refusals, findings } = counts;
    findings.into_inner().unwrap_or_default().into_iter().for_each(|what| verdict.finding(what));
    let [uploads, answers, interrupted, refusals] =
        [uploads, answers, interrupted, refusals].map(AtomicU64::into_inner);
    if answers == 0 || uploads == 0 {
        verdict.finding("no client uploaded keys and got an answer: the storm tested nothing");
    }
    verdict.number("kills", kills);
    verdict.number("clients", arguments.clients);
    verdict.number("uploads", uploads);
    verdict.number("answers", answers);
    verdict.number("interrupted", interrupted);
    verdict.number("refusals", refusals);
    verdict.number("seconds", rounds.elapsed().as_secs());
    Ok(verdict.print(amount.json))
}

/// A client: makes and uploads keys, asks, deletes the keys, and begins anew. From the moment at which an upload was
/// acknowledged, the service must know the keys until they are deleted.
fn clients_life(
    client: usize,
    files: &Files,
    url: &str,
    mut random: fastrand::Rng,
    counts: &Counts,
    stop: &AtomicBool,
) {
    let token = &files.tokens[client];
    let mut keys = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let state = files.folder().join(format!("state-{client}-{keys}"));
        keys += 1;
        let Some(mut connected) =
            until_done(counts, stop, || Client::connect(Kind::Retrieve, url, token, &state, files))
        else {
            return;
        };
        counts.uploads.fetch_add(1, Ordering::Relaxed);
        for _ in 0..random.u64(1..=QUESTIONS) {
            let asked = until_done(counts, stop, || match connected.ask(&mut random) {
                Outcome::Right => Ok(()),
                other => Err(other),
            });
            if asked.is_none() {
                return;
            }
            counts.answers.fetch_add(1, Ordering::Relaxed);
        }
        // A deletion that was interrupted may have been done or not.
        if let Ok(transport) = transport(url, token) {
            let _ = transport.delete_key(connected.key(), &Cancel::new());
        }
    }
}

/// Repeats a call while the service is away. `None` when the storm ends, or after a finding.
fn until_done<T>(counts: &Counts, stop: &AtomicBool, mut call: impl FnMut() -> Result<T, Outcome>) -> Option<T> {
    while !stop.load(Ordering::Relaxed) {
        match call() {
            Ok(value) => return Some(value),
            Err(Outcome::Unreachable) => {
                counts.interrupted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
            Err(Outcome::Later(_, pause)) => {
                counts.refusals.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(pause.min(Duration::from_secs(2)));
            }
            Err(Outcome::Wrong(what)) => {
                counts.finding(format!("a wrong answer: {what}"));
                return None;
            }
            Err(Outcome::Failed(what)) => {
                counts.finding(format!("a call failed: {what}"));
                return None;
            }
            Err(Outcome::Right) => return None,
        }
    }
    None
}
