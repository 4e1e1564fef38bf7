//! Exact sums of what many clients send encrypted.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_protocol::ApplicationDescription;
use unspoken_server::Applications;
use unspoken_sums::{Description, SumsServer};

use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;
use crate::sum_directory::SumDirectory;

pub const KIND: Kind = Kind {
    name: "sums",
    about: "a collection of encrypted contributions; DIR is the public file made by `unspoken sums create`. The \
            service adds them and sees no value",
    default_name: "sums/{directory}",
    options: &[KindOption {
        name: "state",
        about: "directory of the sum so far, of one collection [default: the name of DIR with .state]",
    }],
    serving: Serving { state: State::Directory, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <unspoken_sums::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "sums",
        about: "exact sums of encrypted contributions",
        command: "unspoken sums",
        class: "unspoken.SumsClient",
    }],
    load,
};

/// Reads the public file of a collection.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn read_public(path: &Path) -> anyhow::Result<Description> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Description::read(&bytes, false).with_context(|| format!("cannot use {} as a public file", path.display()))
}

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let description = read_public(offer.path())?;
    let path = offer.option::<PathBuf>("state")?.unwrap_or_else(|| offer.path().with_extension("state"));
    let store = SumDirectory::open(&path).with_context(|| format!("option state: cannot use {}", path.display()))?;
    let (application, fingerprint) = (offer.name(), description.fingerprint());
    let (most, least, preset) =
        (description.most_contributions(), description.least_contributions(), description.preset().to_owned());
    let server = SumsServer::new(description, store)
        .with_context(|| format!("option state: cannot go on with {}", path.display()))?;
    let contributions = server.count()?;
    let state = path.display();
    tracing::info!(application, %fingerprint, preset, contributions, most, least, %state, "collection");
    offer.add(server, applications)
}
