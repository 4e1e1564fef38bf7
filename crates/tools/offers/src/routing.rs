//! Services whose shards are served elsewhere: their addresses, and how a router follows them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use unspoken_client::transport::TransportConfig;
use unspoken_protocol::{Agreement, ShardAccess, Shards};

use crate::kind::KindOption;
use crate::offer::Offer;
use crate::shard_service::{Patience, ShardService};

/// Interval between looks at the shards.
const LOOK: Duration = Duration::from_secs(1);

/// The options of a router.
pub(crate) const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "patience",
        about: "seconds for which a shard that cannot be reached, or is busy, is tried again [default: 10]",
    },
    KindOption { name: "timeout", about: "seconds for the partial answer of a shard [default: 300]" },
];

/// The file of a router.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterFile {
    /// In any order.
    shard: Vec<ShardEntry>,
}

/// Where a shard is served. Paths are relative to the working directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardEntry {
    url: String,
    /// Not needed if the service offers only one application.
    application: Option<String>,
    token_file: Option<PathBuf>,
    /// Certificate authority to trust, a PEM file.
    ca: Option<PathBuf>,
    /// Allows plain HTTP to another machine.
    #[serde(default)]
    insecure_http: bool,
}

/// Connects to the shards that the file of an offer names.
pub(crate) fn connect(offer: &Offer) -> anyhow::Result<Vec<ShardService>> {
    let seconds = |name: &str, default: f64| -> anyhow::Result<Duration> {
        let found: f64 = offer.option(name)?.unwrap_or(default);
        let wrong = || format!("option {name} is {found}; it is a number of seconds, more than 0");
        Duration::try_from_secs_f64(found).ok().filter(|time| !time.is_zero()).with_context(wrong)
    };
    let patience = Patience { unreachable: seconds("patience", 10.0)?, answer: seconds("timeout", 300.0)? };
    let text = read_text(offer.path())?;
    let file: RouterFile = toml::from_str(&text).with_context(|| format!("cannot use {}", offer.path().display()))?;
    let service = |entry: &ShardEntry| {
        ShardService::connect(offer.name(), config(entry)?, entry.application.as_deref(), patience)
    };
    file.shard.iter().map(service).collect()
}

/// Starts a thread that looks at shards as long as they are served: later ones are used once all of them are there.
pub(crate) fn follow<A: ShardAccess, G: Agreement>(name: &str, shards: &Arc<Shards<A, G>>) -> std::io::Result<()> {
    let follower = (name.to_owned(), Arc::downgrade(shards));
    std::thread::Builder::new().name("follow-shards".into()).spawn(move || look_on(&follower)).map(drop)
}

fn config(entry: &ShardEntry) -> anyhow::Result<TransportConfig> {
    let mut config = TransportConfig::new(&entry.url);
    config.insecure_http = entry.insecure_http;
    if let Some(path) = &entry.token_file {
        config = config.with_token(read_text(path)?.trim());
    }
    if let Some(path) = &entry.ca {
        config =
            config.with_authorities(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(config)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    unspoken_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Looks at the shards, as long as they are served: for readiness, and for a later version.
fn look_on<A: ShardAccess, G: Agreement>((name, shards): &(String, Weak<Shards<A, G>>)) {
    let mut complaint = String::new();
    while let Some(shards) = shards.upgrade() {
        match shards.look() {
            Ok(changed) => {
                if !std::mem::take(&mut complaint).is_empty() {
                    tracing::info!(application = name, "all shards answer and fit");
                }
                if changed {
                    tracing::info!(application = name, "later shards found");
                }
            }
            Err(problem) => {
                let again = std::mem::replace(&mut complaint, problem.to_string());
                if again != complaint {
                    tracing::error!(application = name, reason = complaint, "nothing can be answered");
                }
            }
        }
        drop(shards);
        std::thread::sleep(LOOK);
    }
}
