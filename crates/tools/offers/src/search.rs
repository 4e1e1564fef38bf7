//! Collections for private search: an index of vectors, and the documents that are fetched by position.

use std::sync::Arc;

use unspoken_collection::{Collection, CollectionError};
use unspoken_pir::PirServer;
use unspoken_protocol::ApplicationDescription;
use unspoken_search::{Description, SearchServer};
use unspoken_server::Applications;

use crate::follow::follow;
use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;

pub const KIND: Kind = Kind {
    name: "search",
    about: "a collection for private search; DIR is made by `unspoken search build`, and its changes are served. Its \
            documents are offered beside it, as NAME-documents",
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
        class: "unspoken.SearchClient",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let collection = Arc::new(Collection::open(offer.path(), offer.option("asked")?)?);
    let preset = collection.index().parameters().name().to_owned();
    anyhow::ensure!(!collection.index().parameters().is_insecure(), "preset {preset} is for tests; build it again");
    tell(offer.name(), &collection, "collection opened");
    let documents = format!("{}-documents", offer.name());
    let server = SearchServer::new(Arc::clone(&collection), documents.clone())?;
    let applications = offer.add(server, applications)?;
    follow(offer.name().to_owned(), Arc::downgrade(&collection), refresh)?;
    Ok(applications.with(&documents, PirServer::new(collection)?)?)
}

/// Loads what other processes have committed or built.
fn refresh(name: &str, collection: &Collection) -> Result<(), CollectionError> {
    if collection.refresh()? {
        tell(name, collection, "collection changed");
    }
    Ok(())
}

fn tell(name: &str, collection: &Collection, what: &'static str) {
    let index = collection.index();
    let (documents, asked) = (index.documents(), index.directory().asked());
    tracing::info!(application = name, documents, asked, "{what}");
}
