//! The offers of a service, as flags and configuration files express them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ServerError;

/// One application to offer: its kind, its name, the path of its files, and options.
///
/// The server does not know kinds and options. The program that starts it loads the application of each offer and
/// passes the applications to [`Server::bind`](crate::Server::bind) as [`Applications`](crate::Applications).
///
/// As a text it is `KIND[:NAME]=PATH[,OPTION=VALUE]...`. In a configuration file it is a table; fields other than
/// `kind`, `name` and `path` are options, and numbers and booleans are read as texts.
///
/// ```
/// use unspoken_server::{OfferConfig, ServerConfig};
///
/// let offer: OfferConfig = "classify:classify/spam=models/spam,query=compact,batch=32".parse()?;
/// let config = ServerConfig::from_toml(
///     r#"
///     [[offer]]
///     kind = "classify"
///     name = "classify/spam"
///     path = "models/spam"
///     query = "compact"
///     batch = 32
///     "#,
/// )?;
/// assert_eq!(config.offers, [offer]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferConfig {
    /// Kind of application, for instance `classify`.
    pub kind: String,
    /// Name in the service's URL, for instance `classify/spam`. Without it, the default of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Directory or file of the application. A relative path starts at the working directory of the process.
    pub path: PathBuf,
    /// Options; each kind has its own.
    #[serde(flatten, deserialize_with = "options")]
    pub options: BTreeMap<String, String>,
}

impl OfferConfig {
    /// An offer with the default name of its kind and without options.
    pub fn new(kind: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { kind: kind.into(), name: None, path: path.into(), options: BTreeMap::new() }
    }
}

impl FromStr for OfferConfig {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let error = |reason: String| ServerError::Offer { text: text.into(), reason };
        let (head, rest) = text.split_once('=').ok_or_else(|| error("it has no '='".into()))?;
        let (kind, name) = match head.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (head, None),
        };
        if kind.is_empty() {
            return Err(error("the kind is empty".into()));
        }
        if name.is_some_and(str::is_empty) {
            return Err(error("the name after ':' is empty".into()));
        }
        let mut parts = rest.split(',');
        let path = parts.next().unwrap_or_default();
        if path.is_empty() {
            return Err(error("the path is empty".into()));
        }
        let mut options = BTreeMap::new();
        for part in parts {
            let (option, value) = part.split_once('=').filter(|(option, _)| !option.is_empty()).ok_or_else(|| {
                error(format!("{part:?} is not OPTION=VALUE (a path with a comma goes into the configuration file)"))
            })?;
            if options.insert(option.to_owned(), value.to_owned()).is_some() {
                return Err(error(format!("option {option:?} is given twice")));
            }
        }
        Ok(Self { kind: kind.into(), name: name.map(str::to_owned), path: path.into(), options })
    }
}

/// A value of an option in a configuration file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "the value of an option must be a text, a number or a truth value")]
enum Scalar {
    Text(String),
    Integer(i64),
    Number(f64),
    Truth(bool),
}

fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let scalars = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
    let text = |scalar| match scalar {
        Scalar::Text(text) => text,
        Scalar::Integer(integer) => integer.to_string(),
        Scalar::Number(number) => number.to_string(),
        Scalar::Truth(truth) => truth.to_string(),
    };
    Ok(scalars.into_iter().map(|(option, scalar)| (option, text(scalar))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_read_from_a_text() {
        let offer: OfferConfig = "pir=/srv/codes".parse().unwrap();
        assert_eq!(offer, OfferConfig::new("pir", "/srv/codes"));
        let offer: OfferConfig = "classify:classify/spam=a=b,preset=x=y,plan=".parse().unwrap();
        assert_eq!((offer.kind.as_str(), offer.name.as_deref()), ("classify", Some("classify/spam")));
        assert_eq!(offer.path, PathBuf::from("a=b"));
        assert_eq!(offer.options, BTreeMap::from([("preset".into(), "x=y".into()), ("plan".into(), String::new())]));
    }

    #[test]
    fn a_text_that_is_no_offer_is_refused_with_the_reason() {
        for (text, reason) in [
            ("classify", "no '='"),
            ("classify:spam", "no '='"),
            ("=model", "kind is empty"),
            (":spam=model", "kind is empty"),
            ("classify:=model", "name after ':' is empty"),
            ("classify=", "path is empty"),
            ("classify=,query=direct", "path is empty"),
            ("classify=model,compact", "\"compact\" is not OPTION=VALUE"),
            ("classify=model,=compact", "is not OPTION=VALUE"),
            ("classify=model,query=direct,query=compact", "\"query\" is given twice"),
        ] {
            let error = text.parse::<OfferConfig>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("KIND[:NAME]=PATH"), "{text}: {error}");
        }
    }
}
