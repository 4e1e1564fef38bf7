//! Shards of databases for private retrieval.

use unspoken_database::Shard;
use unspoken_pir::ShardServer;
use unspoken_pir_scheme::DatabaseShard;
use unspoken_protocol::ApplicationDescription;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, Serving, State};
use crate::offer::Offer;
use crate::pir::check_device_memory;

pub const KIND: Kind = Kind {
    name: "pir-shard",
    about: "a shard of a database, for a router; DIR is made by `unspoken pir shard`, and does not change",
    default_name: "pir-shard/{directory}",
    options: &[],
    serving: Serving { on_device: true, state: State::Files, together: 16, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_pir::ShardDescription as ApplicationDescription>::PROTOCOL.kind,
        kind: "pir-shard",
        about: "a shard of a database, for a router",
        command: "unspoken serve --pir-router",
        class: "unspoken.ray.Shards",
    }],
    load,
};

/// Adds the shard.
fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let shard = Shard::open_on(offer.path(), offer.device())?;
    let preset = shard.parameters().name();
    anyhow::ensure!(!shard.parameters().is_insecure(), "preset {preset} is for tests; build it with a secure one");
    let (application, version) = (offer.name(), shard.version());
    tracing::info!(application, version, "{} opened", shard.id());
    let (tables, table_bytes) = (shard.tables().clone(), shard.table_bytes());
    let server = ShardServer::new(shard)?;
    check_device_memory(offer, &server, (&tables, table_bytes))?;
    offer.add(server, applications)
}
