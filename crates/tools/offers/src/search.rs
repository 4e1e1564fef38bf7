//! Collections for private search: an index of vectors, and the documents that are fetched by position.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use unspoken_collection::{Collection, CollectionError};
use unspoken_embedding::{MeanEmbedder, Source};
use unspoken_pir::PirServer;
use unspoken_protocol::ApplicationDescription;
use unspoken_search::{Description, SearchServer};
use unspoken_search_index::StoredIndex;
use unspoken_server::Applications;
use unspoken_wire::v1::{ModelFile, PublishedModel};

use crate::follow::follow;
use crate::kind::{ClientKind, Kind, KindOption, Serving, State};
use crate::offer::Offer;

/// Most bytes of a table that is published: pages load it before the first question.
const MAX_WORDS_BYTES: usize = 16 << 20;

pub const KIND: Kind = Kind {
    name: "search",
    about: "a collection for private search; DIR is made by `unspoken search build`, and its changes are served. Its \
            documents are offered beside it, as NAME-documents",
    default_name: "search/{directory}",
    options: &[
        KindOption {
            name: "asked",
            about: "blocks of clusters that every question asks [default: as the index was built]",
        },
        KindOption {
            name: "words",
            about: "the table of --words with which the collection was built (.npy, .txt or .vec), of 16 MiB at most: \
                    everyone who may use the service can fetch it, so that pages make vectors of texts [default: none]",
        },
        KindOption {
            name: "tokens",
            about: "the tokens of words, if it is a .npy file: one a line, or a tokenizer.json",
        },
    ],
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
    check_preset(&collection.index())?;
    tell(offer.name(), &collection.index(), "collection opened");
    let documents = documents_of(offer.name());
    // Before much is loaded.
    let words = words(offer, collection.index().about().embedder.as_deref())?;
    let server = SearchServer::new(Arc::clone(&collection), documents.clone())?;
    let applications = offer.add(server, applications)?;
    follow(offer.name().to_owned(), Arc::downgrade(&collection), refresh)?;
    let applications = applications.with(&documents, PirServer::new(collection)?)?;
    Ok(words.into_iter().fold(applications, |applications, words| applications.publish(offer.name(), &words)))
}

/// The table that the options of an offer name, to be published, if it made the vectors of the collection.
fn words(offer: &Offer, needed: Option<&str>) -> anyhow::Result<Option<PublishedModel>> {
    let tokens = offer.option::<PathBuf>("tokens")?;
    let Some(table) = offer.option::<PathBuf>("words")? else {
        anyhow::ensure!(tokens.is_none(), "option tokens: found no option words; name the table of these tokens");
        return Ok(None);
    };
    let read = || published(&table, tokens, needed);
    Ok(Some(read().with_context(|| format!("option words: cannot use {}", table.display()))?))
}

fn published(table: &Path, tokens: Option<PathBuf>, needed: Option<&str>) -> anyhow::Result<PublishedModel> {
    let extension = table.extension().and_then(|extension| extension.to_str());
    let table = table.to_owned();
    let source = match (extension, tokens) {
        (Some("npy"), Some(tokens)) => Source::Npy { table, tokens },
        (Some("txt" | "vec"), None) => Source::Text { table },
        (_, tokens) => {
            let found = if tokens.is_some() { "with" } else { "without" };
            anyhow::bail!(
                "found this file {found} the option tokens, needed a .npy file with the option tokens, or a .txt or \
                 .vec file without it"
            )
        }
    };
    let embedder = MeanEmbedder::new(source.read()?);
    anyhow::ensure!(
        needed == Some(embedder.name()),
        "found the {}, needed what made the vectors of the collection: {}",
        embedder.name(),
        needed.unwrap_or("its name is not known, so leave the option out")
    );
    let files: Vec<ModelFile> =
        embedder.to_files()?.into_iter().map(|(name, content)| ModelFile { name, content }).collect();
    let found: usize = files.iter().map(|file| file.content.len()).sum();
    anyhow::ensure!(
        found <= MAX_WORDS_BYTES,
        "found {found} bytes, needed at most {MAX_WORDS_BYTES}, since pages load them; build the collection with fewer \
         words, or leave the option out"
    );
    Ok(PublishedModel { files })
}

/// The application from which the documents of a collection are fetched.
pub(crate) fn documents_of(name: &str) -> String {
    format!("{name}-documents")
}

/// Refuses parameters for tests.
pub(crate) fn check_preset(index: &StoredIndex) -> anyhow::Result<()> {
    let parameters = index.parameters();
    anyhow::ensure!(!parameters.is_insecure(), "preset {} is for tests; build it again", parameters.name());
    Ok(())
}

/// Loads what other processes have committed or built.
pub(crate) fn refresh(name: &str, collection: &Collection) -> Result<(), CollectionError> {
    if collection.refresh()? {
        tell(name, &collection.index(), "collection changed");
    }
    Ok(())
}

/// Writes to the log what an index has.
pub(crate) fn tell(name: &str, index: &StoredIndex, what: &'static str) {
    let (documents, asked) = (index.documents(), index.directory().asked());
    tracing::info!(application = name, documents, asked, "{what}");
}
