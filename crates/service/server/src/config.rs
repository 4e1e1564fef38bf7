//! Configuration of a service. A [`ServerConfig`] is a plain struct: fill it from flags or a file. It is checked when
//! the service is bound.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unspoken_files::read_text;

use crate::error::ServerError;
use crate::listen;
use crate::offer::OfferConfig;
use crate::origin::AllowedOrigin;
use crate::page::Page;
use crate::timeouts::Timeouts;

/// Configuration of a service. As a file it is TOML or JSON with the field names below; durations are texts such as
/// `"30s"` or `"7d"`.
///
/// ```
/// let config = unspoken_server::ServerConfig::from_toml(
///     r#"
///     listen = "127.0.0.1:8443"
///     data_dir = "/var/lib/unspoken"
///     [limits]
///     key_disk_bytes = 68719476736
///     [timeouts]
///     key_lifetime = "30d"
///     "#,
/// )?;
/// assert_eq!(config.limits.key_disk_bytes, 64 << 30);
/// # Ok::<(), unspoken_server::ServerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on; in a file `HOST:PORT`, where the host may be a name. Port 0 selects a free port.
    #[serde(deserialize_with = "listen::deserialize")]
    pub listen: SocketAddr,
    /// Address at which `/metrics` is served, over plain HTTP and without a token; usually an address that only this
    /// machine reaches. Without it there are no metrics.
    #[serde(deserialize_with = "listen::deserialize_some")]
    pub metrics_listen: Option<SocketAddr>,
    /// Directory for keys and uploads. Made if missing; only one service may use it at a time.
    pub data_dir: PathBuf,
    /// Certificate and key; without them the service speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// File of lines `name:token-hash`. Without it, all clients are one client named `anonymous`.
    pub tokens: Option<PathBuf>,
    /// Serves without tokens on an address that other machines can reach.
    pub allow_anonymous: bool,
    /// Directory of static files that are served at `/`: a page for browsers. It needs an `index.html`.
    pub web: Option<PathBuf>,
    /// Origins of web pages that may use the service, besides its own page.
    pub allow_origins: Vec<AllowedOrigin>,
    /// Device that answers are computed on, such as `cuda:0`; `auto` for the first one, or the processor if there is
    /// none; `cpu`, as without it, for the processor. The server does not open it, as it does not load the offers.
    pub device: Option<String>,
    /// Computes on the processor after the device has failed, until the service starts again. Without it, answers fail
    /// and the service is not ready.
    pub device_fallback: bool,
    /// Answers computed at once; 0 means the number of cores. There are fewer if the memory is not enough for all.
    pub workers: usize,
    /// Limits on what clients may use.
    pub limits: ServiceLimits,
    /// Time limits.
    pub timeouts: Timeouts,
    /// The offers; in a file, `[[offer]]`. The server does not load them; see [`OfferConfig`].
    #[serde(rename = "offer")]
    pub offers: Vec<OfferConfig>,
}

/// Paths of certificate and key, both PEM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate chain, leaf first.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// Limits on the resources that clients may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceLimits {
    /// Bytes of memory of the process: models, loaded keys, queries, answers, work in progress, and connections.
    pub memory_bytes: u64,
    /// Bytes of memory of the device. 0 means all that is free. Where the memory does not suffice, the least recently
    /// used copies give way: copies of keys of idle clients, of models and of databases.
    pub device_memory_bytes: u64,
    /// Bytes of disk for key bundles; an upload counts the bytes that have arrived. 0 means half of the disk space that
    /// is free, or used for key bundles, when the service starts. When room is needed, bundles of clients without a
    /// token are deleted.
    pub key_disk_bytes: u64,
    /// Bytes of disk for the key bundles of one token. 0 means a quarter of `key_disk_bytes`.
    pub key_bytes_per_token: u64,
    /// Key bundles of all clients, of any length. Memory for their entries is reserved: 1.25 KiB for each.
    pub bundles: usize,
    /// Key bundles of one token. 0 means a quarter of `bundles`.
    pub bundles_per_token: usize,
    /// Key bundles of clients without a token that come from one address (of IPv6: from one /64 network). When there
    /// are more, the least recently used of this address is deleted. 0 means a sixteenth of `bundles`. Where all
    /// clients come through one proxy, it should equal `bundles`.
    pub bundles_per_address: usize,
    /// Requests of all clients waiting for a worker.
    pub queue: usize,
    /// Requests of one client waiting for a worker.
    pub queue_per_client: usize,
    /// Queries of one client at once: arriving, waiting, or being answered.
    pub queries_per_client: usize,
    /// Open connections; more wait to be accepted. There are fewer if the process may open too few files.
    pub connections: usize,
    /// Open connections from one address (of IPv6: from one /64 network); more are closed. 0 means a quarter of
    /// `connections`. Where all clients come through one proxy, it should equal `connections`.
    pub connections_per_address: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            metrics_listen: None,
            data_dir: PathBuf::from("unspoken-data"),
            tls: None,
            tokens: None,
            allow_anonymous: false,
            web: None,
            allow_origins: Vec::new(),
            device: None,
            device_fallback: false,
            workers: 0,
            limits: ServiceLimits::default(),
            timeouts: Timeouts::default(),
            offers: Vec::new(),
        }
    }
}

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 4 << 30,
            device_memory_bytes: 0,
            key_disk_bytes: 0,
            key_bytes_per_token: 0,
            bundles: 16_384,
            bundles_per_token: 0,
            bundles_per_address: 0,
            queue: 256,
            queue_per_client: 16,
            queries_per_client: 32,
            connections: 1024,
            connections_per_address: 0,
        }
    }
}

