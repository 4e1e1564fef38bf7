//! Origins of web pages that may use the service.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::ServerError;

/// The origin of a web page: scheme, host, and port if it is not the scheme's default, exactly as browsers send it.
///
/// ```
/// use unspoken_server::AllowedOrigin;
/// assert!("https://ask.example".parse::<AllowedOrigin>().is_ok());
/// assert!("http://localhost:3000".parse::<AllowedOrigin>().is_ok());
/// assert!("*".parse::<AllowedOrigin>().is_err());
/// assert!("https://ask.example/page".parse::<AllowedOrigin>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedOrigin(String);

impl FromStr for AllowedOrigin {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let wrong = |reason: String| ServerError::Origin { found: text.chars().take(80).collect(), reason };
        if text.contains('*') {
            return Err(wrong("there are no wildcards; name each origin".into()));
        }
        if text == "null" {
            return Err(wrong("null is sent by every page that has no origin, also by hostile ones".into()));
        }
        let url = Url::parse(text).map_err(|error| wrong(format!("it cannot be read ({error})")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("its scheme is not http or https".into()));
        }
        let origin = url.origin().ascii_serialization();
        match origin == text {
            true => Ok(Self(origin)),
            false => Err(wrong(format!("browsers send {origin:?} for it, without path, user or anything else"))),
        }
    }
}

impl AllowedOrigin {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AllowedOrigin {
    type Error = ServerError;

    fn try_from(text: String) -> Result<Self, ServerError> {
        text.parse()
    }
}

impl From<AllowedOrigin> for String {
    fn from(origin: AllowedOrigin) -> Self {
        origin.0
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_origins_are_read() {
        for good in
            ["https://ask.example", "http://127.0.0.1:3000", "https://[2001:db8::1]:8443", "http://xn--e1a.example"]
        {
            assert_eq!(good.parse::<AllowedOrigin>().unwrap().as_str(), good);
        }
        for (bad, says) in [
            ("*", "name each origin"),
            ("null", "hostile"),
            ("https://*.example", "name each origin"),
            ("ask.example", "cannot be read"),
            ("https://ask.example/", "browsers send \"https://ask.example\""),
            ("https://ask.example/page", "browsers send \"https://ask.example\""),
            ("https://ask.example:443", "browsers send \"https://ask.example\""),
            ("https://Ask.example", "browsers send \"https://ask.example\""),
            ("https://ann@ask.example", "browsers send \"https://ask.example\""),
            ("https://ask.example?x", "browsers send \"https://ask.example\""),
            (" https://ask.example", "browsers send \"https://ask.example\""),
            ("https://é.example", "browsers send \"https://xn--9ca.example\""),
            ("file:///page", "its scheme"),
            ("chrome-extension://abc", "its scheme"),
            ("data:text/html,x", "its scheme"),
            ("", "cannot be read"),
        ] {
            let said = bad.parse::<AllowedOrigin>().unwrap_err().to_string();
            assert!(said.contains(says) && said.contains("needed scheme, host"), "{bad}: {said}");
        }
    }
}
