//! Other libraries in child processes: one JSON object per line in each direction (`research/peers/protocol.py`). They
//! time their own calls, so no time includes the pipe. The submodules have evaluators and bootstrapping of OpenFHE and
//! Lattigo, SEAL, Respire, InsPIRe and YPIR, models in onnxruntime and Concrete ML, our module for browsers in V8, and
//! our services on Ray.

mod bootstrap;
mod cluster;
mod evaluator;
mod models;
mod respire;
mod seal;
mod silent;
mod v8;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) use bootstrap::{BootstrapRequest, OpenFheBootstrap, PeerBootstrap};
pub(crate) use cluster::RayCluster;
pub(crate) use evaluator::{EvaluatorRequest, EvaluatorSetup, PeerEvaluator};
pub(crate) use models::{ClearModel, ConcreteModel};
pub(crate) use respire::Respire;
pub(crate) use seal::{Seal, SealCall, SealRequest, SealSetup};
use serde::Deserialize;
use serde_json::{Value, json};
pub(crate) use silent::{SilentReport, SilentRetrieval};
pub(crate) use v8::{ClientStep, V8};

use crate::clock::{Clock, scaled};

/// A library with CKKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    OpenFhe,
    Lattigo,
}

impl Library {
    pub(crate) const ALL: [Library; 2] = [Library::OpenFhe, Library::Lattigo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Library::OpenFhe => "OpenFHE",
            Library::Lattigo => "Lattigo",
        }
    }

    /// Whether `make peers` has set it up in the repository at `root`.
    pub(crate) fn is_set_up(self, root: &Path) -> bool {
        match self {
            Library::OpenFhe => python(root).exists(),
            Library::Lattigo => lattigo(root).exists(),
        }
    }

    /// Starts its program, for OpenFHE one of two.
    fn start(self, root: &Path, openfhe_script: &str) -> anyhow::Result<PeerProcess> {
        match self {
            Library::OpenFhe => PeerProcess::open(self.name(), root, openfhe_script),
            Library::Lattigo => PeerProcess::start(self.name(), Command::new(lattigo(root))),
        }
    }
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

/// The program that `research/peers/setup.sh` builds.
fn lattigo(root: &Path) -> PathBuf {
    root.join(".peers/lattigo")
}
