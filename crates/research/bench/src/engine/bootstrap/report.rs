//! The rows of a preset's bootstraps.

use serde_json::{Map, Value};

use super::fixture::{BootstrapFixture, Precision};
use super::{BackendTimes, Precisions};
use crate::clock::{Clock, median};
use crate::harness::Harness;
use crate::peer::{Library, PeerBootstrap};
use crate::row::{Metric, params};

pub(super) const TIME: Metric = Metric::less("time", "s");
/// Time per slot and per bit of modulus left: it makes presets with different level sizes comparable.
const TIME_PER_BIT: Metric = Metric::less("time_per_slot_and_bit_left", "ns");
const ESTIMATE: &str = "the simulator's estimate";
/// Predicted with operations that are timed in turn with the bootstraps.
const PRICE: &str = "the simulator's price";
const ORDER: &str = "one after the other, as both do not fit the memory";
const NOT_COUNTED: &str = "two or more before, one of them decrypted and checked";

/// Reads a value of a measurement of another library, in the metric's unit.
type PeerValue = fn(&PeerBootstrap) -> f64;

/// Selects one of the three errors.
type ErrorValue = fn(&Precision) -> f64;

/// The values that do not depend on the backend and are needed after the keys are dropped.
pub(super) struct Report {
    preset: &'static str,
    slots: usize,
    levels: usize,
    /// Bits of the modulus between an output and the input of the next bootstrap.
    modulus_left: f64,
    keys: usize,
    key_memory: u64,
    key_wire: u64,
    matrices: usize,
    log2_failure: f64,
    log2_q: f64,
    log2_qp: f64,
    found: [Precision; 2],
    estimates: [Precision; 2],
}

impl Report {
    pub(super) fn new(preset: &'static str, fixture: &BootstrapFixture, precisions: &Precisions) -> Self {
        let (plan, parameters) = (fixture.plan(), fixture.parameters());
        let (keys, ring) = (plan.key_plan(), parameters.ring());
        let bits = |level| parameters.log2_modulus(level);
        Report {
            preset,
            slots: plan.slots(),
            levels: plan.depth(),
            modulus_left: bits(plan.output_level()) - bits(plan.input_level()),
            keys: keys.len(),
            key_memory: fixture.key_bytes(),
            key_wire: keys.wire_bytes(ring),
            matrices: plan.prepared_bytes() as usize,
            log2_failure: plan.log2_failure(),
            log2_q: bits(parameters.max_level()),
            log2_qp: parameters.rlwe().log2_modulus(ring.gadget_key_basis(ring.chain().len())),
            found: precisions.found,
            estimates: precisions.estimates,
        }
    }

