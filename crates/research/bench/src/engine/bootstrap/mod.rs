//! Bootstraps of every slot: seconds, precision and the simulator's estimate of it, levels left, and bytes; compared
//! with those of OpenFHE and Lattigo.
//!
//! Each backend's keys are dropped before the next backend's are generated, and all of ours before another library
//! starts: its keys and matrices take up to 20 GB. So ours and theirs are measured one after the other, not in turn.
//!
//! These are the only rows with these libraries that are not measured in turn. A library runs in its own process, and
//! is skipped if less than it needs is free. `ratio` is the ratio of the medians, and `params.order` says so. One
//! bootstrap is decrypted and checked against the simulator's estimate; one more is not counted.
//!
//! OpenFHE runs with an encapsulated sparse secret, as ours, at two scales: at 59 bits, the largest scale of its 64-bit
//! build, which 20 bits of precision need, with the 4 levels that then fit 128 bits of security; and at 50 bits with 8
//! levels. It also runs with a ternary secret. Lattigo runs with its default sets for a dense secret, which have an
//! encapsulated sparse one. `time_per_slot_and_bit_left` makes different levels comparable: seconds over slots and over
//! bits of modulus left between two bootstraps. Precision is `-log2` of the error over all slots; its baseline is the
//! estimate, then the precision of a library. The bytes of OpenFHE's keys are the number of keys times one serialised
//! rotation key.

mod fixture;
mod forms;
mod report;

use std::time::Duration;

use fixture::{BootstrapFixture, Precision};
use report::Report;
use unspoken_ckks::Preset;
use unspoken_ring::Backend;

use super::backends;
use crate::clock::{Repetitions, Stopwatch, alternate};
use crate::harness::{Harness, pool};
use crate::machine::available_memory_bytes;
use crate::peer::{BootstrapRequest, OpenFheBootstrap, PeerBootstrap};

/// A preset and the comparable parameters of other libraries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) preset: &'static str,
    pub(super) peers: &'static [BootstrapRequest],
}

/// 59 bits are the largest scale of OpenFHE's 64-bit build, and needed for a precision of 20 bits. The levels are the
/// most that 128 bits of security allow with this number of digits; more digits make its keys larger.
pub(super) const FULL: [Case; 5] = [
    Case {
        preset: "n16_boot_depth10_scale50",
        peers: &[
            BootstrapRequest::OpenFhe(OpenFheBootstrap {
                log_n: 16,
                levels: 4,
                scale_bits: 59,
                first_bits: 60,
                digits: 4,
                secret: "sparse_encapsulated",
            }),
            BootstrapRequest::OpenFhe(OpenFheBootstrap {
                log_n: 16,
                levels: 8,
                scale_bits: 50,
                first_bits: 58,
                digits: 5,
                secret: "sparse_encapsulated",
            }),
            BootstrapRequest::OpenFhe(OpenFheBootstrap {
                log_n: 16,
                levels: 1,
                scale_bits: 58,
                first_bits: 60,
                digits: 5,
                secret: "uniform_ternary",
            }),
            BootstrapRequest::Lattigo("N16QP1767H32768H32"),
            BootstrapRequest::Lattigo("N16QP1788H32768H32"),
        ],
    },
    Case { preset: "n16_boot_depth15_scale40", peers: &[] },
    Case { preset: "n16_boot_depth12_scale45", peers: &[] },
    Case { preset: "n16_boot_depth21_scale35", peers: &[] },
    // OpenFHE has no bootstrap with 128 bits of security at this degree.
    Case { preset: "n15_boot_depth5_scale30", peers: &[] },
];

/// A bootstrap takes seconds.
const REPETITIONS: Repetitions = Repetitions { min: 3, max: 5, budget: Duration::from_secs(20) };

const PEER_REPETITIONS: usize = 2;

/// Times of one backend.
struct BackendTimes {
    backend: Backend,
    /// Seconds of a bootstrap and of an exponential bootstrap, on one thread.
    refresh: Vec<f64>,
    exponential: Vec<f64>,
    /// The simulator's price of a bootstrap, in turn with both.
    price: Vec<f64>,
    /// Wall-clock seconds: number of threads, seconds on these threads, seconds on one thread in turn with them.
    threads: Vec<(usize, [Vec<f64>; 2])>,
}

/// Precision of the bootstrap and of the exponential bootstrap: measured and estimated.
struct Precisions {
    found: [Precision; 2],
    estimates: [Precision; 2],
}

