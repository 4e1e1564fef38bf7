//! The engine suite: evaluator operations compared with those of OpenFHE and Lattigo, transforms, matrix products,
//! keys, threads, memory, bootstraps.
//!
//! - **OpenFHE and Lattigo** (`research/peers/README.md`; `make peers` sets them up) run in child processes and time
//!   their own calls; there is a row for each. Levels are matched by bits of Q: each of our levels is compared with the
//!   chain nearest in bits; `params` has both. A rescale divides by two primes of 29 bits in ours and by one prime of
//!   50 bits in theirs. "Multiply, relinearise and rescale" is one division in ours and the sum of two calls in theirs.
//!   Without a peer, `baseline` and `ratio` are null.
//! - **AVX2** is measured in addition to the fastest backend if that is another one, because the targets are stated for
//!   AVX2.
//! - **NTT** times are times of `Ring::to_evaluation` and `Ring::to_coefficients` on a polynomial of several primes,
//!   divided by the number of primes. The forward transform includes a pass into Montgomery form, the inverse transform
//!   the division by n.
//! - **PCMM** counts one multiply-accumulate for each matrix entry, coefficient and prime, on 30-bit residues,
//!   reductions included.

mod bootstrap;
mod fixture;
mod keys;
mod matrix;
mod operations;
mod threads;
mod transforms;

use fixture::Fixture;
use unspoken_ckks::Preset;
use unspoken_ring::Backend;

use crate::harness::Harness;
use crate::peer::{EvaluatorRequest, Library, PeerEvaluator};

/// A preset and the nearest parameters of other libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    pub(crate) preset: &'static str,
    pub(crate) request: EvaluatorRequest,
}

/// The parameters of the engine's targets: log Q 1,250 against 1,260 bits, log QP about 1,700 against 1,740, three
/// digits each.
const FULL: Comparison =
    Comparison { preset: "n16_depth20_scale58", request: EvaluatorRequest { log_n: 16, log_qp: 1740, digits: 3 } };

/// For `--quick`: log Q 310 bits each, log QP 404 against 430.
const QUICK: Comparison =
    Comparison { preset: "n14_depth5_scale50", request: EvaluatorRequest { log_n: 14, log_qp: 430, digits: 3 } };

const OPERATIONS: &str = "operations";
const KEYS: &str = "keys";
const THREADS: &str = "threads";
const TRANSFORMS: &str = "transforms";
const MATRIX: &str = "matrix";
const BOOTSTRAP: &str = "bootstrap";

pub(crate) const PARTS: [&str; 6] = [OPERATIONS, KEYS, THREADS, TRANSFORMS, MATRIX, BOOTSTRAP];

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let quick = harness.options.quick;
    if [OPERATIONS, KEYS, THREADS].iter().any(|part| harness.includes(part)) {
        compare(harness, if quick { QUICK } else { FULL })?;
    }
    if harness.includes(TRANSFORMS) {
        transforms::run(harness, if quick { 11..=14 } else { 11..=17 })?;
    }
    if harness.includes(MATRIX) {
        matrix::run(harness, if quick { matrix::QUICK } else { matrix::FULL })?;
    }
    if harness.includes(BOOTSTRAP) {
        if quick {
            harness.progress("bootstraps take minutes: leave out --quick for them");
        } else {
            bootstrap::run(harness, &bootstrap::FULL)?;
            bootstrap::run_forms(harness, bootstrap::FORMS)?;
        }
    }
    harness.peak_memory("every context and key of what was measured");
    Ok(())
}

/// Runs the parts that need keys; the fixtures are dropped at the end.
fn compare(harness: &mut Harness<'_>, comparison: Comparison) -> anyhow::Result<()> {
    let mut peers = start_peers(harness, comparison)?;
    let mut fixtures = Vec::new();
    for backend in backends() {
        harness.progress(format!("making keys: {}, {} backend", comparison.preset, backend.name()));
        fixtures.push(Fixture::new(Preset::find(comparison.preset)?, backend)?);
    }
    if harness.includes(OPERATIONS) {
        operations::run(harness, &fixtures, &mut peers)?;
    }
    if harness.includes(KEYS) {
        keys::run(harness, &fixtures[0], &peers)?;
    }
    if harness.includes(THREADS) {
        threads::run(harness, &fixtures[0])?;
    }
    Ok(())
}

/// The fastest backend on this machine, and AVX2 if that is another one: the targets are stated for AVX2.
fn backends() -> Vec<Backend> {
    let mut backends = vec![Backend::detect()];
    if Backend::Avx2.is_available() && !backends.contains(&Backend::Avx2) {
        backends.push(Backend::Avx2);
    }
    backends
}

