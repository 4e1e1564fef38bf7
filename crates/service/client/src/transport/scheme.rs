//! The scheme of an address without one.

use std::net::IpAddr;

use reqwest::Url;

/// The address with a scheme: one without gets `http://` on this machine and `https://` otherwise.
pub(super) fn with_scheme(url: String) -> String {
    if url.is_empty() || url.contains("://") {
        return url;
    }
    let http = format!("http://{url}");
    match Url::parse(&http) {
        Ok(parsed) if is_loopback(&parsed) => http,
        _ => format!("https://{url}"),
    }
}

/// Whether the host is this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("");
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
