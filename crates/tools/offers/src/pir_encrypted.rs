//! Databases of encrypted entries, which their owner changes while they are served.

use std::sync::Arc;

use unspoken_database::EncryptedStore;
use unspoken_pir::EncryptedServer;
use unspoken_pir_scheme::{DatabaseVersion, VersionedDatabase};
use unspoken_server::Applications;

use crate::kind::{Kind, Serving, State};
use crate::offer::Offer;
use crate::pir;

pub const KIND: Kind = Kind {
    name: "pir-encrypted",
    about: "a database that its owner encrypts and uploads; DIR is made by `unspoken pir accept`",
    default_name: "pir/{directory}",
    options: &[],
    serving: Serving { on_device: true, state: State::Directory, ..Serving::PLAIN },
    clients: pir::KIND.clients,
    load,
};

/// Adds the database.
fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let mut store = EncryptedStore::open(offer.path())?;
    if let Some(device) = offer.device() {
        store = store.on_device(device)?;
    }
    let preset = store.parameters().name();
    anyhow::ensure!(!store.parameters().is_insecure(), "preset {preset} is for tests; declare it with a secure one");
    tracing::info!(application = offer.name(), version = store.snapshot().version(), "database opened");
    offer.add(EncryptedServer::new(Arc::new(store))?, applications)
}
