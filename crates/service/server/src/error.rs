//! Errors of starting a service, and of what it is started with.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a service does not start, or what it is to be started with cannot be used. Clients never see it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The text of a configuration is not TOML or JSON of its form.
    #[error("read configuration: {0}")]
    Syntax(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file or a directory cannot be read.
    #[error("read {what} {path}: {source}", path = path.display())]
    Read {
        /// What is in it, such as "tokens".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A field of the configuration is out of range.
    #[error("check configuration: {field} is {found}; needed {needed}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: &'static str,
    },
    /// Everyone on the network could use the service.
    #[error(
        "check configuration: listen is {listen} and there are no tokens, so everyone who \
         reaches the address is served; set tokens, listen on 127.0.0.1, or set allow_anonymous"
    )]
    OpenToAll {
        /// The address.
        listen: SocketAddr,
    },
    /// A text does not name an address to listen on.
    #[error(
        "listen on {text:?}: {reason}; needed HOST:PORT, such as 127.0.0.1:8080, localhost:0 (any free port) or \
         [::1]:8080"
    )]
    ListenAddress {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A text is not the origin of a page.
    #[error(
        "allow origin {found:?}: {reason}; needed scheme, host and, if it is not the usual one, port of a page, such \
         as https://ask.example or http://localhost:3000"
    )]
    Origin {
        /// The text, shortened.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A text is not an offer.
    #[error("read offer {text:?}: {reason}; needed KIND[:NAME]=PATH[,OPTION=VALUE]...")]
    Offer {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name of an application is not valid in a URL.
    #[error(
        "add application: name {0:?} is not valid in a URL; needed lower-case segments joined by \
         '/', such as classify/spam"
    )]
    ApplicationName(String),
    /// A client name has characters that are not allowed.
    #[error("name client: found {found:?}, needed 1 to 64 letters, digits, '.', '_', '-' or '@'")]
    ClientName {
        /// The name, shortened.
        found: String,
    },
    /// A token is for the name that stands for all clients of a service without tokens.
    #[error(
        "name client: found \"anonymous\", which names the clients of a service without tokens; choose another name"
    )]
    ReservedClientName,
    /// The operating system has no randomness.
    #[error("make token: the operating system gave no randomness: {0}")]
    Random(String),
    /// A line of the token file is not `name:hash`.
    #[error(
        "read tokens: line {line} is not name:hash with the 64 hexadecimal digits of a SHA-256 \
         hash; make lines with `unspoken keys token`"
    )]
    TokenLine {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The token file has no token, which would lock out every client.
    #[error("read tokens: the file has no token; add one with `unspoken keys token`")]
    NoTokens,
    /// A file is not the certificate or the key that it should be.
    #[error("read {what} {path}: {reason}; needed PEM or DER", path = path.display())]
    Certificate {
        /// Certificate or key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not match, or cannot be used.
    #[error("use certificate and key: {0}")]
    Tls(#[from] rustls::Error),
    /// The directory for the page has no page.
    #[error(
        "check configuration: the directory {path} for the page has no file index.html; make one with `make web`, or \
         leave out --web (web in the file)", path = path.display()
    )]
    NoPage {
        /// The directory.
        path: PathBuf,
    },
    /// A file of the page has a name that would need escapes in a URL.
    #[error(
        "read the page: the name of {path:?} has characters other than letters, digits, '.', '_' and '-'; rename or \
         remove it"
    )]
    PageName {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file of the page would be in the place of a path of the service.
    #[error("read the page: {path:?} would have the URL of a part of the service; rename or remove it")]
    PagePath {
        /// The file or directory.
        path: PathBuf,
    },
    /// The directory has more than a page needs.
    #[error(
        "read the page: the directory has more than {files} files or {bytes} bytes; give --web the directory \
         that `make web` makes, and nothing above it"
    )]
    PageTooLarge {
        /// The most files.
        files: usize,
        /// The most bytes.
        bytes: u64,
    },
    /// One worker with the largest request needs more than `limits.memory_bytes`.
    #[error(
        "start application {name}: one worker takes {worker} bytes of memory (answer {answer}, computation {working}, \
         keys {keys}), requests {bodies}, {connections} connections {connection_bytes}, {bundles} key bundles \
         {bundle_bytes}, the page {page} and the models of all applications {prepared}; limits.memory_bytes is \
         {limit}, needed at least {needed}: raise it (--memory-mib {mib}), lower limits.connections or limits.bundles, \
         or offer less",
        worker = answer.saturating_add(*working).saturating_add(*keys),
        mib = needed.div_ceil(1 << 20)
    )]
    Memory {
        /// The application.
        name: String,
        /// Bytes of the largest answer.
        answer: u64,
        /// Bytes needed to compute one answer.
        working: u64,
        /// Bytes of the largest loaded keys.
        keys: u64,
        /// Bytes of the largest request.
        bodies: u64,
        /// Number of connections.
        connections: usize,
        /// Bytes that connections take.
        connection_bytes: u64,
        /// Number of key bundles.
        bundles: usize,
        /// Bytes that their entries take.
        bundle_bytes: u64,
        /// Bytes of the page's files.
        page: u64,
        /// Bytes of the prepared models of all applications.
        prepared: u64,
        /// The sum of these.
        needed: u64,
        /// Bytes available: `limits.memory_bytes`.
        limit: u64,
    },
    /// The process may not open enough files for one connection.
    #[error(
        "start the service: the process may not open more files; raise the hard limit of open files (ulimit -Hn, or \
         LimitNOFILE= of systemd) to 1024 or more"
    )]
    Descriptors,
    /// The data directory cannot be used.
    #[error("open data directory {path}: {source}", path = path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("listen on {address}: {source}; choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: io::Error,
    },
    /// The metrics cannot be set up.
    #[error("set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The log cannot be started.
    #[error("start log: {0}")]
    Log(Box<dyn std::error::Error + Send + Sync>),
}

impl ServerError {
    /// The error of reading a file or a directory, for `map_err`.
    pub(crate) fn read<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |error| Self::Read { what, path: path.to_owned(), source: error.into() }
    }
}