impl ServerConfig {
    /// Reads TOML.
    ///
    /// # Errors
    /// [`ServerError::Syntax`] with the line of the error.
    pub fn from_toml(text: &str) -> Result<Self, ServerError> {
        toml::from_str(text).map_err(|error| ServerError::Syntax(error.into()))
    }

    /// Reads JSON.
    ///
    /// # Errors
    /// [`ServerError::Syntax`] with the line of the error.
    pub fn from_json(text: &str) -> Result<Self, ServerError> {
        serde_json::from_str(text).map_err(|error| ServerError::Syntax(error.into()))
    }

    /// Reads a file: JSON if it is named `.json`, TOML otherwise.
    ///
    /// # Errors
    /// [`ServerError::Read`] if it cannot be read, or the error of its format.
    pub fn from_file(path: &Path) -> Result<Self, ServerError> {
        let text = read_text(path).map_err(ServerError::read("configuration", path))?;
        match path.extension() {
            Some(extension) if extension == "json" => Self::from_json(&text),
            _ => Self::from_toml(&text),
        }
    }

    /// Checks what the types do not. [`Server::bind`](crate::Server::bind) does this too.
    ///
    /// # Errors
    /// [`ServerError::Field`], [`ServerError::OpenToAll`] or [`ServerError::NoPage`].
    pub fn check(&self) -> Result<(), ServerError> {
        let counts = [
            ("limits.memory_bytes", self.limits.memory_bytes),
            ("limits.bundles", self.limits.bundles as u64),
            ("limits.queue", self.limits.queue as u64),
            ("limits.queue_per_client", self.limits.queue_per_client as u64),
            ("limits.queries_per_client", self.limits.queries_per_client as u64),
            ("limits.connections", self.limits.connections as u64),
        ];
        for (field, value) in counts {
            if value == 0 {
                return Err(ServerError::Field { field, found: "0".into(), needed: "at least 1" });
            }
        }
        let durations = [
            ("timeouts.head", self.timeouts.head),
            ("timeouts.authorization", self.timeouts.authorization),
            ("timeouts.page", self.timeouts.page),
            ("timeouts.stall", self.timeouts.stall),
            ("timeouts.query_body", self.timeouts.query_body),
            ("timeouts.answer", self.timeouts.answer),
            ("timeouts.upload_lifetime", self.timeouts.upload_lifetime),
            ("timeouts.key_lifetime", self.timeouts.key_lifetime),
            ("timeouts.sweep", self.timeouts.sweep),
        ];
        for (field, value) in durations {
            if value < Duration::from_millis(1) || value > Duration::from_secs(100 * 365 * 86400) {
                let needed = "1 ms to 100 years";
                return Err(ServerError::Field { field, found: format!("{value:?}"), needed });
            }
        }
        if self.workers > 1024 {
            let (field, found) = ("workers", self.workers.to_string());
            return Err(ServerError::Field { field, found, needed: "at most 1024" });
        }
        if self.tokens.is_none() && !self.listen.ip().is_loopback() && !self.allow_anonymous {
            return Err(ServerError::OpenToAll { listen: self.listen });
        }
        if let Some(path) = self.web.as_ref().filter(|path| !Page::is_in(path)) {
            return Err(ServerError::NoPage { path: path.clone() });
        }
        Ok(())
    }

    /// Maximum number of open connections from one address, of `connections` in all.
    pub(crate) fn connections_per_address(&self, connections: usize) -> usize {
        match self.limits.connections_per_address {
            0 => connections.div_ceil(4),
            count => count,
        }
    }

    /// Maximum number of key bundles of one token.
    pub(crate) fn bundles_per_token(&self) -> usize {
        match self.limits.bundles_per_token {
            0 => self.limits.bundles.div_ceil(4),
            count => count,
        }
    }

    /// Maximum number of key bundles of clients without a token that come from one address.
    pub(crate) fn bundles_per_address(&self) -> usize {
        match self.limits.bundles_per_address {
            0 => self.limits.bundles.div_ceil(16),
            count => count,
        }
    }

    /// Number of answers computed at once.
    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }
}
