//! Collections for private search: an index of vectors, and the documents that are fetched by position.

use std::sync::Arc;

use anyhow::Context;
use unspoken_database::Database;
use unspoken_pir::PirServer;
use unspoken_pir_scheme::dense::GroupView;
use unspoken_protocol::ApplicationDescription;
use unspoken_search::{CurrentIndex, Description, SearchIndex, SearchServer};
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

/// An index that is served until the service ends.
struct Served {
    index: StoredIndex,
    description: Description,
}

/// The only one.
struct Current(Arc<Served>);

impl SearchIndex for Served {
    fn description(&self) -> &Description {
        &self.description
    }

    fn groups(&self) -> Vec<GroupView<'_>> {
        self.index.table().groups()
    }

    fn resident_bytes(&self) -> u64 {
        self.index.table().memory_bytes() as u64
    }
}

impl CurrentIndex for Current {
    fn current(&self) -> Arc<dyn SearchIndex> {
        Arc::clone(&self.0) as Arc<dyn SearchIndex>
    }
}

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let index = StoredIndex::open(offer.path())?;
    let preset = index.parameters().name();
    anyhow::ensure!(!index.parameters().is_insecure(), "preset {preset} is for tests; build it with a secure one");
    let asked = offer.option("asked")?.unwrap_or(index.directory().asked());
    let documents = format!("{}-documents", offer.name());
    let description = Description::new(
        index.parameters().clone(),
        *index.shape(),
        index.directory().clone().asking(asked),
        index.counts().to_vec(),
        index.id(),
        documents.clone(),
    )?;
    let path = offer.path().join(DOCUMENTS);
    let database =
        Database::open(&path).with_context(|| format!("cannot serve the documents in {}", path.display()))?;
    let (application, count) = (offer.name(), description.document_count());
    tracing::info!(application, documents = count, asked, "index opened");
    let server = SearchServer::new(Current(Arc::new(Served { index, description })));
    let applications = offer.add(server, applications)?;
    Ok(applications.with(&documents, PirServer::new(Arc::new(database))?)?)
}