/// The preset whose other forms are measured, and its sparse slots.
pub(super) const FORMS: (&str, usize) = ("n16_boot_depth15_scale40", 1024);

/// Runs all cases, one after the other.
pub(super) fn run(harness: &mut Harness<'_>, cases: &[Case]) -> anyhow::Result<()> {
    cases.iter().try_for_each(|&case| measure(harness, case))
}

/// Measures the other forms of a preset's bootstrap.
pub(super) fn run_forms(harness: &mut Harness<'_>, (preset, sparse_slots): (&str, usize)) -> anyhow::Result<()> {
    let preset = Preset::find(preset)?;
    backends().into_iter().try_for_each(|backend| forms::run(harness, preset, backend, sparse_slots))
}

fn measure(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    let preset = Preset::find(case.preset)?;
    let mut all = Vec::new();
    let mut first = None;
    for backend in backends() {
        harness.progress(format!("keys and matrices: {}, {} backend", case.preset, backend.name()));
        let fixture = BootstrapFixture::new(preset, backend)?;
        harness.progress(format!("bootstraps: {}, {} backend", case.preset, backend.name()));
        let precisions = check(&fixture)?;
        all.push(time(harness, &fixture, backend, first.is_none())?);
        first.get_or_insert_with(|| Report::new(case.preset, &fixture, &precisions));
    }
    let Some(report) = first else { return Ok(()) };
    let peers = measure_peers(harness, case.peers);
    report.facts(harness, &peers);
    all.iter().for_each(|times| report.times(harness, times, &peers));
    Ok(())
}

/// Runs both bootstraps untimed and checks their errors: an error larger than the simulator explains is a bug.
fn check(fixture: &BootstrapFixture) -> anyhow::Result<Precisions> {
    let estimates = fixture.estimates()?;
    let refreshed = fixture.refresh_precision(&fixture.refresh()?)?;
    let found = [refreshed, fixture.exponential_precision(&fixture.exponential()?)?];
    found[0].check("bootstrap", estimates[0])?;
    found[1].check("exponential bootstrap", estimates[1])?;
    Ok(Precisions { found, estimates })
}

fn time(
    harness: &mut Harness<'_>,
    fixture: &BootstrapFixture,
    backend: Backend,
    with_threads: bool,
) -> anyhow::Result<BackendTimes> {
    let stopwatch = harness.stopwatch();
    let refresh = || stopwatch.seconds(|| fixture.refresh());
    let exponential = || stopwatch.seconds(|| fixture.exponential());
    let (cost, single_thread) = (fixture.refresh_cost()?, &harness.single_thread);
    let price = || single_thread.install(|| fixture.price(&cost));
    let mut samples = alternate(REPETITIONS, &mut [Box::new(refresh), Box::new(exponential), Box::new(price)])?;
    let price = samples.pop().unwrap_or_default();
    let exponential = samples.pop().unwrap_or_default();
    let refresh = samples.pop().unwrap_or_default();
    let mut threads = Vec::new();
    for &count in harness.options.threads.iter().filter(|_| with_threads) {
        let several = pool(count)?;
        let [on_several, on_one] = [&several, &harness.single_thread]
            .map(|threads| move || Stopwatch::wall(threads).seconds(|| fixture.refresh()));
        let mut samples = alternate(REPETITIONS, &mut [Box::new(on_several), Box::new(on_one)])?;
        let one = samples.pop().unwrap_or_default();
        threads.push((count, [samples.pop().unwrap_or_default(), one]));
    }
    Ok(BackendTimes { backend, refresh, exponential, price, threads })
}

/// A failing measurement, most likely from lack of memory, does not discard our own rows.
fn measure_peers(harness: &mut Harness<'_>, requests: &[BootstrapRequest]) -> Vec<PeerBootstrap> {
    if requests.is_empty() || !harness.options.peers {
        return Vec::new();
    }
    let mut measured = Vec::new();
    for request in requests {
        if !harness.is_set_up(request.library()) {
            continue;
        }
        // The system would kill some process, not necessarily the peer.
        let needed = request.memory_gib();
        if available_memory_bytes().is_some_and(|bytes| bytes < needed << 30) {
            harness.progress(format!("{}: left out, for less than {needed} GiB are free", request.name()));
            continue;
        }
        harness.progress(format!("{}: keys and bootstraps", request.name()));
        match request.measure(&harness.options.root, harness.clock(), PEER_REPETITIONS) {
            Ok(peer) => measured.push(peer),
            Err(error) => harness.progress(format!("rows come without it: {error}")),
        }
    }
    measured
}
