//! The module for browsers in V8, the engine of Chromium: Node.js runs it (`web/bench/client.mjs`).

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{PeerProcess, failure};
use crate::error::NO_MODULE;

const SCRIPT: &str = "web/bench/client.mjs";

/// A step of a client that can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientStep {
    /// Makes all evaluation keys.
    Keys,
    /// Encodes and encrypts a question.
    Encryption,
    /// Decrypts the answer to the last question.
    Decryption,
}

/// A client in a process of its own.
pub(crate) struct V8 {
    process: PeerProcess,
}

impl V8 {
    pub(crate) const NAME: &str = "V8";

    /// Starts a process whose module has these kernels, and opens a client there.
    pub(crate) fn start(root: &Path, kernels: &str, opening: &Value) -> anyhow::Result<Self> {
        if !root.join("web/dist/wasm/unspoken_web_bg.wasm").exists() {
            anyhow::bail!(NO_MODULE);
        }
        let mut command = Command::new("node");
        command.arg(root.join(SCRIPT));
        let mut process = PeerProcess::start(Self::NAME, command)?;
        let _: Value = process.ask(&json!({ "cmd": "open", "kernels": kernels, "opening": opening }))?;
        Ok(V8 { process })
    }

    /// Seconds of a step.
    pub(crate) fn seconds(&mut self, step: ClientStep) -> anyhow::Result<f64> {
        #[derive(Deserialize)]
        struct Time {
            ms: f64,
        }
        let command = match step {
            ClientStep::Keys => "keys",
            ClientStep::Encryption => "encrypt",
            ClientStep::Decryption => "decrypt",
        };
        let time: Time = self.process.ask(&json!({ "cmd": command }))?;
        Ok(time.ms / 1000.0)
    }

    /// Asks the question, which `answer` answers, for the decryptions that follow; what the answer says.
    pub(crate) fn ask(&mut self, answer: impl FnOnce(&[u8]) -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Value> {
        let query: String = self.process.ask(&json!({ "cmd": "query" }))?;
        let query = hex::decode(query).map_err(|error| failure(Self::NAME, error.to_string()))?;
        self.process.ask(&json!({ "cmd": "answer", "answer": hex::encode(answer(&query)?) }))
    }
}
