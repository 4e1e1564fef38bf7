//! Addresses to listen on.

use std::net::{SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Deserializer};
use tokio::net::TcpListener;

use crate::error::ServerError;

/// Reads `HOST:PORT`; the host is an address or a name. If a name has several addresses, the first IPv4 address is
/// used, or else the first one.
///
/// # Errors
/// [`ServerError::ListenAddress`] if the text has no port, or the name no address.
pub fn resolve_listen_address(text: &str) -> Result<SocketAddr, ServerError> {
    let failed = |reason: String| ServerError::ListenAddress { text: text.into(), reason };
    let addresses: Vec<_> = text.to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    let chosen = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    chosen.copied().ok_or_else(|| failed("the name has no address".into()))
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Listen { address, source })
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    resolve_listen_address(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(crate) fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    #[test]
    fn names_and_addresses_are_read_and_mistakes_explained() {
        for (text, found) in [("127.0.0.1:80", "127.0.0.1:80"), ("localhost:0", "127.0.0.1:0"), ("[::1]:9", "[::1]:9")]
        {
            assert_eq!(resolve_listen_address(text).unwrap().to_string(), found);
        }
        for text in ["8080", "localhost", "localhost:many", "no-such-host.invalid:80", ""] {
            let said = resolve_listen_address(text).unwrap_err().to_string();
            assert!(said.contains(&format!("{text:?}")) && said.contains("HOST:PORT"), "{said}");
        }
        let config = ServerConfig::from_toml("listen = 'localhost:1'\nmetrics_listen = 'localhost:2'").unwrap();
        assert_eq!((config.listen.port(), config.metrics_listen.unwrap().port()), (1, 2));
        let said = ServerConfig::from_toml("listen = 'localhost'").unwrap_err().to_string();
        assert!(said.contains("HOST:PORT"), "{said}");
    }
}
