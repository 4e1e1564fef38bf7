//! What a hostile service sees: the same requests, whatever its answers decrypt to; and services that take up a change
//! one after the other.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ndarray::Array2;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, StateDir};
use unspoken_collection::{Builder, Collection, Writer};
use unspoken_pir::{ANSWER_OVERHEAD_BYTES, PirError, PirServer};
use unspoken_pir_scheme::PreparedKeys;
use unspoken_protocol::{
    CHECKSUM_BYTES, Call, KeyLimits, KeyLoader, KeySetId, Limits, Request, ServerHalf, impl_registering_server,
};
use unspoken_search::{SearchError, SearchServer};
use unspoken_search_client::{Found, Searcher};
use unspoken_search_index::Document;
use unspoken_server::{Applications, Server, ServerConfig};

const SEARCH: &str = "search/notes";
const DOCUMENTS: &str = "search/notes-documents";
const NOTES: usize = 20;
const WIDTH: usize = 8;

/// Bytes of the checksum of an answer with records.
const RECORDS_CHECKSUM_BYTES: usize = ANSWER_OVERHEAD_BYTES - 16;

/// Documents that are asked for.
const MOST: usize = 3;

/// Requests that a service saw: application, and length.
type Seen = Vec<(&'static str, usize)>;

/// What the service does with its answers, and the requests that it saw.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Changes responses, so that they cannot be read.
    damages_scores: bool,
    damages_documents: bool,
    /// Says that documents are of another build.
    lies: bool,
    seen: Seen,
}

/// An answer after `change`, with a checksum of so many bytes that fits.
fn changed(mut answer: Vec<u8>, checksum_bytes: usize, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    answer.truncate(answer.len() - checksum_bytes);
    change(&mut answer);
    let checksum = blake3::hash(&answer);
    answer.extend(&checksum.as_bytes()[..checksum_bytes]);
    answer
}

/// Changes the second half of the responses enough that they do not decrypt to what they did.
fn damage(content: &mut [u8]) {
    let start = content.len() / 2;
    content[start..].iter_mut().for_each(|byte| *byte ^= 0x55);
}

struct Scores(SearchServer<Arc<Collection>>, Service);

impl_registering_server!(Scores);

impl ServerHalf for Scores {
    type Error = SearchError;

    fn describe(&self) -> Vec<u8> {
        self.0.describe()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.0.prepared_bytes()
    }

    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SearchError> {
        let mut state = self.1.0.lock().unwrap();
        state.seen.push((SEARCH, request.query.len()));
        let answer = self.0.answer(request, call)?;
        Ok(if state.damages_scores { changed(answer, CHECKSUM_BYTES, damage) } else { answer })
    }
}

struct Records(PirServer<Arc<Collection>>, Service);

impl KeyLoader for Records {
    type Keys = PreparedKeys;
    type KeyError = PirError;

    fn key_set(&self) -> KeySetId {
        self.0.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        self.0.key_limits()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PirError> {
        self.0.loaded_key_bytes(front)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<PreparedKeys, PirError> {
        self.0.load_keys(bundle)
    }

    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), PirError> {
        self.0.check_keys(keys)
    }
}

impl ServerHalf for Records {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        self.0.describe()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.0.prepared_bytes()
    }

    fn answer(&self, request: &Request<'_, PreparedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        let mut state = self.1.0.lock().unwrap();
        state.seen.push((DOCUMENTS, request.query.len()));
        let mut answer = self.0.answer(request, call)?;
        if state.damages_documents {
            answer = changed(answer, RECORDS_CHECKSUM_BYTES, damage);
        }
        if state.lies {
            // The upper half of the version.
            answer = changed(answer, RECORDS_CHECKSUM_BYTES, |content| content[4] ^= 1);
        }
        Ok(answer)
    }
}

fn vectors() -> Array2<f32> {
    Array2::from_shape_fn((NOTES, WIDTH), |(i, j)| ((i + 1) as f32 * (j + 1).pow(2) as f32).sin())
}

fn documents() -> Vec<Document> {
    (0..NOTES).map(|number| Document { id: None, content: format!("note {number}").into() }).collect()
}

/// A service of two readers of a collection, one of which searches and the other has the documents, and a client. The
/// runtime serves until it is dropped.
struct Running {
    folder: tempfile::TempDir,
    service: Service,
    searched: Arc<Collection>,
    fetched: Arc<Collection>,
    searcher: Searcher,
    _runtime: tokio::runtime::Runtime,
}

