//! Collections whose shards other services serve.

use std::sync::Arc;

use unspoken_protocol::ShardAccess;
use unspoken_search::{SearchRouter, Shards};
use unspoken_server::Applications;

use crate::kind::{Kind, Serving, State};
use crate::offer::Offer;
use crate::{routing, search};

pub const KIND: Kind = Kind {
    name: "search-router",
    about: "a collection whose shards other services serve; FILE has a table [[shard]] with a url for each of them. \
            Its documents are offered beside it: `--search-documents NAME-documents=DIR`",
    default_name: "search/{directory}",
    options: routing::OPTIONS,
    serving: Serving { state: State::Files, ..Serving::PLAIN },
    clients: search::KIND.clients,
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    route(offer.name(), routing::connect(offer)?, applications)
}

/// Adds a collection whose shards are served elsewhere, as one application of this name.
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
    tracing::info!(
        application = name,
        documents = shards.agreed().index().document_count(),
        shards = count,
        "shards found"
    );
    routing::follow(name, &shards)?;
    Ok(applications.with(name, SearchRouter::new(shards, search::documents_of(name))?)?)
}
