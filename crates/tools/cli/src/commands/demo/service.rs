//! The service that a demonstration asks.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use unspoken_client::transport::{Transport, TransportConfig};

/// The service, a process of its own; it ends with this value.
pub struct Service {
    process: Child,
    /// Where it listens.
    pub url: String,
}

impl Service {
    /// Starts it with what it offers; its keys and its log go to the folder.
    pub fn start<'a>(offer: impl IntoIterator<Item = &'a OsStr>, folder: &Path) -> anyhow::Result<Self> {
        let log = std::fs::File::create(folder.join("service.log"))?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(offer)
            .arg("--data-dir")
            .arg(folder.join("service"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the service")?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let listening = serde_json::from_str::<serde_json::Value>(&line);
        let url = listening.ok().and_then(|said| said["listening"].as_str().map(str::to_owned));
        match url {
            Some(url) => Ok(Service { process, url }),
            None => {
                let _ = process.kill();
                let log = std::fs::read_to_string(folder.join("service.log"))?;
                anyhow::bail!("the service did not start:\n{log}")
            }
        }
    }

    /// A connection to it.
    pub fn transport(&self) -> anyhow::Result<Transport> {
        Ok(Transport::new(TransportConfig::new(&self.url))?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing of the demonstration is kept, so it need not drain.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
