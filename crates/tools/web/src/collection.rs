//! Collections that are searched: what a client knows of them, vectors of texts, and documents.

use std::collections::BTreeMap;

use serde::Serialize;
use unspoken_embedding::MeanEmbedder;
use unspoken_pir::PirClient;
use unspoken_search::{Description, SearchClient, SearchError};
use unspoken_search_index::Document;
use unspoken_store::ModelFiles;
use unspoken_wire::is_application_name;
use wasm_bindgen::prelude::*;

use crate::failure::Failure;
use crate::question::Question;
use crate::values::written;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A collection that is searched. */
export interface Collection {
  /** The application of the same service from which documents are fetched, by their positions. */
  documents: string;
  /** Number of documents when the service described it, and coordinates of their vectors. */
  count: number; width: number;
  /** Name of the embedder that made the vectors; empty if it is not known. */
  embedder: string;
  /** Whether texts can be asked: the service publishes the table of words that made the vectors. */
  takesTexts: boolean;
}

/** A document of a collection. */
export interface Document { id: Uint8Array | undefined; content: Uint8Array }
"#;

/// What a client knows of a collection, for JavaScript.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Collection {
    documents: String,
    count: u64,
    width: usize,
    embedder: String,
    takes_texts: bool,
}

impl Collection {
    /// The collection of a description.
    pub(crate) fn of(description: &Description) -> Self {
        Collection {
            documents: description.documents().to_owned(),
            count: description.document_count(),
            width: description.shape().width(),
            embedder: description.embedder().to_owned(),
            takes_texts: false,
        }
    }

    /// The collection, if documents can be fetched from where it says.
    pub(crate) fn checked(self, words: Option<&MeanEmbedder>) -> Result<Self, Failure> {
        if !is_application_name(&self.documents) {
            let found = format!("{:?}", self.documents);
            let needed = "a name of applications; do not trust this service".into();
            return Err(Failure::Argument { what: "description: application of the documents", found, needed });
        }
        let takes_texts = words.is_some_and(|words| words.name() == self.embedder);
        Ok(Collection { takes_texts, ..self })
    }

    /// The vector of a text in place of the text.
    pub(crate) fn embedded(&self, question: &Question, words: Option<&MeanEmbedder>) -> Result<Question, Failure> {
        let Question::Text(text) = question else { return Err(question.refused("a vector or a text")) };
        let refuse = |found: String, needed: &str| Failure::Argument { what: "text", found, needed: needed.into() };
        let Some(words) = words else {
            return Err(refuse(
                "a service that publishes no table of words".into(),
                "one that does (option words of its offer); or ask with a vector",
            ));
        };
        if words.name() != self.embedder {
            let needed = "what made the vectors of the documents; open the application again, or ask with a vector";
            return Err(refuse(format!("vectors that are the {}", words.name()), needed));
        }
        let (vector, _) = words.vectors(&[text]).into_raw_vec_and_offset();
        if vector.iter().all(|&coordinate| coordinate == 0.0) {
            return Err(refuse("no word that is in the table".into(), "one of its words; say it in other words"));
        }
        Ok(Question::Vector(vector))
    }
}

/// The table of words that a service publishes for its collection, if it does.
pub(crate) fn words(files: &BTreeMap<String, Vec<u8>>) -> Result<Option<MeanEmbedder>, Failure> {
    let files = ModelFiles::Memory(files);
    if !MeanEmbedder::is_in(files) {
        return Ok(None);
    }
    MeanEmbedder::read(files).map(Some).map_err(|error| Failure::Model(error.to_string()))
}

/// Whether an answer with documents has all documents that an answer with scores can name, except those that were
/// removed since. Neither is decrypted.
#[wasm_bindgen(js_name = hasDocumentsOf)]
pub fn has_documents_of(documents: &[u8], scores: &[u8]) -> bool {
    PirClient::version_of(documents).is_some_and(|version| SearchClient::has_version_of(scores, version))
}

#[derive(Serialize)]
struct Read<'a> {
    id: Option<&'a serde_bytes::Bytes>,
    content: &'a serde_bytes::Bytes,
}

