//! Addresses of services.

use reqwest::Url;

use super::{Error, TransportConfig};
use crate::transport::scheme::is_loopback;

/// The address of a service, which may be a path behind a proxy.
///
/// # Errors
/// [`Error::Config`] if it is none, or plain HTTP to another machine is not allowed.
pub(super) fn service_url(config: &TransportConfig) -> Result<Url, Error> {
    let url = Url::parse(&config.url).map_err(|error| Error::config(format!("URL {:?}: {error}", config.url)))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(Error::config(format!("URL {:?}: needed https://HOST:PORT, or http://HOST:PORT", config.url)));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::config(format!("URL {:?}: found '?' or '#'; needed https://HOST:PORT/PATH", config.url)));
    }
    if url.scheme() == "http" && !is_loopback(&url) && !config.insecure_http {
        let what = if config.token.is_some() { "the token and all else" } else { "everything" };
        return Err(Error::config(format!(
            "{what} would travel to {url} in the clear; use https, or allow it (insecure_http, --insecure-http)"
        )));
    }
    Ok(url)
}

/// The URL of a path of the service, which begins with a slash: below the service's own path, if it has one.
pub(super) fn endpoint(service: &Url, path: &str) -> Result<Url, Error> {
    let text = format!("{}{path}", service.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|error| Error::config(format!("URL {text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::scheme::with_scheme;

    #[test]
    fn an_address_without_a_scheme_gets_one() {
        for (given, complete) in [
            ("127.0.0.1:18081", "http://127.0.0.1:18081"),
            ("localhost:0", "http://localhost:0"),
            ("[::1]:80", "http://[::1]:80"),
            ("ask.example.org", "https://ask.example.org"),
            ("ask.example.org:8080/path", "https://ask.example.org:8080/path"),
            ("10.0.0.7:8080", "https://10.0.0.7:8080"),
            ("http://10.0.0.7:8080", "http://10.0.0.7:8080"),
            ("ftp://localhost", "ftp://localhost"),
            ("", ""),
        ] {
            assert_eq!(with_scheme(given.into()), complete);
        }
    }

    #[test]
    fn requests_go_below_the_path_of_an_address() {
        for (address, complete) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/apps?key=0"),
            ("http://127.0.0.1:1/", "http://127.0.0.1:1/v1/apps?key=0"),
            ("https://example.org/unspoken", "https://example.org/unspoken/v1/apps?key=0"),
            ("https://example.org/a/b/", "https://example.org/a/b/v1/apps?key=0"),
        ] {
            let url = service_url(&TransportConfig::new(address)).unwrap();
            assert_eq!(endpoint(&url, "/v1/apps?key=0").unwrap().as_str(), complete);
        }
        for address in ["https://example.org/?a=b", "https://example.org/a#b"] {
            let error = service_url(&TransportConfig::new(address)).unwrap_err().to_string();
            assert!(error.contains("'?' or '#'"), "{error}");
        }
    }
}
