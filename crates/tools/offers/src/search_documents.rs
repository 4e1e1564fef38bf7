//! The documents of a collection whose shards other services serve.

use std::sync::Arc;

use unspoken_collection::Collection;
use unspoken_pir::PirServer;
use unspoken_server::Applications;

use crate::follow::follow;
use crate::kind::{Kind, Serving, State};
use crate::offer::Offer;
use crate::pir;
use crate::search::{check_preset, refresh, tell};

pub const KIND: Kind = Kind {
    name: "search-documents",
    about: "the documents of a collection, without searching it: for a router of its shards; DIR is the collection",
    default_name: "search/{directory}-documents",
    options: &[],
    serving: Serving { state: State::Files, together: 16, ..Serving::PLAIN },
    clients: pir::KIND.clients,
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let collection = Arc::new(Collection::open_documents(offer.path())?);
    check_preset(&collection.index())?;
    tell(offer.name(), &collection.index(), "documents of a collection opened");
    follow(offer.name().to_owned(), Arc::downgrade(&collection), refresh)?;
    offer.add(PirServer::new(collection)?, applications)
}
