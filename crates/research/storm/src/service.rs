//! A service in a process of its own, and the applications that it offers.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use unspoken_database::{Builder, Record};
use unspoken_fasttext::{Model, TrainOptions, fit};
use unspoken_pir_scheme::Preset;
use unspoken_server::make_token;

/// Name of the offered database.
pub const DATABASE: &str = "pir/storm";
/// Name of the offered classifier.
pub const CLASSIFIER: &str = "classify/storm";
/// Messages that the classifier is trained on and asked about.
pub const MESSAGES: [&str; 4] = ["lunch at noon", "win free cash", "see you at home", "claim your prize now"];

/// Records of the database.
pub const RECORDS: u64 = 2000;
/// Bytes of a record.
const RECORD_BYTES: usize = 256;
/// Time in which a service must be ready.
const START: Duration = Duration::from_secs(60);

/// The `unspoken` command that is tested.
#[derive(clap::Args, Clone, Debug)]
pub struct Binary {
    /// The `unspoken` command [default: the one beside this program]
    #[arg(long)]
    unspoken: Option<PathBuf>,
}

impl Binary {
    fn path(&self) -> anyhow::Result<PathBuf> {
        let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("unspoken"));
        let path = self.unspoken.clone().map_or_else(beside, Ok)?;
        let missing = || {
            format!(
                "no {}; build it (cargo build --release -p unspoken-cli), or name it with --unspoken",
                path.display()
            )
        };
        anyhow::ensure!(path.is_file(), missing());
        Ok(path)
    }
}

/// The record with an index.
pub fn record(index: u64) -> Vec<u8> {
    let text = format!("record {index} ");
    text.bytes().cycle().take(RECORD_BYTES).collect()
}

/// Files of a service: a database, a classifier, tokens of clients, keys.
pub struct Files {
    folder: tempfile::TempDir,
    /// The classifier, to compare answers with.
    pub model: Model,
    /// Secrets of the clients' tokens.
    pub tokens: Vec<String>,
}

impl Files {
    /// Makes the files, with a token for each of the clients.
    pub fn new(clients: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let records = (0..RECORDS).map(|i| Ok::<_, Infallible>(Record { key: None, value: record(i) }));
        Builder::new(Preset::N11).build(folder.path().join("database"), records, |_| (), &AtomicBool::new(false))?;
        let texts: Vec<String> = (0..40).map(|i| MESSAGES[i % 4].into()).collect();
        let labels: Vec<String> = (0..40).map(|i| if i % 2 == 0 { "ham" } else { "spam" }.into()).collect();
        let options = TrainOptions { seed: 1, columns: 32, ..TrainOptions::default() };
        let model = fit(&texts, &labels, &options, &mut |_| {}, &AtomicBool::new(false))?;
        model.save(folder.path().join("model"))?;
        let (mut lines, mut tokens) = (String::new(), Vec::new());
        for client in 0..clients {
            let token = make_token(&format!("client-{client}"))?;
            lines.push_str(&token.line);
            lines.push('\n');
            tokens.push(token.secret);
        }
        std::fs::write(folder.path().join("tokens"), lines)?;
        Ok(Files { folder, model, tokens })
    }

    /// The directory of all files. Clients keep their state below it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// How a service is started.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether the classifier is offered besides the database.
    pub classifier: bool,
    /// The service's memory limit in MiB.
    pub memory_mib: u64,
    /// Where it listens; port 0 for a free port.
    pub listen: SocketAddr,
}

/// A running service. It is killed when this value is dropped.
pub struct Service {
    process: Child,
    /// Its address.
    pub address: SocketAddr,
    log: PathBuf,
}

impl Service {
    /// Starts a service and waits until it is ready.
    pub fn start(binary: &Binary, files: &Files, settings: Settings) -> anyhow::Result<Self> {
        let (folder, log) = (files.folder(), files.folder().join("service.log"));
        let offer = |kind: &str, name: &str, directory: &str| {
            let mut offer = std::ffi::OsString::from(format!("{kind}:{name}="));
            offer.push(folder.join(directory));
            offer
        };
        let mut command = Command::new(binary.path()?);
        command.args(["serve", "--listen", &settings.listen.to_string()]);
        command.args(["--memory-mib", &settings.memory_mib.to_string(), "--log-filter", "warn"]);
        command.arg("--offer").arg(offer("pir", DATABASE, "database"));
        if settings.classifier {
            command.arg("--offer").arg(offer("classify", CLASSIFIER, "model"));
        }
        command.arg("--data-dir").arg(folder.join("keys")).arg("--tokens").arg(folder.join("tokens"));
        let log_file = File::options().append(true).create(true).open(&log)?;
        let mut process =
            command.stdout(Stdio::piped()).stderr(log_file).spawn().context("cannot start the service")?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let said: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let url = said.as_ref().and_then(|said| said["listening"].as_str()?.strip_prefix("http://")?.parse().ok());
        let Some(address) = url else {
            let _ = process.kill();
            process.wait()?;
            anyhow::bail!("the service did not start:\n{}", std::fs::read_to_string(&log)?);
        };
        let service = Service { process, address, log };
        let started = Instant::now();
        while !service.is_ready() {
            let what = || format!("the service is not ready after {START:?}:\n{}", service.log_end());
            anyhow::ensure!(started.elapsed() < START, what());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(service)
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether `/readyz` says so.
    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_ok_and(|head| head.starts_with("HTTP/1.1 200"))
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The response to a request without a body.
    fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: storm\r\nConnection: close\r\n\r\n")?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(String::from_utf8_lossy(&response).into_owned())
    }

    /// Memory of the process in MiB: now, and the most since it started. `None` where the system does not tell.
    pub fn memory_mib(&self) -> Option<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().split(' ').next()?.parse::<u64>().ok().map(|kib| kib >> 10)
        };
        Some((field("VmRSS:")?, field("VmHWM:")?))
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// The last lines of the log.
    pub fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address on this machine that is free now, for a service that is started again and again.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
