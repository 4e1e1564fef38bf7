//! Databases whose shards other services serve.

use std::sync::Arc;

use unspoken_pir::{PirRouter, Shards};
use unspoken_protocol::ShardAccess;
use unspoken_server::Applications;

use crate::kind::{Kind, Serving, State};
use crate::offer::Offer;
use crate::{pir, routing};

pub const KIND: Kind = Kind {
    name: "pir-router",
    about: "a database whose shards other services serve; FILE has a table [[shard]] with a url for each of them",
    default_name: "pir/{directory}",
    options: routing::OPTIONS,
    serving: Serving { state: State::Files, ..Serving::PLAIN },
    clients: pir::KIND.clients,
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    route(offer.name(), routing::connect(offer)?, applications)
}

/// Adds a database whose shards are served elsewhere, as one application of this name.
///
/// # Errors
/// If the name is not valid, a shard does not answer, or they do not fit each other.
pub(crate) fn route<A: ShardAccess>(
    name: &str,
    shards: Vec<A>,
    applications: Applications,
) -> anyhow::Result<Applications> {
    let count = shards.len();
    let shards = Arc::new(Shards::new(shards)?);
    tracing::info!(application = name, version = shards.agreed().version(), shards = count, "shards found");
    routing::follow(name, &shards)?;
    Ok(applications.with(name, PirRouter::new(shards))?)
}