impl Running {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        Builder::default().build(&path, &documents(), vectors(), &mut |_| (), &AtomicBool::new(false)).unwrap();
        let [searched, fetched] = [0, 1].map(|_| Arc::new(Collection::open(&path, None).unwrap()));
        let service = Service::default();
        let scores = SearchServer::new(Arc::clone(&searched), DOCUMENTS.into()).unwrap();
        let records = PirServer::new(Arc::clone(&fetched)).unwrap();
        let applications = Applications::new().with(SEARCH, Scores(scores, service.clone())).unwrap();
        let applications = applications.with(DOCUMENTS, Records(records, service.clone())).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let config = ServerConfig { listen, data_dir: folder.path().join("data"), ..ServerConfig::default() };
        let server = runtime.block_on(Server::bind(config, applications)).unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        runtime.spawn(server.run(std::future::pending()));
        let open = |application: &str| {
            let state = StateDir::open(&folder.path().join("client"), &url, application).unwrap();
            Ok::<_, ClientError>((Transport::new(TransportConfig::new(&url)).unwrap(), state))
        };
        let searcher = Searcher::connect(SEARCH, open, &mut |_| (), &Cancel::new()).unwrap();
        Running { folder, service, searched, fetched, searcher, _runtime: runtime }
    }

    /// What is found for a vector, and the requests that the service saw.
    fn find(&mut self, vector: &[f32], state: State) -> (Result<Vec<Found>, ClientError>, Seen) {
        *self.service.0.lock().unwrap() = state;
        let found = self.searcher.find(&[vector.to_vec()], MOST, &mut |_| (), &Cancel::new());
        (found.map(|mut found| found.remove(0)), std::mem::take(&mut self.service.0.lock().unwrap().seen))
    }
}

#[test]
fn requests_do_not_depend_on_what_answers_decrypt_to() {
    let mut running = Running::new();
    let vector = vectors().row(7).to_vec();
    let mut find = |damages_scores, damages_documents, lies| {
        running.find(&vector, State { damages_scores, damages_documents, lies, seen: Vec::new() })
    };
    let (found, honest) = find(false, false, false);
    let found = found.unwrap();
    assert_eq!((found.len(), &found[0].document), (MOST, &documents()[7]));
    assert_eq!(honest.iter().map(|&(application, _)| application).collect::<Vec<_>>(), [SEARCH, DOCUMENTS]);
    let (refused, lied_to) = find(false, false, true);
    let refused = refused.unwrap_err();
    assert!(matches!(refused.application(), Some(SearchError::Replaced)), "{refused}");
    assert_eq!(lied_to, honest.repeat(4), "the search and the fetch, four times");
    for (scores, documents) in [(true, false), (false, true), (true, true)] {
        let (refused, seen) = find(scores, documents, false);
        let refused = refused.unwrap_err().to_string();
        assert_eq!(seen, honest, "{scores} {documents}: {refused}");
        let (_, seen) = find(scores, documents, true);
        assert_eq!(seen, lied_to, "{scores} {documents}");
    }
    assert!(find(false, false, false).0.is_ok());
}

#[test]
fn a_change_that_half_of_a_service_has_taken_up_is_no_answer() {
    let mut running = Running::new();
    let vector: Vec<f32> = vectors().row(7).iter().map(|x| -x).collect();
    let mut writer = Writer::open(&running.folder.path().join("notes")).unwrap();
    let texts = |running: &mut Running| {
        let found = running.find(&vector, State::default()).0;
        found.map(|found| String::from_utf8_lossy(&found[0].document.content).into_owned())
    };
    for (change, readers) in [("first", [0, 1]), ("second", [1, 0])] {
        // The second takes the place of the first.
        writer.put(&Document { id: Some(b"new".into()), content: change.into() }, &vector).unwrap();
        writer.commit().unwrap();
        let readers = readers.map(|reader| Arc::clone([&running.searched, &running.fetched][reader]));
        readers[0].refresh().unwrap();
        let refused = texts(&mut running).unwrap_err();
        assert!(matches!(refused.application(), Some(SearchError::Replaced)), "{change}: {refused}");
        readers[1].refresh().unwrap();
        assert_eq!(texts(&mut running).unwrap(), change);
    }
}
