//! Test support: a service in this process, an application that XORs, and raw requests.

use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use unspoken_client::transport::{Cancel, Error, KeyId, RetryPolicy, Transport, TransportConfig};
use unspoken_protocol::{Call, ErrorKind, KeyLimits, KeyLoader, KeySetId, Limits, PlainError, Request, ServerHalf};
use unspoken_server::{Applications, Disk, LocalDisk, Server, ServerConfig, make_token};

pub const APP: &str = "test/xor";
pub const FORMAT: u32 = 7;

/// Bytes that count for each bundle that a service may have.
pub const ENTRY_BYTES: u64 = 1280;

/// Counters of what the application did.
#[derive(Default)]
pub struct Seen {
    pub loads: AtomicUsize,
    pub answers: AtomicUsize,
    pub running: AtomicUsize,
    pub most_running: AtomicUsize,
    pub cancelled: AtomicUsize,
    /// Calls to give back idle memory.
    pub released: AtomicUsize,
}

/// Answers a query with its bytes XORed with the first bytes of the keys.
///
/// A bundle is `b"XORK"`, the bytes of memory that it claims (u64), the payload length (u64), and the payload. A query
/// is the milliseconds that the answer takes (u32), then the bytes. The milliseconds are the steps that it reports. The
/// bytes `panic`, `long`, `busy`, `misfit` and `internal` cause the error that they name, after this time. It sleeps, so
/// it takes no thread of the pool.
pub struct Xor {
    pub prepared_bytes: u64,
    pub working_bytes: u64,
    pub max_key_bytes: u64,
    pub seen: Arc<Seen>,
}

impl Xor {
    pub fn new() -> Self {
        Self { prepared_bytes: 0, working_bytes: 1000, max_key_bytes: 64 << 20, seen: Arc::default() }
    }
}

fn malformed(text: &str) -> PlainError {
    PlainError::new(ErrorKind::Malformed, text)
}

