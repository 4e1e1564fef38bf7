//! Databases for private retrieval, and how the service follows their changes.

use std::sync::Arc;

use unspoken_database::{Database, DatabaseError, Snapshot};
use unspoken_pir::PirServer;
use unspoken_pir_scheme::{DatabaseVersion, TableKind, Tables};
use unspoken_protocol::{ApplicationDescription, ServerHalf};
use unspoken_server::Applications;

use crate::follow::follow;
use crate::kind::{ClientKind, Kind, Serving, State};
use crate::offer::Offer;

pub const KIND: Kind = Kind {
    name: "pir",
    about: "a database for private retrieval; DIR is made by `unspoken pir build`, and its changes are served",
    default_name: "pir/{directory}",
    options: &[],
    serving: Serving { on_device: true, state: State::Files, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_pir::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "pir",
        about: "private retrieval",
        command: "unspoken pir get",
        class: "unspoken.PirClient",
    }],
    load,
};

/// Adds the database. A thread follows its changes as long as it is served.
fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let name = offer.name().to_owned();
    let opened = Arc::new(Database::open_on(offer.path(), offer.device())?);
    let snapshot = opened.snapshot();
    let preset = snapshot.parameters().name();
    anyhow::ensure!(!snapshot.parameters().is_insecure(), "preset {preset} is for tests; build it with a secure one");
    anyhow::ensure!(
        snapshot.tables().kind() != TableKind::Encrypted,
        "it is the owner's part of an encrypted database, in plaintext; a service offers what `unspoken pir accept` \
         makes: --offer pir-encrypted:NAME=DIR"
    );
    tell(&name, &snapshot, "database opened");
    let follower = Arc::downgrade(&opened);
    let server = PirServer::new(opened)?;
    check_device_memory(offer, &server, (snapshot.tables(), snapshot.table_bytes()))?;
    let applications = offer.add(server, applications)?;
    follow(name, follower, refresh)?;
    Ok(applications)
}

/// Refuses tables that need more memory than the device of the service has, if it has one: the memory of an answer with
/// the largest part of a table, and all tables, of `table_bytes` bytes, with the keys of a client.
pub(crate) fn check_device_memory(
    offer: &Offer,
    server: &impl ServerHalf,
    (tables, table_bytes): (&Tables, u64),
) -> anyhow::Result<()> {
    let (answer, keys) = (server.limits().working_bytes, server.key_limits().memory_bytes);
    offer.check_device_memory((answer + tables.part_bytes(), answer + table_bytes + keys))
}

/// Loads the versions that other processes have committed.
fn refresh(name: &str, database: &Database) -> Result<(), DatabaseError> {
    let before = database.snapshot();
    if database.refresh()? {
        let snapshot = database.snapshot();
        let rebuilt = snapshot.tables() != before.tables();
        let what = if rebuilt { "database replaced by one in another layout" } else { "database changed" };
        tell(name, &snapshot, what);
    }
    Ok(())
}

fn tell(name: &str, snapshot: &Snapshot, what: &'static str) {
    let (version, generation, records) = (snapshot.version(), snapshot.generation(), snapshot.records());
    tracing::info!(application = name, version, generation, records, "{what}");
}
