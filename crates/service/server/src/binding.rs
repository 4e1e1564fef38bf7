//! Addresses that a server listens at, and why it cannot serve.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::auth::TokenError;
use crate::capacity::CapacityError;
use crate::config::ConfigError;
use crate::page::PageError;
use crate::tls::TlsError;

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token file is invalid.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The certificate or the key is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `limits.memory_bytes` is too small for one worker, or the limit of open files for one connection.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The directory of the page cannot be served.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The data directory cannot be used.
    #[error("open data directory {path}: {source}")]
    Store {
        /// The directory.
        path: String,
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
    Metrics(String),
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}
