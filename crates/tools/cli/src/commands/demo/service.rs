//! The service of the demonstration.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use unspoken_client::transport::{Transport, TransportConfig};

/// The service, in its own process, which ends when this value is dropped.
pub struct Service {
    process: Child,
    /// Address of the service.
    pub url: String,
}

impl Service {
    /// Starts the service with these arguments. The service writes keys and log to the folder.
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

    /// Opens a connection to the service.
    pub fn transport(&self) -> anyhow::Result<Transport> {
        Ok(Transport::new(TransportConfig::new(&self.url))?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The demonstration keeps nothing, so the service need not finish its requests.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
