//! Bootstraps of every slot: seconds, precision beside the simulator's estimate, levels left, bytes; beside OpenFHE's.
//!
//! One backend's keys are dropped before the next one's are made, and all of ours before OpenFHE starts: its keys and
//! matrices take 12 to 17 GB. So ours and OpenFHE's are measured one after the other and not in turn.

mod report;
mod site;

use std::time::Duration;

use rayon::ThreadPool;
use report::Report;
use site::{Precision, Site};
use unspoken_ckks::Preset;
use unspoken_ring::Backend;

use super::backends;
use crate::clock::{Clock, Contender, Effort, alternate};
use crate::error::BenchError;
use crate::machine::available_memory_bytes;
use crate::peer::{BootstrapRequest, OpenFhe, PeerBootstrap};
use crate::session::{Session, pool};

/// A preset, and what of OpenFHE is comparable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) preset: &'static str,
    pub(super) peers: &'static [BootstrapRequest],
}

/// 59 bits are the largest scale of OpenFHE's 64-bit build, and what it needs for 20 bits. The levels are the most that fit
/// 128 bits of security in so many digits; more digits make its keys larger.
pub(super) const FULL: [Case; 2] = [
    Case {
        preset: "n16_boot_depth8_scale50",
        peers: &[
            BootstrapRequest {
                log_n: 16,
                levels: 4,
                scale_bits: 59,
                first_bits: 60,
                digits: 4,
                secret: "sparse_encapsulated",
            },
            BootstrapRequest {
                log_n: 16,
                levels: 8,
                scale_bits: 50,
                first_bits: 58,
                digits: 5,
                secret: "sparse_encapsulated",
            },
            BootstrapRequest {
                log_n: 16,
                levels: 1,
                scale_bits: 58,
                first_bits: 60,
                digits: 5,
                secret: "uniform_ternary",
            },
        ],
    },
    // OpenFHE has no bootstrap of 128 bits at this degree.
    Case { preset: "n15_boot_depth4_scale30", peers: &[] },
];

/// A bootstrap takes seconds.
const EFFORT: Effort = Effort { least: 3, most: 5, budget: Duration::from_secs(20) };

const PEER_REPETITIONS: usize = 2;

/// What OpenFHE takes at most; without it the system would end some process, and not always OpenFHE's.
const PEER_MEMORY: u64 = 17 << 30;

/// What one backend showed.
struct Measured {
    backend: Backend,
    /// Seconds of a bootstrap, and of the exponential one, on one thread.
    refresh: Vec<f64>,
    exponential: Vec<f64>,
    /// Seconds by the wall clock: threads, theirs, those of one thread in turn with them.
    threads: Vec<(usize, [Vec<f64>; 2])>,
}

/// Measured and estimated, of the bootstrap and the exponential one.
struct Errors {
    found: [Precision; 2],
    estimates: [Precision; 2],
}

/// Every case, one after the other.
pub(super) fn run(session: &mut Session<'_>, cases: &[Case]) -> Result<(), BenchError> {
    cases.iter().try_for_each(|&case| measure(session, case))
}

fn measure(session: &mut Session<'_>, case: Case) -> Result<(), BenchError> {
    let preset = Preset::find(case.preset)?;
    let mut all = Vec::new();
    let mut first = None;
    for backend in backends() {
        session.note(format!("keys and matrices: {}, {} backend", case.preset, backend.name()));
        let site = Site::new(preset, backend)?;
        session.note(format!("bootstraps: {}, {} backend", case.preset, backend.name()));
        let errors = check(&site)?;
        all.push(time(session, &site, backend, first.is_none())?);
        first.get_or_insert_with(|| Report::new(case.preset, &site, &errors));
    }
    let Some(report) = first else { return Ok(()) };
    let peers = measure_peers(session, case.peers);
    report.facts(session, &peers);
    all.iter().for_each(|measured| report.times(session, measured, &peers));
    Ok(())
}

/// Both bootstraps, untimed, with their errors: one beyond what the simulator explains is a bug, not a timing.
fn check(site: &Site) -> Result<Errors, BenchError> {
    let estimates = site.estimates()?;
    let found = [site.refresh_precision(&site.refresh()?)?, site.exponential_precision(&site.exponential()?)?];
    found[0].check("bootstrap", estimates[0])?;
    found[1].check("exponential bootstrap", estimates[1])?;
    Ok(Errors { found, estimates })
}

fn time(session: &mut Session<'_>, site: &Site, backend: Backend, with_threads: bool) -> Result<Measured, BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let mut contenders: [Contender<'_>; 2] = [
        Box::new(|| timed(clock, single, || site.refresh())),
        Box::new(|| timed(clock, single, || site.exponential())),
    ];
    let mut samples = alternate(EFFORT, &mut contenders)?;
    drop(contenders);
    let exponential = samples.pop().unwrap_or_default();
    let refresh = samples.pop().unwrap_or_default();
    let mut threads = Vec::new();
    for &count in session.options.threads.iter().filter(|_| with_threads) {
        let several = pool(count)?;
        let mut contenders: [Contender<'_>; 2] = [
            Box::new(|| timed(Clock::Wall, &several, || site.refresh())),
            Box::new(|| timed(Clock::Wall, single, || site.refresh())),
        ];
        let mut samples = alternate(EFFORT, &mut contenders)?;
        drop(contenders);
        let one = samples.pop().unwrap_or_default();
        threads.push((count, [samples.pop().unwrap_or_default(), one]));
    }
    Ok(Measured { backend, refresh, exponential, threads })
}

fn timed<T: Send>(
    clock: Clock,
    pool: &ThreadPool,
    work: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<f64, BenchError> {
    let (output, seconds) = clock.time_in(pool, work);
    output.map(|_| seconds)
}

/// One that fails, for want of memory as like as not, does not cost us the rows of our own.
fn measure_peers(session: &mut Session<'_>, requests: &[BootstrapRequest]) -> Vec<PeerBootstrap> {
    if requests.is_empty() || !session.options.peers {
        return Vec::new();
    }
    if !OpenFhe::is_set_up(&session.options.root) {
        session.note("OpenFHE is not set up: rows come without that baseline; 'make peers' sets it up");
        return Vec::new();
    }
    let mut measured = Vec::new();
    for request in requests {
        if available_memory_bytes().is_some_and(|bytes| bytes < PEER_MEMORY) {
            session.note(format!("{}: left out, for less than {} GB are free", request.name(), PEER_MEMORY >> 30));
            continue;
        }
        session.note(format!("{}: keys and bootstraps", request.name()));
        match request.measure(&session.options.root, session.clock(), PEER_REPETITIONS) {
            Ok(peer) => measured.push(peer),
            Err(error) => session.note(format!("rows come without it: {error}")),
        }
    }
    measured
}