fn header_fields(header: &[u8]) -> Result<(u64, u64), PlainError> {
    let header: [u8; 20] = header.try_into().map_err(|_| malformed("the header is cut off"))?;
    if &header[..4] != b"XORK" {
        return Err(malformed("not a bundle of XOR keys"));
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
    Ok((number(4), number(12)))
}

impl KeyLoader for Xor {
    type Keys = Vec<u8>;
    type KeyError = PlainError;

    fn key_set(&self) -> KeySetId {
        KeySetId::new(APP, &[0; 16])
    }

    fn key_limits(&self) -> KeyLimits {
        let bytes = self.max_key_bytes;
        KeyLimits { format: FORMAT, front_bytes: 20, max_bytes: bytes, memory_bytes: bytes }
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PlainError> {
        Ok(header_fields(front)?.0)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<Vec<u8>, PlainError> {
        self.seen.loads.fetch_add(1, Ordering::SeqCst);
        let mut header = Vec::new();
        bundle.take(20).read_to_end(&mut header)?;
        let (_, length) = header_fields(&header)?;
        let mut mask = Vec::new();
        bundle.take(32).read_to_end(&mut mask)?;
        let rest = std::io::copy(bundle, &mut std::io::sink())?;
        if mask.len() as u64 + rest != length {
            return Err(malformed("the payload is cut off"));
        }
        Ok(mask)
    }

    fn check_keys(&self, _: &Vec<u8>) -> Result<(), PlainError> {
        Ok(())
    }
}

impl ServerHalf for Xor {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        b"xor".to_vec()
    }

    fn limits(&self) -> Limits {
        let working_bytes = self.working_bytes;
        Limits { query_bytes: 1 << 20, answer_bytes: 1 << 20, working_bytes, most_together: 1, waits_for_others: true }
    }

    fn prepared_bytes(&self) -> u64 {
        self.prepared_bytes
    }

    fn release_idle_memory(&self) {
        self.seen.released.fetch_add(1, Ordering::SeqCst);
    }

    fn answer(&self, request: &Request<'_, Vec<u8>>, call: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        let seen = &self.seen;
        let (millis, bytes) =
            request.query.split_first_chunk::<4>().ok_or_else(|| malformed("the query has no first word"))?;
        let millis = u32::from_le_bytes(*millis);
        let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_running.fetch_max(running, Ordering::SeqCst);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(millis.into()) && !call.is_cancelled() {
            call.report(start.elapsed().as_millis() as u32, millis);
            std::thread::sleep(Duration::from_millis(2));
        }
        seen.running.fetch_sub(1, Ordering::SeqCst);
        if call.is_cancelled() {
            seen.cancelled.fetch_add(1, Ordering::SeqCst);
            return Err(PlainError::new(ErrorKind::Cancelled, "cancelled"));
        }
        match bytes {
            b"panic" => panic!("as the query asks"),
            b"long" => return Ok(vec![0; (1 << 20) + 1]),
            b"busy" => return Err(PlainError::new(ErrorKind::Busy, "a session in use")),
            b"misfit" => return Err(PlainError::new(ErrorKind::Mismatch, "another model")),
            b"internal" => return Err(PlainError::new(ErrorKind::Internal, "secret reason")),
            _ => {}
        }
        seen.answers.fetch_add(1, Ordering::SeqCst);
        Ok(bytes.iter().zip(request.keys.iter().cycle()).map(|(a, b)| a ^ b).collect())
    }
}

/// Makes any bytes a bundle of an application: loaded keys take five bytes.
macro_rules! takes_any_keys {
    ($half:ty) => {
        impl unspoken_protocol::KeyLoader for $half {
            type Keys = ();
            type KeyError = unspoken_protocol::PlainError;

            fn key_set(&self) -> unspoken_protocol::KeySetId {
                unspoken_protocol::KeySetId::new(stringify!($half), &[0; 16])
            }

            fn key_limits(&self) -> unspoken_protocol::KeyLimits {
                unspoken_protocol::KeyLimits { format: 1, front_bytes: 0, max_bytes: 100, memory_bytes: 100 }
            }

            fn loaded_key_bytes(&self, _: &[u8]) -> Result<u64, unspoken_protocol::PlainError> {
                Ok(5)
            }

            fn load_keys(&self, bundle: &mut dyn std::io::Read) -> Result<(), unspoken_protocol::PlainError> {
                std::io::copy(bundle, &mut std::io::sink())?;
                Ok(())
            }

            fn check_keys(&self, (): &()) -> Result<(), unspoken_protocol::PlainError> {
                Ok(())
            }
        }
    };
}
pub(crate) use takes_any_keys;

/// A bundle of `length` bytes (at least 60) that claims `memory` bytes.
pub fn bundle(seed: u8, length: usize, memory: u64) -> Vec<u8> {
    let mut bytes = b"XORK".to_vec();
    bytes.extend(memory.to_le_bytes());
    bytes.extend((length as u64 - 20).to_le_bytes());
    let mut state = u64::from(seed) + 1;
    while bytes.len() < length {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.push((state >> 56) as u8);
    }
    bytes
}

pub fn query(millis: u32, bytes: &[u8]) -> Vec<u8> {
    [&millis.to_le_bytes(), bytes].concat()
}

/// The answer that the client of `bundle` should get.
pub fn expected(bundle: &[u8], bytes: &[u8]) -> Vec<u8> {
    bytes.iter().zip(bundle[20..52].iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// A running service; stopped when dropped.
pub struct TestService {
    pub address: SocketAddr,
    pub metrics_address: SocketAddr,
    pub seen: Arc<Seen>,
    pub dir: Arc<TempDir>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub struct Setup {
    pub config: ServerConfig,
    pub app: Xor,
    pub disk: Arc<dyn Disk>,
    pub dir: Arc<TempDir>,
}

impl Setup {
    pub fn new() -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// A setup with the data directory of another service.
    pub fn at(dir: Arc<TempDir>) -> Self {
        let mut config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            metrics_listen: Some("127.0.0.1:0".parse().unwrap()),
            data_dir: dir.path().join("data"),
            workers: 2,
            ..ServerConfig::default()
        };
        config.timeouts.drain = Duration::from_secs(5);
        Self { config, app: Xor::new(), disk: Arc::new(LocalDisk), dir }
    }

    /// Sets a small limit of memory: `bytes` for bodies, keys and answers, a megabyte for 32 connections, and the
    /// entries of 64 bundles.
    pub fn small_memory(&mut self, bytes: u64) {
        self.config.limits.memory_bytes = bytes + (1 << 20) + 64 * ENTRY_BYTES;
        self.config.limits.bundles = 64;
        self.config.limits.connections = 32;
        self.config.limits.connections_per_address = 32;
        self.app.max_key_bytes = 6_000_000;
    }

    /// Makes tokens for these clients and returns their secrets.
    pub fn tokens<const N: usize>(&mut self, names: [&str; N]) -> [String; N] {
        let tokens = names.map(|name| make_token(name).unwrap());
        let path = self.dir.path().join("tokens");
        let lines: Vec<_> = tokens.iter().map(|token| token.line.as_str()).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        self.config.tokens = Some(path);
        tokens.map(|token| token.secret)
    }

    pub fn start(self) -> TestService {
        self.start_beside(Applications::new())
    }

    /// Starts the service with these applications as well.
    pub fn start_beside(self, others: Applications) -> TestService {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let (seen, dir) = (self.app.seen.clone(), self.dir);
        let apps = others.with(APP, self.app).unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::bind_with_disk(self.config, apps, self.disk).await.unwrap();
                let metrics_address = server.metrics_addr().unwrap().unwrap();
                bound.send((server.local_addr().unwrap(), metrics_address)).unwrap();
                server.run(async { drop(stopped.await) }).await;
            });
        });
        let (address, metrics_address) = address.recv().expect("the service did not start");
        TestService { address, metrics_address, seen, dir, stop: Some(stop), thread: Some(thread) }
    }
}

