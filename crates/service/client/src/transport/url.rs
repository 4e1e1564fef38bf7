//! Addresses of services.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
