//! Collections for private search: an index of vectors, and the documents that are fetched by position.

use std::sync::Arc;

use anyhow::Context;
use unspoken_database::Database;
use unspoken_pir::PirServer;
use unspoken_protocol::ApplicationDescription;
use unspoken_search::{Description, SearchServer};
use unspoken_search_index::StoredIndex;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;

/// Directory of the documents within that of the index.
pub const DOCUMENTS: &str = "documents";

pub const KIND: Kind = Kind {
    name: "search",
    about: "a collection for private search; DIR is made by `unspoken search build`. Its documents are offered beside \
            it, as NAME-documents",
    default_name: "search/{directory}",
    options: &[KindOption {
        name: "asked",
        about: "blocks of clusters that every question asks [default: as the index was built]",
    }],
    serving: Serving { state: State::Files, together: 64, ..Serving::PLAIN },
    clients: &[ClientKind {
        wire: <Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "search",
        about: "private search",
        command: "unspoken search ask",
        class: "the command `unspoken search ask`: Python has no class for it yet",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let index = StoredIndex::open(offer.path())?;
    let preset = index.parameters().name();
    anyhow::ensure!(!index.parameters().is_insecure(), "preset {preset} is for tests; build it with a secure one");
    let index = match offer.option("asked")? {
        Some(asked) => index.asking(asked),
        None => index,
    };
    let path = offer.path().join(DOCUMENTS);
    let database =
        Database::open(&path).with_context(|| format!("cannot serve the documents in {}", path.display()))?;
    let (found, needed) = (database.snapshot().records(), index.positions());
    anyhow::ensure!(
        found == needed,
        "{} has {found} documents, needed one for each of the {needed} positions of the index; build it again",
        path.display()
    );
    let documents = format!("{}-documents", offer.name());
    let server = SearchServer::new(index, documents.clone())?;
    let (application, description) = (offer.name(), server.description());
    let (count, asked) = (description.document_count(), description.directory().asked());
    tracing::info!(application, documents = count, asked, "index opened");
    let applications = offer.add(server, applications)?;
    Ok(applications.with(&documents, PirServer::new(Arc::new(database))?)?)
}
