//! The scheme of an address without one.

use reqwest::Url;

use crate::transport::url::is_loopback;

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