/// Reads a record of the documents of a collection; nothing, if the document was removed.
///
/// # Errors
/// If the record is no document. Whoever asks again because of it tells the service so.
#[wasm_bindgen(js_name = documentOf, unchecked_return_type = "Document | undefined")]
pub fn document_of(record: &[u8]) -> Result<JsValue, JsValue> {
    let document = Document::from_record(record).map_err(|error| Failure::of(SearchError::Document(error)))?;
    let read = document.as_ref().map(|document| Read {
        id: document.id.as_deref().map(serde_bytes::Bytes::new),
        content: serde_bytes::Bytes::new(&document.content),
    });
    written(&read)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use unspoken_collection::{Builder, Collection as Stored};
    use unspoken_embedding::{EmbeddingTable, TokenList};
    use unspoken_protocol::{Call, ClientId, Request, ServerHalf};
    use unspoken_search::SearchServer;

    use super::*;
    use crate::half::{Options, WebHalf, open};
    use crate::question::Answer;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn embedder(ship: f32) -> MeanEmbedder {
        let tokens = TokenList::new(["sea", "ship", "tree"].map(str::to_owned).to_vec()).unwrap();
        let values = vec![1.0, 0.0, 0.1, ship, 0.3, 0.0, 0.0, 1.0, 0.2];
        MeanEmbedder::new(EmbeddingTable::new(tokens, 3, values).unwrap())
    }

    fn described(text: &str) -> (tempfile::TempDir, SearchServer<Arc<Stored>>) {
        let directory = tempfile::tempdir().unwrap();
        let (words, texts) = (embedder(1.0), ["sea", "ship ship", "tree", "sea ship"]);
        let documents = texts.map(|text| Document { id: None, content: text.into() });
        let builder = Builder { embedder: Some(words.name().into()), ..Builder::default() };
        builder.build(directory.path(), &documents, words.vectors(&texts), &mut |_| (), &NEVER).unwrap();
        let server = SearchServer::new(Arc::new(Stored::open(directory.path(), None).unwrap()), text.into()).unwrap();
        (directory, server)
    }

    fn found(half: &mut dyn WebHalf, server: &SearchServer<Arc<Stored>>, question: Question, most: usize) -> Vec<f32> {
        let asked = half.ask(&[question]).unwrap();
        let request = Request::new(ClientId::new([1; 16]), &(), &asked.bytes);
        let answer = server.answer(&request, &Call::new(&NEVER)).unwrap();
        half.check_answer(&asked, &answer).unwrap();
        let answer = half.read(&asked, &answer).unwrap().remove(0).with_most(most);
        let Answer::Found { hits } = answer else { panic!("{answer:?}") };
        hits.iter().map(|hit| hit.cosine).collect()
    }

    #[test]
    fn a_collection_is_searched_by_vector_and_by_text() {
        let (_directory, server) = described("search/notes-documents");
        let mut half = open(&server.describe(), &Options::default()).unwrap();
        let words = embedder(1.0);
        let collection = half.collection().unwrap().checked(Some(&words)).unwrap();
        assert_eq!((collection.documents.as_str(), collection.count), ("search/notes-documents", 4));
        assert_eq!((collection.width, collection.takes_texts), (3, true));
        let vector = found(&mut *half, &server, Question::Vector(vec![0.0, 2.0, 0.4]), 10);
        assert!(vector.len() == 4 && (vector[0] - 1.0).abs() < 0.02 && vector[1] < 0.9, "{vector:?}");
        let text = collection.embedded(&Question::Text("A Ship!".into()), Some(&words)).unwrap();
        let text = found(&mut *half, &server, text, 2);
        assert!(text.len() == 2 && (text[0] - 1.0).abs() < 0.02, "{text:?}");
        let wrong = half.ask(&[Question::Vector(vec![1.0; 2])]).err().unwrap().to_string();
        assert!(wrong.contains("needed 3, as the documents have"), "{wrong}");
        let wrong = half.ask(&[Question::Index(1)]).err().unwrap().to_string();
        assert!(wrong.contains("found an index, needed a vector"), "{wrong}");
    }

    #[test]
    fn texts_need_the_table_of_the_documents() {
        let (_directory, server) = described("search/notes-documents");
        let half = open(&server.describe(), &Options::default()).unwrap();
        let collection = half.collection().unwrap();
        let (words, other) = (embedder(1.0), embedder(0.5));
        let refused = |text: &str, words: Option<&MeanEmbedder>| {
            collection.embedded(&Question::Text(text.into()), words).err().unwrap().to_string()
        };
        assert!(refused("ship", None).contains("publishes no table of words"));
        assert!(refused("ship", Some(&other)).contains("open the application again"));
        assert!(refused("mountain", Some(&words)).contains("say it in other words"));
        assert!(!collection.clone().checked(Some(&other)).unwrap().takes_texts);
        let files: BTreeMap<String, Vec<u8>> = words.to_files().unwrap().into_iter().collect();
        assert_eq!(super::words(&files).unwrap().unwrap().name(), words.name());
        assert!(super::words(&BTreeMap::new()).unwrap().is_none());
        let (_directory, server) = described("../keys");
        let collection = open(&server.describe(), &Options::default()).unwrap().collection().unwrap();
        assert!(collection.checked(None).err().unwrap().to_string().contains("do not trust this service"));
    }
}