impl TestService {
    pub fn client(&self, token: Option<&str>) -> Transport {
        transport(self.address, token)
    }

    /// Begins the shutdown and does not wait for it.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Shuts down, waits, and returns the data directory.
    pub fn stop(mut self) -> Arc<TempDir> {
        self.finish();
        self.dir.clone()
    }

    fn finish(&mut self) {
        self.begin_stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the service panicked");
        }
    }

    pub fn get(&self, path: &str) -> RawResponse {
        raw(self.address, format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// The value of one metric.
    pub fn metric(&self, line: &str) -> f64 {
        metric(self.metrics_address, line)
    }

    /// All metrics.
    pub fn metrics(&self) -> String {
        metrics(self.metrics_address)
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The value of one metric of the service that serves metrics at `address`.
pub fn metric(address: SocketAddr, line: &str) -> f64 {
    let text = metrics(address);
    text.lines()
        .find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
        .unwrap_or_else(|| panic!("no metric {line:?} in\n{text}"))
}

fn metrics(address: SocketAddr) -> String {
    raw(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").body
}

pub fn transport(address: SocketAddr, token: Option<&str>) -> Transport {
    let mut config = TransportConfig::new(format!("http://{address}"));
    config.token = token.map(str::to_owned);
    config.retry = RetryPolicy {
        patience: Duration::from_secs(60),
        connect_patience: Duration::from_secs(60),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(500),
    };
    config.chunk_bytes = 256 << 10;
    Transport::new(config).unwrap()
}

/// A client that does not retry.
pub fn impatient(address: SocketAddr) -> Transport {
    impatient_with(address, None)
}

/// A client with a token that does not retry.
pub fn impatient_with(address: SocketAddr, token: Option<&str>) -> Transport {
    let mut config = TransportConfig::new(format!("http://{address}"));
    config.token = token.map(str::to_owned);
    config.retry.patience = Duration::ZERO;
    Transport::new(config).unwrap()
}

pub fn upload(transport: &Transport, bundle: &[u8]) -> Result<KeyId, Error> {
    transport.upload_keys(APP, FORMAT, &mut Cursor::new(bundle), |_| {}, &Cancel::new())
}

pub fn ask(transport: &Transport, key: &KeyId, query: Vec<u8>) -> Result<Vec<u8>, Error> {
    transport.ask(APP, key, query, &Cancel::new()).map(Vec::from)
}

pub struct RawResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl RawResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

/// Sends bytes unchanged and reads until the service closes the connection.
pub fn raw(address: SocketAddr, request: impl AsRef<[u8]>) -> RawResponse {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // A refusal may come before everything is sent.
    let _ = stream.write_all(request.as_ref());
    read_response(&mut stream)
}

pub fn read_response(stream: &mut TcpStream) -> RawResponse {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    RawResponse { status, head: head.to_owned(), body: body.to_owned() }
}

/// Ids of the bundles in a data directory, of `kind` "keys" or "uploads".
pub fn stored_ids(dir: &Path, kind: &str) -> Vec<KeyId> {
    let names = std::fs::read_dir(dir.join(kind)).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| KeyId::parse(name.to_str().unwrap()).unwrap()).collect()
}

/// Waits until a condition holds, at most ten seconds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