    /// Precision, levels and bytes, which are the same on every backend.
    pub(super) fn facts(&self, harness: &mut Harness<'_>, peers: &[PeerBootstrap]) {
        let case = format!("bootstrap, {}", self.preset);
        let errors: [(&'static str, ErrorValue, PeerValue); 3] = [
            ("precision_rms", |p| p.rms, |peer| bits(peer.quality.rms_error)),
            ("precision_mean", |p| p.mean, |peer| bits(peer.quality.mean_error)),
            ("precision_worst", |p| p.worst, |peer| bits(peer.quality.worst_error)),
        ];
        for (name, error, theirs) in errors {
            let metric = Metric::more(name, "bits");
            for (index, case) in [case.clone(), format!("exponential {case}")].into_iter().enumerate() {
                let [found, estimate] = [self.found[index], self.estimates[index]].map(|p| bits(error(&p)));
                harness.value(metric, case, found, Some((ESTIMATE, estimate)), self.params());
            }
            self.beside(harness, metric, &case, bits(error(&self.found[0])), (peers, theirs), self.params());
        }
        let facts: [(Metric, f64, Option<PeerValue>); 6] = [
            (Metric::more("levels_left", "levels"), self.levels as f64, Some(|p| f64::from(p.quality.levels_left))),
            (Metric::more("modulus_left", "bits"), self.modulus_left, Some(|p| p.quality.modulus_left)),
            (Metric::less("key_wire", "bytes"), self.key_wire as f64, Some(|p| p.setup.key_bytes as f64)),
            (Metric::less("key_memory", "bytes"), self.key_memory as f64, None),
            (Metric::less("matrix_memory", "bytes"), self.matrices as f64, None),
            (Metric::less("log2_failure", "bits"), self.log2_failure, None),
        ];
        for (metric, ours, theirs) in facts {
            match theirs.filter(|_| !peers.is_empty()) {
                Some(theirs) => self.beside(harness, metric, &case, ours, (peers, theirs), self.params()),
                None => harness.value(metric, case.as_str(), ours, None, self.params()),
            }
        }
    }

    /// Seconds on one backend.
    pub(super) fn times(&self, harness: &mut Harness<'_>, times: &BackendTimes, peers: &[PeerBootstrap]) {
        let backend = times.backend.name();
        let case = |kind: &str| format!("{kind}, {}, {backend}", self.preset);
        let timed = |threads: usize, clock: Clock, repetitions: usize| {
            let mut params = self.params();
            params.extend(params! {
                "backend": backend, "threads": threads, "clock": clock.name(), "repetitions": repetitions,
                "not_counted": NOT_COUNTED,
            });
            params
        };
        let (seconds, clock) = (median(&times.refresh), harness.clock());
        let single = || timed(1, clock, times.refresh.len());
        let work = self.slots as f64 * self.modulus_left;
        if peers.is_empty() {
            harness.value(TIME, case("bootstrap"), seconds, None, single());
            harness.value(TIME_PER_BIT, case("bootstrap"), seconds / work * 1e9, None, single());
        } else {
            let theirs = |peer: &PeerBootstrap| median(&peer.seconds);
            self.beside(harness, TIME, &case("bootstrap"), seconds, (peers, theirs), single());
            let theirs = |peer: &PeerBootstrap| median(&peer.seconds) / peer.slots_and_bits() * 1e9;
            self.beside(harness, TIME_PER_BIT, &case("bootstrap"), seconds / work * 1e9, (peers, theirs), single());
        }
        harness.row(TIME, case("bootstrap"), &times.refresh, Some((PRICE, &times.price)), single());
        let exponential = median(&times.exponential);
        harness.value(TIME, case("exponential bootstrap"), exponential, None, single());
        for (threads, [several, one]) in &times.threads {
            let case = format!("{}, {threads} threads", case("bootstrap"));
            let params = timed(*threads, Clock::Wall, several.len());
            harness.row(TIME, case, several, Some(("ours, 1 thread", one)), params);
        }
    }

    /// One row per measurement of another library.
    fn beside(
        &self,
        harness: &mut Harness<'_>,
        metric: Metric,
        case: &str,
        ours: f64,
        (peers, theirs): (&[PeerBootstrap], impl Fn(&PeerBootstrap) -> f64),
        params: Map<String, Value>,
    ) {
        for peer in peers {
            let mut params = params.clone();
            params.extend(peer_params(peer));
            harness.value(metric, case, ours, Some((&peer.request.name(), theirs(peer))), params);
        }
    }

    fn params(&self) -> Map<String, Value> {
        params! {
            "preset": self.preset, "slots": self.slots, "values": "complex", "keys": self.keys,
            "log2_q": self.log2_q.round(), "log2_qp": self.log2_qp.round(),
        }
    }
}

fn peer_params(peer: &PeerBootstrap) -> Map<String, Value> {
    let PeerBootstrap { request, setup, quality, seconds } = peer;
    let key_bytes = match request.library() {
        Library::OpenFhe => "their number times the bytes of a serialised rotation key",
        Library::Lattigo => "serialised",
    };
    params! {
        "order": ORDER, "baseline_version": setup.version, "baseline_security": setup.security_level,
        "baseline_log2_q": setup.log2_q.round(), "baseline_log2_qp": setup.log2_qp.round(),
        "baseline_digits": setup.digits, "baseline_keys": setup.switching_keys, "baseline_key_bytes": key_bytes,
        "baseline_peak_memory_mb": quality.peak_memory_mb.round(), "baseline_repetitions": seconds.len(),
    }
}

fn bits(error: f64) -> f64 {
    -error.log2()
}
