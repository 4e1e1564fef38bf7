//! Keys of the records of a sealed database.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context;
use unspoken_oprf::{Allowance, OprfServer};
use unspoken_protocol::ApplicationDescription;
use unspoken_server::Applications;
use unspoken_symmetric_pir::ServiceKey;
use zeroize::Zeroizing;

use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;

/// Keys that a client may ask for, unless the offer says otherwise.
const EVALUATIONS: u32 = 1000;

/// The window, in seconds, unless the offer says otherwise: a day.
const WINDOW_SECONDS: u32 = 24 * 3600;

pub const KIND: Kind = Kind {
    name: "oprf",
    about: "symmetric PIR: the keys of a database's sealed records; DIR is the file made by `unspoken pir oprf-key`. \
            Offer the database beside it. Limits count only with --tokens",
    default_name: "oprf/{directory}",
    options: &[
        KindOption { name: "evaluations", about: "keys that a client may ask for at once [default: 1000]" },
        KindOption { name: "window", about: "seconds in which all of them come back [default: 86400]" },
        KindOption {
            name: "per_address",
            about: "clients without a token that may ask from one address, until they have all their keys again; raise \
                    it behind a proxy [default: 1024]",
        },
    ],
    serving: Serving { state: State::Process, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_oprf::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "oprf",
        about: "keys of sealed records",
        command: "unspoken pir get --oprf",
        class: "unspoken.PirClient(..., oprf=)",
    }],
    load,
};

/// Reads the secret key of a sealed database.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn read_key(path: &Path) -> anyhow::Result<ServiceKey> {
    let bytes = std::fs::read(path).map(Zeroizing::new).with_context(|| format!("cannot read {}", path.display()))?;
    ServiceKey::from_bytes(&bytes).with_context(|| format!("cannot use {}", path.display()))
}

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let evaluations = offer.option("evaluations")?.unwrap_or(EVALUATIONS);
    let allowance = Allowance::new(evaluations, offer.option("window")?.unwrap_or(WINDOW_SECONDS))?;
    let per_address: Option<NonZeroUsize> = offer.option("per_address")?;
    let key = read_key(offer.path())?;
    let public_key = hex::encode(key.sealing().public_key());
    tracing::info!(application = offer.name(), public_key, evaluations, "keys of sealed records");
    let mut server = OprfServer::new(key, allowance);
    if let Some(clients) = per_address {
        server = server.with_most_of_an_address(clients.get());
    }
    offer.add(server, applications)
}
