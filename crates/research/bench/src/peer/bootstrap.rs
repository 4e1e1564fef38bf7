//! Bootstrapping of other libraries (`research/peers/openfhe_bootstrap_peer.py`, `research/peers/lattigo`), in a
//! process that ends with the measurement.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Library, PeerTimes, failure};
use crate::clock::Clock;

const OPENFHE_SCRIPT: &str = "openfhe_bootstrap_peer.py";

/// Requested parameters. All slots are complex and in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BootstrapRequest {
    OpenFhe(OpenFheBootstrap),
    /// A default set of Lattigo, by its name.
    Lattigo(&'static str),
}

/// Requested parameters of OpenFHE. Each linear map uses four levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFheBootstrap {
    pub(crate) log_n: u32,
    /// Levels left after the bootstrap.
    pub(crate) levels: u32,
    pub(crate) scale_bits: u32,
    /// Bits of the first prime: at 2^15 slots at most 8 more than the scale's, or OpenFHE refuses to bootstrap.
    pub(crate) first_bits: u32,
    pub(crate) digits: u32,
    /// `sparse_encapsulated` or `uniform_ternary`.
    pub(crate) secret: &'static str,
}

/// A library's setup, as it reports it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BootstrapSetup {
    pub(crate) version: String,
    pub(crate) slots: usize,
    pub(crate) log2_q: f64,
    pub(crate) log2_qp: f64,
    pub(crate) digits: usize,
    pub(crate) security_level: String,
    pub(crate) switching_keys: usize,
    /// OpenFHE's are the number of keys times the bytes of one serialised key: serialising all of them would double the
    /// memory.
    pub(crate) key_bytes: u64,
}

/// Distances of the slots from their expected values, and levels left.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BootstrapQuality {
    pub(crate) rms_error: f64,
    pub(crate) mean_error: f64,
    pub(crate) worst_error: f64,
    pub(crate) levels_left: u32,
    /// Bits of the modulus between the output and the next bootstrap.
    pub(crate) modulus_left: f64,
    pub(crate) peak_memory_mb: f64,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct PeerBootstrap {
    pub(crate) request: BootstrapRequest,
    pub(crate) setup: BootstrapSetup,
    pub(crate) quality: BootstrapQuality,
    /// Seconds of each repetition, after one warm-up.
    pub(crate) seconds: Vec<f64>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(flatten)]
    times: PeerTimes,
    #[serde(flatten)]
    quality: BootstrapQuality,
}

impl BootstrapRequest {
    pub(crate) fn library(&self) -> Library {
        match self {
            BootstrapRequest::OpenFhe(_) => Library::OpenFhe,
            BootstrapRequest::Lattigo(_) => Library::Lattigo,
        }
    }

    /// Most memory that it was seen to use at degree 2^16, in GiB.
    pub(crate) fn memory_gib(&self) -> u64 {
        match self {
            BootstrapRequest::OpenFhe(_) => 17,
            BootstrapRequest::Lattigo(_) => 19,
        }
    }

    /// Name of the baseline.
    pub(crate) fn name(&self) -> String {
        match self {
            BootstrapRequest::OpenFhe(OpenFheBootstrap { secret, levels, scale_bits, .. }) => {
                let secret = secret.replace('_', " ");
                format!("OpenFHE, {secret} secret, {levels} levels of {scale_bits} bits")
            }
            BootstrapRequest::Lattigo(set) => format!("Lattigo, {set}"),
        }
    }

    fn setup(&self) -> Value {
        match self {
            BootstrapRequest::OpenFhe(request) => {
                let &OpenFheBootstrap { log_n, levels, scale_bits, first_bits, digits, secret } = request;
                json!({
                    "cmd": "setup", "log_n": log_n, "levels": levels, "scale_bits": scale_bits,
                    "first_bits": first_bits, "digits": digits, "secret": secret,
                })
            }
            BootstrapRequest::Lattigo(set) => json!({ "cmd": "setup", "set": set }),
        }
    }

    /// Starts the library, measures `repetitions` bootstraps after one warm-up, and ends it.
    pub(crate) fn measure(self, root: &Path, clock: Clock, repetitions: usize) -> anyhow::Result<PeerBootstrap> {
        let mut process = self.library().start(root, OPENFHE_SCRIPT)?;
        let setup = process.ask(&self.setup())?;
        let answer: Answer = process.ask(&json!({ "cmd": "time", "op": "bootstrap", "reps": repetitions }))?;
        let seconds = answer.times.seconds(clock);
        if seconds.len() != repetitions {
            return Err(failure(self.library().name(), "an answer with too few times"));
        }
        Ok(PeerBootstrap { request: self, setup, quality: answer.quality, seconds })
    }
}

impl PeerBootstrap {
    /// The product of the number of slots and of the bits of modulus left.
    pub(crate) fn slots_and_bits(&self) -> f64 {
        self.setup.slots as f64 * self.quality.modulus_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_bootstrap_of_openfhe_is_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        if !Library::OpenFhe.is_set_up(&root) {
            println!("skipped: OpenFHE is not set up; `make peers` sets it up");
            return;
        }
        let secret = "sparse_encapsulated";
        let small = OpenFheBootstrap { log_n: 11, levels: 3, scale_bits: 59, first_bits: 60, digits: 4, secret };
        let request = BootstrapRequest::OpenFhe(small);
        assert_eq!(request.name(), "OpenFHE, sparse encapsulated secret, 3 levels of 59 bits");
        let found = request.measure(&root, Clock::Cpu, 2).unwrap();
        assert_eq!((found.seconds.len(), found.quality.levels_left, found.setup.slots), (2, 3, 1 << 10));
        assert_eq!(found.setup.security_level, "HEStd_NotSet");
        let quality = &found.quality;
        assert!(quality.mean_error < quality.rms_error && quality.rms_error < quality.worst_error, "{quality:?}");
        assert!(quality.worst_error < 2f64.powi(-15));
        let unknown = BootstrapRequest::OpenFhe(OpenFheBootstrap { secret: "dense", ..small });
        assert!(unknown.measure(&root, Clock::Cpu, 1).unwrap_err().to_string().contains("uniform_ternary"));
    }
}
