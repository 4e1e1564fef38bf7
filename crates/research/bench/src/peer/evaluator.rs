//! Evaluators of other libraries (`research/peers/openfhe_peer.py`, `research/peers/lattigo`).

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{Library, PeerProcess, PeerTimes};
use crate::clock::Clock;

const OPENFHE_SCRIPT: &str = "openfhe_peer.py";

/// A running library with one context and its keys.
pub(crate) struct PeerEvaluator {
    process: PeerProcess,
    clock: Clock,
    pub(crate) library: Library,
    /// Its parameters.
    pub(crate) setup: EvaluatorSetup,
}

/// The parameters that a library runs with, as it reports them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct EvaluatorSetup {
    pub(crate) version: String,
    /// Number of chain primes at the highest level.
    pub(crate) towers: usize,
    pub(crate) log2_qp: f64,
    pub(crate) first_bits: f64,
    pub(crate) scale_bits: f64,
    pub(crate) digits: usize,
    /// Bytes of one rotation key in the library's binary serialisation.
    pub(crate) rotation_key_bytes: u64,
    pub(crate) relin_key_bytes: u64,
}

/// Requested parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvaluatorRequest {
    pub(crate) log_n: u32,
    pub(crate) log_qp: u32,
    pub(crate) digits: u32,
}

impl PeerEvaluator {
    /// Starts the process, which creates its context and keys.
    pub(crate) fn start(
        library: Library,
        root: &Path,
        request: EvaluatorRequest,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let mut process = library.start(root, OPENFHE_SCRIPT)?;
        let EvaluatorRequest { log_n, log_qp, digits } = request;
        let setup = process.ask(&json!({ "cmd": "setup", "log_n": log_n, "log_qp": log_qp, "digits": digits }))?;
        Ok(PeerEvaluator { process, clock, library, setup })
    }

    /// Seconds of one call of `operation` with `towers` primes left.
    pub(crate) fn time(&mut self, operation: &str, towers: usize) -> anyhow::Result<f64> {
        let command = json!({ "cmd": "time", "op": operation, "level": towers, "reps": 1 });
        let times: PeerTimes = self.process.ask(&command)?;
        times.first(self.library.name(), self.clock)
    }
}

impl EvaluatorSetup {
    /// The number of primes, at least two, whose product is nearest to `log2_q` bits, and the bits of that product.
    pub(crate) fn towers_near(&self, log2_q: f64) -> (usize, f64) {
        let bits = |towers: usize| self.first_bits + (towers - 1) as f64 * self.scale_bits;
        let distance = |towers: &usize| (bits(*towers) - log2_q).abs();
        let nearest = (2..=self.towers.max(2)).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let towers = nearest.unwrap_or(2);
        (towers, bits(towers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_matched_by_bits() {
        let setup = EvaluatorSetup {
            version: "1".into(),
            towers: 25,
            log2_qp: 1560.0,
            first_bits: 60.0,
            scale_bits: 50.0,
            digits: 5,
            rotation_key_bytes: 1,
            relin_key_bytes: 1,
        };
        assert_eq!(setup.towers_near(1250.0), (25, 1260.0));
        assert_eq!(setup.towers_near(670.0), (13, 660.0));
        assert_eq!(setup.towers_near(148.0), (3, 160.0));
        assert_eq!(setup.towers_near(20.0), (2, 110.0));
        assert_eq!(setup.towers_near(9000.0), (25, 1260.0));
    }

    #[test]
    fn a_repository_without_peers_is_told_apart() {
        let nowhere = Path::new("no/such/repository");
        let request = EvaluatorRequest { log_n: 11, log_qp: 500, digits: 3 };
        for library in Library::ALL {
            assert!(!library.is_set_up(nowhere));
            let error = PeerEvaluator::start(library, nowhere, request, Clock::Wall).err().unwrap();
            assert!(error.to_string().contains("make peers"), "{error}");
        }
    }
}
