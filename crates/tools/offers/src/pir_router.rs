//! Databases whose shards other services serve, and how the router follows them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use unspoken_client::transport::TransportConfig;
use unspoken_pir::{PirRouter, ShardAccess, Shards};
use unspoken_server::Applications;

use crate::kind::{Kind, KindOption, Serving, State};
use crate::offer::Offer;
use crate::pir;
use crate::shard_service::{Patience, ShardService};

/// Interval between looks at the shards.
const LOOK: Duration = Duration::from_secs(1);

pub const KIND: Kind = Kind {
    name: "pir-router",
    about: "a database whose shards other services serve; FILE has a table [[shard]] with a url for each of them",
    default_name: "pir/{directory}",
    options: &[
        KindOption {
            name: "patience",
            about: "seconds for which a shard that cannot be reached, or is busy, is tried again [default: 10]",
        },
        KindOption { name: "timeout", about: "seconds for the partial answer of a shard [default: 300]" },
    ],
    serving: Serving { state: State::Files, ..Serving::PLAIN },
    clients: pir::KIND.clients,
    load,
};

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

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
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
    let shards: Vec<ShardService> = file.shard.iter().map(service).collect::<anyhow::Result<_>>()?;
    route(offer.name(), shards, applications)
}

/// Adds a database whose shards are served elsewhere, as one application of this name. A thread looks at the shards as
/// long as it is served: a later version is used once all of them have it.
///
/// # Errors
/// If the name is not valid, a shard does not answer, or they do not fit each other.
pub fn route<A: ShardAccess>(name: &str, shards: Vec<A>, applications: Applications) -> anyhow::Result<Applications> {
    let count = shards.len();
    let shards = Arc::new(Shards::new(shards)?);
    tracing::info!(application = name, version = shards.version(), shards = count, "shards found");
    let follower = (name.to_owned(), Arc::downgrade(&shards));
    let applications = applications.with(name, PirRouter::new(shards))?;
    std::thread::Builder::new().name("follow-shards".into()).spawn(move || follow(&follower))?;
    Ok(applications)
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
fn follow<A: ShardAccess>((name, shards): &(String, Weak<Shards<A>>)) {
    let mut complaint = String::new();
    while let Some(shards) = shards.upgrade() {
        match shards.look() {
            Ok(changed) => {
                if !std::mem::take(&mut complaint).is_empty() {
                    tracing::info!(application = name, "all shards answer and fit");
                }
                if changed {
                    tracing::info!(application = name, version = shards.version(), "shards of a later version found");
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
