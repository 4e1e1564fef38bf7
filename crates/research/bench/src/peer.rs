//! Other libraries in child processes: one JSON object per line in each direction (`research/peers/protocol.py`). They
//! time their own calls, so no time includes the pipe. This module has OpenFHE's evaluator; its submodules have SEAL,
//! Respire, InsPIRe and YPIR, OpenFHE's bootstrapping, our module for browsers in V8, and our services on Ray.

mod bootstrap;
mod cluster;
mod respire;
mod seal;
mod silent;
mod v8;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) use bootstrap::{BootstrapRequest, PeerBootstrap};
pub(crate) use cluster::RayCluster;
pub(crate) use respire::Respire;
pub(crate) use seal::{Seal, SealCall, SealRequest, SealSetup};
use serde::Deserialize;
use serde_json::{Value, json};
pub(crate) use silent::{SilentReport, SilentRetrieval};
pub(crate) use v8::{ClientStep, V8};

use crate::clock::{Clock, scaled};

const SCRIPT: &str = "openfhe_peer.py";

/// A running OpenFHE with one context and its keys.
pub(crate) struct OpenFhe {
    process: PeerProcess,
    clock: Clock,
    /// Its parameters.
    pub(crate) setup: OpenFheSetup,
}

/// The parameters OpenFHE runs with, as it reports them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OpenFheSetup {
    pub(crate) version: String,
    /// Number of chain primes at the highest level.
    pub(crate) towers: usize,
    pub(crate) log2_qp: f64,
    pub(crate) first_bits: f64,
    pub(crate) scale_bits: f64,
    pub(crate) digits: usize,
    /// Bytes of one rotation key in OpenFHE's binary serialisation.
    pub(crate) rotation_key_bytes: u64,
    pub(crate) relin_key_bytes: u64,
}

/// Requested parameters of OpenFHE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFheRequest {
    pub(crate) log_n: u32,
    pub(crate) log_qp: u32,
    pub(crate) digits: u32,
}

#[derive(Deserialize)]
struct PeerTimes {
    ms: Vec<f64>,
    cpu_ms: Vec<f64>,
}

impl PeerTimes {
    /// Times by the requested clock.
    fn seconds(&self, clock: Clock) -> Vec<f64> {
        match clock {
            Clock::Wall => scaled(&self.ms, 1e-3),
            Clock::Cpu => scaled(&self.cpu_ms, 1e-3),
        }
    }

    /// Time of the one requested call.
    fn first(&self, peer: &'static str, clock: Clock) -> anyhow::Result<f64> {
        self.seconds(clock).first().copied().ok_or_else(|| failure(peer, "an answer without times"))
    }
}

impl OpenFhe {
    pub(crate) const NAME: &str = "OpenFHE";

    /// Whether `make peers` has been run in the repository at `root`.
    pub(crate) fn is_set_up(root: &Path) -> bool {
        python(root).exists() && script(root, SCRIPT).exists()
    }

    /// Starts the process, which creates its context and keys.
    pub(crate) fn start(root: &Path, request: OpenFheRequest, clock: Clock) -> anyhow::Result<Self> {
        let mut process = PeerProcess::open(Self::NAME, root, SCRIPT)?;
        let OpenFheRequest { log_n, log_qp, digits } = request;
        let setup = process.ask(&json!({ "cmd": "setup", "log_n": log_n, "log_qp": log_qp, "digits": digits }))?;
        Ok(OpenFhe { process, clock, setup })
    }

    /// Seconds of one call of `operation` with `towers` primes left.
    pub(crate) fn time(&mut self, operation: &str, towers: usize) -> anyhow::Result<f64> {
        let command = json!({ "cmd": "time", "op": operation, "level": towers, "reps": 1 });
        let times: PeerTimes = self.process.ask(&command)?;
        times.first(Self::NAME, self.clock)
    }
}

impl OpenFheSetup {
    /// The number of primes, at least two, whose product is nearest to `log2_q` bits, and the bits of that product.
    pub(crate) fn towers_near(&self, log2_q: f64) -> (usize, f64) {
        let bits = |towers: usize| self.first_bits + (towers - 1) as f64 * self.scale_bits;
        let distance = |towers: &usize| (bits(*towers) - log2_q).abs();
        let nearest = (2..=self.towers.max(2)).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let towers = nearest.unwrap_or(2);
        (towers, bits(towers))
    }
}

/// The process and its pipes; the process ends when this value is dropped.
struct PeerProcess {
    peer: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl PeerProcess {
    /// Starts a script in Python.
    fn open(peer: &'static str, root: &Path, name: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(python(root));
        command.arg(script(root, name));
        Self::start(peer, command)
    }

    /// Starts a program.
    fn start(peer: &'static str, mut command: Command) -> anyhow::Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failure(peer, format!("cannot start: {error}")))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or_else(|| failure(peer, "no pipes"))?;
        Ok(PeerProcess { peer, process, input, output: BufReader::new(output) })
    }

    fn ask<T: for<'de> Deserialize<'de>>(&mut self, command: &Value) -> anyhow::Result<T> {
        let failure = |reason: String| failure(self.peer, reason);
        let broken = |error: std::io::Error| failure(format!("stopped answering: {error}"));
        writeln!(self.input, "{command}").and_then(|()| self.input.flush()).map_err(broken)?;
        let mut line = String::new();
        if self.output.read_line(&mut line).map_err(broken)? == 0 {
            return Err(failure("ended without an answer; its own message is on standard error".into()));
        }
        let answer: Value = serde_json::from_str(&line).map_err(|error| failure(error.to_string()))?;
        if let Some(error) = answer.get("error") {
            return Err(failure(format!("{command} failed: {error}")));
        }
        serde_json::from_value(answer).map_err(|error| failure(format!("an answer of another version: {error}")))
    }
}

impl PeerProcess {
    /// Ends the process, and waits until it has cleaned up.
    fn quit(mut self) -> anyhow::Result<()> {
        let _: Value = self.ask(&json!({ "cmd": "quit" }))?;
        self.process.wait().map_err(|error| failure(self.peer, format!("cannot be ended: {error}")))?;
        Ok(())
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // The process has no state to save. Killing fails if it has already ended, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn failure(peer: &'static str, reason: impl Into<String>) -> anyhow::Error {
    anyhow::anyhow!("peer {peer}: {}; run 'make peers' again, or leave peers out", reason.into())
}

fn python(root: &Path) -> PathBuf {
    root.join(".peers/venv/bin/python")
}

fn script(root: &Path, name: &str) -> PathBuf {
    root.join("research/peers").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_matched_by_bits() {
        let setup = OpenFheSetup {
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
        assert!(!OpenFhe::is_set_up(nowhere));
        let request = OpenFheRequest { log_n: 11, log_qp: 500, digits: 3 };
        let error = OpenFhe::start(nowhere, request, Clock::Wall).err().unwrap();
        assert!(error.to_string().contains("make peers"), "{error}");
    }
}