/// Starts the libraries that are set up.
fn start_peers(harness: &mut Harness<'_>, comparison: Comparison) -> anyhow::Result<Vec<PeerEvaluator>> {
    let mut peers = Vec::new();
    for library in Library::ALL.into_iter().filter(|_| harness.options.peers) {
        if !harness.is_set_up(library) {
            continue;
        }
        harness.progress(format!("starting {} and making its keys", library.name()));
        let peer = PeerEvaluator::start(library, &harness.options.root, comparison.request, harness.clock())?;
        harness.progress(format!("{} {} is ready", library.name(), peer.setup.version));
        peers.push(peer);
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Options, Row, Suite};

    fn tiny_run(measure: impl FnOnce(&mut Harness<'_>)) -> Vec<Row> {
        let options = Options { quick: true, peers: false, clock: Clock::Cpu, ..Options::default() };
        let mut rows = Vec::new();
        let (mut sink, mut progress) = (|row| rows.push(row), |_: &str| ());
        measure(&mut Harness::new(Suite::Engine, &options, &mut sink, &mut progress).unwrap());
        rows
    }

    #[test]
    fn operations_keys_and_threads_at_a_small_ring() {
        let request = EvaluatorRequest { log_n: 11, log_qp: 600, digits: 3 };
        let comparison = Comparison { preset: "insecure_n11_depth9_scale50", request };
        let rows = tiny_run(|harness| compare(harness, comparison).unwrap());
        for case in ["rotate, full level", "multiply and relinearise, half level", "hoist, lowest level"] {
            let row = rows.iter().find(|row| row.case.starts_with(case)).unwrap();
            assert!(row.ours > 0.0 && row.ours < 1e4 && row.baseline.is_none(), "{row:?}");
            assert_eq!((row.metric, row.unit), ("time", "ms"));
        }
        let key = rows.iter().find(|row| row.metric == "wire_bytes").unwrap();
        // At most three digits of 25 primes, 30 bits each, one half of each row.
        assert!(key.ours > 0.0 && key.ours < 10.0 * 25.0 * 2048.0 * 4.0, "{key:?}");
        assert!(rows.iter().any(|row| row.case == "rotate, 2 threads" && row.ratio.is_some()));
    }

    #[test]
    fn forms_of_bootstraps_at_a_small_ring() {
        let preset = ("insecure_n11_boot_depth15_scale40", 64);
        let rows = tiny_run(|harness| bootstrap::run_forms(harness, preset).unwrap());
        let ratio = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case.contains(case)).unwrap();
            row.ours / row.baseline.unwrap()
        };
        assert!((0.5..0.6).contains(&ratio("key_memory", "seeded keys")));
        assert!(ratio("key_memory", "64 slots") < 1.0);
        for values in ["complex", "real"] {
            assert!(ratio("time", &format!("4 {values} vectors, per vector")) > 0.0);
        }
    }

    #[test]
    fn bootstraps_at_a_small_ring() {
        let case = bootstrap::Case { preset: "insecure_n11_boot_depth10_scale50", peers: &[] };
        let rows = tiny_run(|harness| bootstrap::run(harness, &[case]).unwrap());
        let find = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case.starts_with(case));
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        for (metric, bits) in [("precision_mean", 24.0), ("precision_rms", 24.0), ("precision_worst", 20.0)] {
            for case in ["bootstrap", "exponential bootstrap"] {
                let row = find(metric, case);
                assert!(row.ours > bits && (row.ours - row.baseline.unwrap()).abs() < 2.0, "{row:?}");
            }
        }
        let [mean, worst] = ["precision_mean", "precision_worst"].map(|metric| find(metric, "bootstrap").ours);
        assert!(mean > worst);
        assert_eq!(find("levels_left", "bootstrap").ours, 10.0);
        let bits = find("modulus_left", "bootstrap").ours;
        assert!((bits - 500.0).abs() < 4.0, "{bits}");
        let [memory, wire] = ["key_memory", "key_wire"].map(|metric| find(metric, "bootstrap").ours);
        assert!(wire > 1e6 && memory > 2.0 * wire && memory < 2.5 * wire, "{memory} {wire}");
        assert!(find("log2_failure", "bootstrap").ours < -40.0);
        let [whole, half] = ["bootstrap", "exponential bootstrap"].map(|case| find("time", case).ours);
        assert!(0.0 < half && half < whole && whole < 100.0, "{half} {whole}");
        assert!(rows.iter().any(|row| row.case.ends_with("2 threads") && row.ratio.is_some()));
        let priced = rows.iter().find(|row| row.baseline_name == "the simulator's price").unwrap();
        assert!(
            priced.metric == "time" && priced.ratio.is_some_and(|ratio| (0.1..10.0).contains(&ratio)),
            "{priced:?}"
        );
    }

    #[test]
    fn parts_are_measured_alone_and_unknown_ones_refused() {
        let harness = |only: &str, check: &mut dyn FnMut(anyhow::Result<Harness<'_>>)| {
            let options = Options { only: vec![only.into()], ..Options::default() };
            check(Harness::new(Suite::Engine, &options, &mut |_| (), &mut |_| ()));
        };
        harness(MATRIX, &mut |harness| {
            let harness = harness.unwrap();
            assert!(harness.includes(MATRIX) && !harness.includes(BOOTSTRAP));
        });
        harness("matrices", &mut |harness| {
            let message = harness.err().unwrap().to_string();
            assert!(message.contains("matrices") && message.contains("transforms, matrix, bootstrap"), "{message}");
        });
    }

    #[test]
    fn transforms_and_matrices_of_every_backend() {
        let rows = tiny_run(|harness| {
            transforms::run(harness, 11..=11).unwrap();
            matrix::run(harness, matrix::Shape { log_n: 11, rows: 8, columns: 32, primes: 2 }).unwrap();
            harness.peak_memory("of the tests");
        });
        let vector = Backend::ALL.into_iter().filter(|b| b.is_available() && *b != Backend::Portable).count().max(1);
        assert_eq!(rows.iter().filter(|row| row.metric == "time_per_prime").count(), 2 * vector);
        let rates: Vec<&Row> = rows.iter().filter(|row| row.metric == "rate").collect();
        assert_eq!(rates.len(), vector);
        assert!(rates.iter().all(|row| row.ours > 0.01 && row.ours < 1e4), "{rates:?}");
    }
}
