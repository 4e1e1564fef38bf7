//! The command and a service as child processes.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// Runs the command. A service that is to fail gets a free port, so that it does not fail because of another one.
pub fn unspoken(arguments: &[&str]) -> Output {
    let is_service = arguments.first() == Some(&"serve") && !arguments.contains(&"--listen");
    let listen: &[&str] = if is_service { &["--listen", "127.0.0.1:0"] } else { &[] };
    Command::new(env!("CARGO_BIN_EXE_unspoken")).args(arguments).args(listen).output().unwrap()
}

/// Standard output of a command that succeeded.
pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a command that failed.
pub fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn npy(shape: &str, values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    bytes.extend(format!("{head:69}\n").into_bytes());
    bytes.extend(values.into_iter().flat_map(f32::to_le_bytes));
    bytes
}

/// A service that ends when this value is dropped.
pub struct Service {
    process: Child,
    pub url: String,
    /// Address of the metrics, if they are served.
    pub metrics: Option<String>,
}

impl Service {
    /// Starts a service with these arguments, on a free port unless they name an address. Its log goes to `log`.
    pub fn start(arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let free = ["--listen", "127.0.0.1:0"];
        let listen = if arguments.contains(&free[0]) { &[][..] } else { &free[..] };
        let mut process = Command::new(env!("CARGO_BIN_EXE_unspoken"))
            .arg("serve")
            .args(listen)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = |name: &str| said[name].as_str().map(str::to_owned);
        Service { process, url: address("listening").unwrap(), metrics: address("metrics") }
    }
}

impl Service {
    /// Sends a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Status and text of the check of readiness.
    pub fn ready(&self) -> (u16, String) {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// A number of kilobytes of `/proc/PID/status` of the service, in MiB.
    pub fn memory_mib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        value.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
