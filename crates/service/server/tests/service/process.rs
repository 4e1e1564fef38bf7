//! The service as a process of its own, which can be killed, signalled, and measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use unspoken_server::{Applications, Server, ServerConfig, shutdown_signal};

use crate::peak::{Buffers, NAME};
use crate::support::*;

/// The configuration of the service process, as TOML.
const CONFIG: &str = "UNSPOKEN_TEST_SERVICE_CONFIG";

/// The limits of open files of the service process: the soft one and the hard one.
const OPEN_FILES: &str = "UNSPOKEN_TEST_SERVICE_OPEN_FILES";

/// Not a test: the service process. Does nothing unless the environment variable is set.
#[test]
#[ignore = "started by other tests"]
fn service_process() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    if let Ok(limits) = std::env::var(OPEN_FILES) {
        let mut limits = limits.split(',').map(|limit| Some(limit.parse().unwrap()));
        let limits = Rlimit { current: limits.next().unwrap(), maximum: limits.next().unwrap() };
        setrlimit(Resource::Nofile, limits).unwrap();
    }
    let config = ServerConfig::from_toml(&config).unwrap();
    let apps = Applications::new().with(APP, Xor::new()).unwrap().with(NAME, Buffers).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind(config, apps).await.unwrap();
        let metrics = server.metrics_addr().unwrap().unwrap();
        println!("\nlistening on {} {metrics}", server.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        server.run(shutdown_signal()).await;
        println!("stopped in good order");
    });
}

pub struct Process {
    child: Child,
    pub address: SocketAddr,
    pub metrics_address: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a service that keeps its keys in `dir`.
    pub fn start(dir: &Path) -> Self {
        Self::start_with(&Setup::new().config, dir, None)
    }

    /// Starts a service with this configuration, and with a soft and a hard limit of open files.
    pub fn start_with(config: &ServerConfig, dir: &Path, open_files: Option<(u64, u64)>) -> Self {
        let config = ServerConfig { data_dir: dir.to_owned(), ..config.clone() };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "process::service_process", "--ignored", "--nocapture"])
            .env(CONFIG, toml::to_string(&config).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some((soft, hard)) = open_files {
            command.env(OPEN_FILES, format!("{soft},{hard}"));
        }
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let (address, metrics_address) = loop {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the process did not start");
            if let Some(addresses) = line.trim().strip_prefix("listening on ") {
                let (address, metrics) = addresses.split_once(' ').unwrap();
                break (address.parse().unwrap(), metrics.parse().unwrap());
            }
        };
        Self { child, address, metrics_address, output }
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the process has ended. Returns the status, and the output since the process started to listen.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        (self.child.wait().unwrap(), output)
    }

    /// A number of kilobytes of `/proc/PID/status`, in bytes.
    pub fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        value.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
