//! Services on Ray and without it (`research/peers/cluster_peer.py`): our own Python package, in a process of its own.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{PeerProcess, PeerTimes, script};
use crate::clock::Clock;

const SCRIPT: &str = "cluster_peer.py";

/// A running Ray cluster with services, and the same without Ray.
pub(crate) struct RayCluster {
    process: PeerProcess,
    /// What it runs on.
    pub(crate) setup: RaySetup,
}

/// What a cluster runs on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RaySetup {
    /// Version of Ray.
    pub(crate) ray: String,
    /// Cores of the machine, which all services share.
    pub(crate) cores: usize,
    /// What is predicted of a pass of a language model.
    pub(crate) predicted: Option<PredictedPass>,
}

/// What `unspoken llama plan` predicts of a pass.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct PredictedPass {
    /// Seconds in one process.
    pub(crate) alone: f64,
    /// Seconds in all processes.
    pub(crate) seconds: f64,
    /// Bytes to and from the others.
    pub(crate) sent_bytes: f64,
}

/// Passes of a language model.
#[derive(Deserialize)]
struct Passes {
    #[serde(flatten)]
    times: PeerTimes,
    sent_bytes: f64,
}

impl RayCluster {
    pub(crate) const NAME: &str = "Ray";

    /// Whether the package is installed (`make python-env`) and the command is built.
    pub(crate) fn is_set_up(root: &Path) -> bool {
        python(root).exists() && unspoken(root).exists()
    }

    /// Starts a cluster with the services of a part: `{"part": ..}`.
    pub(crate) fn start(root: &Path, mut part: Value) -> anyhow::Result<Self> {
        let mut command = Command::new(python(root));
        command.args(["-W", "ignore"]).arg(script(root, SCRIPT));
        let mut process = PeerProcess::start(Self::NAME, command)?;
        part["cmd"] = json!("setup");
        part["binary"] = json!(unspoken(root));
        let setup = process.ask(&part)?;
        Ok(RayCluster { process, setup })
    }

    /// Runs passes of a language model. Returns the seconds of each, and the bytes of one to and from helpers.
    pub(crate) fn passes(&mut self, repetitions: usize) -> anyhow::Result<(Vec<f64>, f64)> {
        let command = json!({ "cmd": "time", "op": "llama", "reps": repetitions });
        let Passes { times, sent_bytes } = self.process.ask(&command)?;
        Ok((times.seconds(Clock::Wall), sent_bytes))
    }

    /// Ends all of its processes, which need much memory.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.process.quit()
    }

    /// Seconds from one question of a client to the answer.
    pub(crate) fn seconds(&mut self, service: &str) -> anyhow::Result<f64> {
        let times: PeerTimes = self.process.ask(&json!({ "cmd": "time", "op": service, "reps": 1 }))?;
        times.first(Self::NAME, Clock::Wall)
    }
}

fn python(root: &Path) -> std::path::PathBuf {
    root.join(".venv/bin/python")
}

fn unspoken(root: &Path) -> std::path::PathBuf {
    std::path::absolute(root.join("target/release/unspoken")).unwrap_or_else(|_| root.join("target/release/unspoken"))
}
