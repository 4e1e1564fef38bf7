//! What a hostile service sees: the number of requests depends only on the number of questions.

use std::borrow::Borrow;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::common::{Cells, TestDatabase, half, record};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir};
use unspoken_pir::{Answer, Description, EncodedQuestion, PirClient, PirError, PirOptions, PirServer, Question};
use unspoken_pir_scheme::{Mode, PreparedKeys, SchemeError};
use unspoken_protocol::{
    ApplicationDescription, Call, ClientHalf, KeyGenerator, KeyLimits, KeyLoader, KeySetId, Limits, Protocol, Request,
    ServerHalf,
};
use unspoken_server::{Applications, Server, ServerConfig};
use zeroize::Zeroizing;

const APPLICATION: &str = "pir/test";

/// A database that can be replaced while it is served, a log of the requests for it, and the steps of each answer.
#[derive(Clone)]
struct Watched(Arc<Mutex<(PirServer<TestDatabase>, Vec<&'static str>)>>, Arc<AtomicU32>);

impl Watched {
    fn new(cells: Cells) -> Self {
        Watched(Arc::new(Mutex::new((half(cells), Vec::new()))), Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, (PirServer<TestDatabase>, Vec<&'static str>)> {
        self.0.lock().unwrap()
    }

    fn exchange(&self, cells: Cells) {
        self.lock().0 = half(cells);
    }

    /// The requests since the last call.
    fn seen(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.lock().1)
    }
}

impl KeyLoader for Watched {
    type Keys = PreparedKeys;
    type KeyError = PirError;

    fn key_set(&self) -> KeySetId {
        self.lock().0.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        self.lock().0.key_limits()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PirError> {
        self.lock().0.loaded_key_bytes(front)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<PreparedKeys, PirError> {
        self.lock().0.load_keys(bundle)
    }

    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), PirError> {
        self.lock().0.check_keys(keys)
    }
}

impl ServerHalf for Watched {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        let mut own = self.lock();
        own.1.push("description");
        own.0.describe()
    }

    fn limits(&self) -> Limits {
        self.lock().0.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.lock().0.prepared_bytes()
    }

    fn answer(&self, request: &Request<'_, PreparedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        let steps = self.1.load(Ordering::Relaxed);
        for done in 1..=steps {
            call.report(done, steps);
            std::thread::sleep(Duration::from_millis(600));
        }
        let mut own = self.lock();
        own.1.push("query");
        own.0.answer(request, call)
    }
}

struct Service {
    url: String,
    folder: TempDir,
    _runtime: Runtime,
}

impl Service {
    fn start(watched: &Watched) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let applications = Applications::new().with(APPLICATION, watched.clone()).unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let config = ServerConfig { listen, data_dir: folder.path().join("data"), ..ServerConfig::default() };
        let server = runtime.block_on(Server::bind(config, applications)).unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        runtime.spawn(server.run(std::future::pending()));
        Service { url, folder, _runtime: runtime }
    }

    /// Connects a client with the state of this name; clients of one name are processes of one user.
    fn connect(&self, name: &str) -> Result<ServiceClient<PirClient>, ClientError> {
        let state = self.state(name);
        let options = PirOptions::new(Mode::Packed, state.clone());
        let transport = Transport::new(TransportConfig::new(&self.url)).unwrap();
        ServiceClient::insecure_connect(transport, APPLICATION, options, &state, &mut |_| {}, &Cancel::new())
    }

    fn state(&self, name: &str) -> StateDir {
        StateDir::open(&self.folder.path().join(name), &self.url, APPLICATION).unwrap()
    }
}

/// A client half that counts the answers it reads.
struct Counting(PirClient, Arc<AtomicUsize>);

impl KeyGenerator for Counting {
    type KeyError = PirError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, PirError> {
        self.0.secret_bytes()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.0.bundle_contents()
    }

    fn key_bytes(&self) -> u64 {
        self.0.key_bytes()
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), PirError> {
        self.0.write_keys(out, progress, cancel)
    }
}

impl ClientHalf for Counting {
    type Error = PirError;
    type Description = Description;
    type Model = (PirOptions, Arc<AtomicUsize>);
    type Question = Question;
    type Encoded = EncodedQuestion;
    type Answer = Answer;

    const VERB: &'static str = "counting";

    fn open(description: Description, model: Self::Model, stored: Option<&[u8]>) -> Result<Self, PirError> {
        Ok(Counting(PirClient::open(description, model.0, stored)?, model.1))
    }

    fn description(&self) -> &Description {
        self.0.description()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.0.query_bytes(questions)
    }

    /// A description of large answers.
    fn answer_bytes(&self, _questions: usize) -> usize {
        512 << 20
    }

    fn encode<Q: Borrow<Question>>(&self, questions: &[Q]) -> Result<Vec<EncodedQuestion>, PirError> {
        self.0.encode(questions)
    }

    fn query(&mut self, questions: &[EncodedQuestion]) -> Result<Vec<u8>, PirError> {
        self.0.query(questions)
    }

    fn read(&self, answer: &[u8], questions: &[EncodedQuestion]) -> Result<Vec<Answer>, PirError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read(answer, questions)
    }
}

/// A client half of another kind of application, whose description nothing can be read from.
struct Other(PirClient);

/// Its description.
#[derive(Clone)]
struct OtherDescription;

impl ApplicationDescription for OtherDescription {
    type Error = PirError;

    const PROTOCOL: Protocol = Protocol { kind: "other", version: 1 };

    fn read(_: &[u8], _: bool) -> Result<Self, PirError> {
        Ok(OtherDescription)
    }

    fn key_set(&self) -> KeySetId {
        KeySetId::new("other", &[0; 16])
    }
}

impl KeyGenerator for Other {
    type KeyError = PirError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, PirError> {
        self.0.secret_bytes()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.0.bundle_contents()
    }

    fn key_bytes(&self) -> u64 {
        self.0.key_bytes()
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), PirError> {
        self.0.write_keys(out, progress, cancel)
    }
}

impl ClientHalf for Other {
    type Error = PirError;
    type Description = OtherDescription;
    type Model = ();
    type Question = Question;
    type Encoded = EncodedQuestion;
    type Answer = Answer;

    const VERB: &'static str = "asking";

    fn open(_: OtherDescription, (): (), _: Option<&[u8]>) -> Result<Self, PirError> {
        unreachable!("a description of another kind is refused before a client is opened")
    }

    fn description(&self) -> &OtherDescription {
        &OtherDescription
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.0.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.0.answer_bytes(questions)
    }

    fn encode<Q: Borrow<Question>>(&self, questions: &[Q]) -> Result<Vec<EncodedQuestion>, PirError> {
        self.0.encode(questions)
    }

    fn query(&mut self, questions: &[EncodedQuestion]) -> Result<Vec<u8>, PirError> {
        self.0.query(questions)
    }

    fn read(&self, answer: &[u8], questions: &[EncodedQuestion]) -> Result<Vec<Answer>, PirError> {
        self.0.read(answer, questions)
    }
}

fn ask(client: &mut ServiceClient<PirClient>, indices: &[u64]) -> Result<Vec<Answer>, ClientError> {
    let questions: Vec<Question> = indices.iter().map(|&index| Question::Index(index)).collect();
    client.ask(&questions, &mut |_| {}, &Cancel::new())
}

#[test]
fn a_damaged_record_changes_no_request_whether_it_was_asked_for_or_not() {
    let watched = Watched::new(Cells::new(100, &[7]));
    let service = Service::start(&watched);
    let mut client = service.connect("one").unwrap();
    let mut observe = |indices: std::ops::Range<u64>| {
        watched.seen();
        let answers = ask(&mut client, &indices.collect::<Vec<_>>());
        (answers, watched.seen())
    };
    let (sound, requests) = observe(30..70);
    assert_eq!(sound.unwrap().len(), 40);
    assert_eq!(requests, ["query"; 3]);
    let (damaged, requests_for_damaged) = observe(0..40);
    let error = damaged.unwrap_err();
    assert!(matches!(error.application(), Some(PirError::Pir(SchemeError::Cell { .. }))), "{error}");
    assert_eq!(requests_for_damaged, requests);
}

#[test]
fn all_answers_are_read_although_the_first_is_damaged() {
    let watched = Watched::new(Cells::new(100, &[7]));
    let service = Service::start(&watched);
    let (state, reads) = (service.state("one"), Arc::new(AtomicUsize::new(0)));
    let model = (PirOptions::new(Mode::Packed, state.clone()), Arc::clone(&reads));
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let client = ServiceClient::insecure_connect(transport, APPLICATION, model, &state, &mut |_| {}, &Cancel::new());
    let mut client: ServiceClient<Counting> = client.unwrap();
    for (indices, sound) in [(30..70, true), (0..40, false)] {
        let questions: Vec<Question> = indices.map(Question::Index).collect();
        assert_eq!(client.ask(&questions, &mut |_| {}, &Cancel::new()).is_ok(), sound);
        assert_eq!(reads.swap(0, Ordering::Relaxed), 3);
    }
    // Five answers of 512 MiB are more than a call keeps.
    watched.seen();
    let questions: Vec<Question> = (0..65).map(Question::Index).collect();
    let error = client.ask(&questions, &mut |_| {}, &Cancel::new()).unwrap_err();
    assert!(matches!(error, ClientError::TooMuch { questions: 64, .. }), "{error}");
    assert!(watched.seen().is_empty());
}

#[test]
fn an_index_out_of_range_changes_no_request() {
    let watched = Watched::new(Cells::new(100, &[]));
    let service = Service::start(&watched);
    let mut client = service.connect("one").unwrap();
    watched.seen();
    let inside = ask(&mut client, &[99, 5]).unwrap();
    assert_eq!(inside[0].record.as_deref(), Some(&record(99)));
    let requests = watched.seen();
    let error = ask(&mut client, &[5, 100_000]).unwrap_err();
    assert!(matches!(error.application(), Some(PirError::NoSuchIndex { position: 1, records: 100 })), "{error}");
    assert_eq!(watched.seen(), requests);
}

#[test]
fn questions_that_cannot_be_asked_send_nothing() {
    let watched = Watched::new(Cells::new(100, &[]));
    let service = Service::start(&watched);
    let mut client = service.connect("one").unwrap();
    watched.seen();
    let mut questions: Vec<Question> = (0..40).map(Question::Index).collect();
    questions.push(Question::Key(b"key".to_vec()));
    let error = client.ask(&questions, &mut |_| {}, &Cancel::new()).unwrap_err();
    assert!(error.to_string().contains("read by index"), "{error}");
    assert!(watched.seen().is_empty());
}

#[test]
fn a_database_that_shrank_is_refused_whatever_was_asked_for() {
    let mut observed = Vec::new();
    // An index inside the smaller database, and one outside.
    for index in [10, 2900] {
        let watched = Watched::new(Cells::new(3000, &[]));
        let service = Service::start(&watched);
        let mut client = service.connect("one").unwrap();
        ask(&mut client, &[index]).unwrap();
        watched.seen();
        watched.exchange(Cells::new(2000, &[]));
        let error = ask(&mut client, &[index]).unwrap_err().to_string();
        assert!(error.contains("do not trust this service"), "{error}");
        // Another process of the same user does not continue either.
        let error = service.connect("one").err().unwrap().to_string();
        assert!(error.contains("do not trust this service"), "{error}");
        observed.push(watched.seen());
        // A user who never saw the larger database cannot know.
        service.connect("two").unwrap();
    }
    assert_eq!(observed[0], observed[1]);
    assert_eq!(observed[0][0], "query");
}

#[test]
fn the_cost_of_questions_is_known_before_they_are_asked() {
    let service = Service::start(&Watched::new(Cells::new(100, &[])));
    let state = service.state("one");
    for mode in [Mode::Packed, Mode::Session] {
        let options = PirOptions::new(mode, state.clone());
        let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
        let connected =
            ServiceClient::insecure_connect(transport, APPLICATION, options, &state, &mut |_| {}, &Cancel::new());
        let mut client: ServiceClient<PirClient> = connected.unwrap();
        // Full requests, and the rest.
        let indices: Vec<u64> = (0..35).collect();
        let cost = client.cost(indices.len());
        assert_eq!((cost.questions, cost.batch, cost.queries, cost.key_bytes), (35, 16, 3, 0));
        ask(&mut client, &indices).unwrap();
        let usage = client.usage();
        assert_eq!((cost.query_bytes, cost.answer_bytes), (usage.query_bytes, usage.answer_bytes), "{mode}");
    }
}

#[test]
fn the_steps_of_each_answer_are_reported() {
    let watched = Watched::new(Cells::new(100, &[]));
    let service = Service::start(&watched);
    let mut client = service.connect("one").unwrap();
    let questions: Vec<Question> = (0..20).map(Question::Index).collect();
    for (steps, answering) in [(0, vec![]), (2, vec![(1, 2), (2, 2)])] {
        watched.1.store(steps, Ordering::Relaxed);
        let mut reported = Vec::new();
        client.ask(&questions, &mut |step| reported.push(step), &Cancel::new()).unwrap();
        // Two queries, each with its steps before its answers.
        let mut expected = vec![reported[0]];
        for done in [0, 16, 20] {
            let verb = PirClient::VERB;
            expected.push(Progress::Asking { verb, done, total: 20 });
            let of_next = answering.iter().filter(|_| done < 20);
            expected.extend(of_next.map(|&(done, total)| Progress::Answering { done, total }));
        }
        assert_eq!(reported, expected);
    }
}

#[test]
fn an_application_of_another_kind_is_named() {
    let service = Service::start(&Watched::new(Cells::new(100, &[])));
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let state = service.state("one");
    let connected = ServiceClient::<Other>::connect(transport, APPLICATION, (), &state, &mut |_| {}, &Cancel::new());
    let error = connected.err().unwrap();
    let found = matches!(&error, ClientError::OtherKind { found, needed: "other", .. } if found == "retrieve");
    assert!(found && error.to_string().contains(&service.url), "{error}");
}

#[test]
fn a_secret_key_that_cannot_be_used_is_named() {
    let service = Service::start(&Watched::new(Cells::new(10, &[])));
    let state = service.state("one");
    drop(service.connect("one").unwrap());
    let files = std::fs::read_dir(state.path()).unwrap().map(|file| file.unwrap().path());
    let is_secret = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("secret-");
    let secret = files.filter(is_secret).collect::<Vec<_>>().pop().unwrap();
    let sound = std::fs::read(&secret).unwrap();
    for damaged in [&sound[..sound.len() / 2], b"", b"a text"] {
        std::fs::write(&secret, damaged).unwrap();
        let error = service.connect("one").err().unwrap();
        assert!(matches!(&error, ClientError::SecretKey { path, .. } if *path == secret.to_string_lossy()), "{error}");
        assert!(error.to_string().contains("restore the file from a copy, or delete it"), "{error}");
    }
    std::fs::write(&secret, sound).unwrap();
    ask(&mut service.connect("one").unwrap(), &[3]).unwrap();
}

#[test]
fn a_database_that_grew_is_asked_again() {
    let watched = Watched::new(Cells::new(2000, &[]));
    let service = Service::start(&watched);
    let mut client = service.connect("one").unwrap();
    watched.seen();
    watched.exchange(Cells::new(3000, &[]));
    let indices: Vec<u64> = (1990..2010).collect();
    let answers = ask(&mut client, &indices).unwrap();
    assert!(answers.iter().zip(&indices).all(|(answer, &i)| answer.record.as_deref() == Some(&record(i))));
    // The first batch of two fails, then both are sent.
    assert_eq!(watched.seen(), ["query", "description", "description", "query", "query"]);
}

#[test]
fn no_bundle_of_keys_stays_behind() {
    let watched = Watched::new(Cells::new(100, &[]));
    let service = Service::start(&watched);
    let bundles = || {
        let names = std::fs::read_dir(service.state("one").path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("bundle-")).count()
    };
    // A bundle that an earlier version left.
    std::fs::write(service.state("one").path().join("bundle-0123.keys"), b"keys").unwrap();
    let stale = std::fs::File::options().append(true).open(service.state("one").path().join("bundle-0123.keys"));
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    stale.unwrap().set_modified(long_ago).unwrap();
    // Cancelled while keys are being made.
    let state = service.state("one");
    let (options, cancel) = (PirOptions::new(Mode::Packed, state.clone()), Cancel::new());
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let mut stop = |_| cancel.cancel();
    let stopped =
        ServiceClient::<PirClient>::insecure_connect(transport, APPLICATION, options, &state, &mut stop, &cancel);
    assert!(stopped.err().unwrap().is_cancelled());
    assert_eq!(bundles(), 0);
    service.connect("one").unwrap();
    assert_eq!(bundles(), 0);
}
