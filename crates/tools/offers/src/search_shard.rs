//! Shards of collections for private search.

use std::sync::Arc;

use anyhow::Context;
use unspoken_protocol::ApplicationDescription;
use unspoken_search::{SearchServer, ShardDescription};
use unspoken_search_index::{FollowedIndex, IndexError, IndexPart, IndexVersions};
use unspoken_server::Applications;

use crate::follow::follow;
use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;
use crate::search::{check_preset, tell};

pub const KIND: Kind = Kind {
    name: "search-shard",
    about: "a part of a collection, for a router; DIR is the collection, or a copy of it, and its changes are served",
    default_name: "search-shard/{directory}",
    options: &[KindOption {
        name: "part",
        about: "which part, as NUMBER/PARTS: 1/4 to 4/4 are the shards of a collection at four services [default: 1/1]",
    }],
    serving: Serving { state: State::Files, together: 64, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <ShardDescription as ApplicationDescription>::PROTOCOL.kind,
        kind: "search-shard",
        about: "a shard of a collection, for a router",
        command: "unspoken serve --search-router",
        class: "unspoken.ray.CollectionShards",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let part = offer.option::<String>("part")?.unwrap_or_else(|| "1/1".into());
    let parsed = part.split_once('/').and_then(|(number, shards)| Some((number.parse().ok()?, shards.parse().ok()?)));
    let (number, shards) = parsed.with_context(|| format!("option part: found {part}, needed NUMBER/PARTS, as 1/4"))?;
    let index = Arc::new(FollowedIndex::open(offer.path(), IndexPart::Shard { number, shards })?);
    check_preset(&index.current())?;
    tell(offer.name(), &index.current(), "shard of a collection opened");
    follow(offer.name().to_owned(), Arc::downgrade(&index), refresh)?;
    offer.add(SearchServer::new(index, String::new())?, applications)
}

/// Loads what other processes have committed or built.
fn refresh(name: &str, index: &FollowedIndex) -> Result<(), IndexError> {
    if index.refresh()? {
        tell(name, &index.current(), "collection changed");
    }
    Ok(())
}
