//! One service without tokens and many applications: keys are shared, and nobody meets a limit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::{Cells, half, record};
use ndarray::{Array2, Array3};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_classify::{ClassifyClient, ClassifyOptions, ClassifyServer};
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, ServiceClient, StateDir};
use unspoken_digits::{DigitsClient, DigitsServer};
use unspoken_digits_model::{Image, Network, PIXELS, Shape, TrainingRecord};
use unspoken_embed::{EmbedClient, EmbedOptions, EmbedServer};
use unspoken_embedding::{CompressOptions, CompressedTable, EmbeddingTable, TokenList, compress};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_fasttext::{Model, TrainOptions, fit};
use unspoken_matrix::{Axes, MatrixClient, MatrixServer, NamedArrays, Options, Program, ProgramSource};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::ClientHalf;
use unspoken_server::{Applications, Server, ServerConfig, ServerError};

static GO: AtomicBool = AtomicBool::new(false);

/// Address of the service in the clients' state: the same after a restart on another port.
const URL: &str = "http://service";

const DATABASES: [&str; 5] = ["pir/one", "pir/two", "pir/three", "pir/four", "pir/five"];

fn parameters(preset: &str) -> CkksParameters {
    Preset::find(preset).unwrap().build().unwrap()
}

fn model(seed: u64) -> Model {
    let words = |i: usize| if i.is_multiple_of(2) { "lunch at noon" } else { "win free cash" };
    let texts: Vec<String> = (0..40).map(|i| words(i).into()).collect();
    let labels: Vec<String> = (0..40).map(|i| if i % 2 == 0 { "ham" } else { "spam" }.into()).collect();
    fit(&texts, &labels, &TrainOptions { seed, ..TrainOptions::default() }, &mut |_| {}, &GO).unwrap()
}

fn table() -> CompressedTable {
    let tokens = TokenList::new((0..40).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..40 * 3).map(|i| ((i * i) as f32 * 0.37).cos()).collect();
    let options = CompressOptions { columns: 8, rounds: 2, ..CompressOptions::default() };
    compress(&EmbeddingTable::new(tokens, 3, values).unwrap(), &options, &mut |_| {}, &GO).unwrap()
}

fn network() -> Network {
    let shape = Shape { channels: 1, hidden: 16 };
    let count = 49 + 1 + 16 * shape.features() + 16 + 160 + 10;
    let parameters = (0..count).map(|i| 0.05 * (i as f64 * 0.7).sin()).collect();
    Network::new(shape, parameters, TrainingRecord::default()).unwrap()
}

/// What a service offers.
struct Models {
    model: Model,
    table: CompressedTable,
    databases: usize,
}

impl Models {
    fn new(databases: usize) -> Self {
        Models { model: model(1), table: table(), databases }
    }

    fn applications(&self) -> Applications {
        // Parameters of each application's own, as the command builds them.
        let lookup = || parameters("insecure_n11_depth9_scale50");
        let classify = ClassifyServer::new(self.model.tables(), &lookup(), &ClassifyOptions::default()).unwrap();
        let embed = EmbedServer::new(self.table.subtables(), &lookup(), &EmbedOptions::default()).unwrap();
        let real = parameters("insecure_n11_real_depth17_scale30");
        let digits = DigitsServer::new(&network(), &real, Some(2)).unwrap();
        let mut applications = Applications::new()
            .with("classify/spam", classify)
            .and_then(|all| all.with("embed/words", embed))
            .and_then(|all| all.with("digits/mnist", digits))
            .unwrap();
        for name in &DATABASES[..self.databases] {
            applications = applications.with(name, half(Cells::new(100, &[]))).unwrap();
        }
        applications
    }
}

/// A running service without tokens.
struct Service {
    address: String,
    runtime: Runtime,
}

impl Service {
    fn start(models: &Models, folder: &Path) -> Self {
        Self::start_within(models.applications(), folder, ServerConfig::default().limits.memory_bytes).unwrap()
    }

    /// Starts with so much memory.
    fn start_within(applications: Applications, folder: &Path, memory_bytes: u64) -> Result<Self, ServerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let mut config = ServerConfig { listen, data_dir: folder.join("data"), ..ServerConfig::default() };
        config.limits.memory_bytes = memory_bytes;
        let server = runtime.block_on(Server::bind(config, applications))?;
        let address = format!("http://{}", server.local_addr().unwrap());
        runtime.spawn(server.run(std::future::pending()));
        Ok(Service { address, runtime })
    }

    /// Stops without a shutdown: the runtime ends its tasks.
    fn stop(self) {
        self.runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    }

    fn transport(&self) -> Transport {
        Transport::new(TransportConfig::new(&self.address)).unwrap()
    }
}

/// A user with a state directory.
struct User<'a> {
    service: &'a Service,
    models: &'a Models,
    root: TempDir,
}

impl<'a> User<'a> {
    fn new(service: &'a Service, models: &'a Models) -> Self {
        User { service, models, root: tempfile::tempdir().unwrap() }
    }

    fn state(&self, application: &str) -> StateDir {
        StateDir::open(self.root.path(), URL, application).unwrap()
    }

    fn connect<H: ClientHalf>(&self, application: &str, model: H::Model) -> Result<ServiceClient<H>, ClientError> {
        connect(self.service, self.root.path(), application, model)
    }

    fn classifier(&self) -> ServiceClient<ClassifyClient> {
        self.connect("classify/spam", Arc::new(self.models.model.encoder().clone())).unwrap()
    }

    fn embedder(&self) -> ServiceClient<EmbedClient> {
        self.connect("embed/words", Arc::new(self.models.table.codes().clone())).unwrap()
    }

    fn retriever(&self, database: &str, mode: Mode) -> ServiceClient<PirClient> {
        self.connect(database, PirOptions::new(mode, self.state(database))).unwrap()
    }

    /// Asks for a record; returns the bytes of keys that were uploaded for it.
    fn get(&self, database: &str, mode: Mode) -> u64 {
        let mut client = self.retriever(database, mode);
        let answers = ask(&mut client, &[Question::Index(7)]);
        assert_eq!(answers[0].record.as_deref(), Some(&record(7)), "{database}, {mode}");
        client.usage().key_bytes
    }

    fn recognise(&self) -> u64 {
        let mut client: ServiceClient<DigitsClient> = self.connect("digits/mnist", ()).unwrap();
        let image = Image::new(&(0..PIXELS).map(|i| (i % 251) as u8).collect::<Vec<u8>>()).unwrap();
        assert_eq!(ask(&mut client, &[image]).len(), 1);
        client.usage().key_bytes
    }

    fn uploaded(&self) -> usize {
        StateDir::uploaded_keys(self.root.path(), URL).unwrap().len()
    }
}

/// Connects a client whose state is below `root`.
fn connect<H: ClientHalf>(
    service: &Service,
    root: &Path,
    application: &str,
    model: H::Model,
) -> Result<ServiceClient<H>, ClientError> {
    let (state, cancel) = (StateDir::open(root, URL, application).unwrap(), Cancel::new());
    ServiceClient::insecure_connect(service.transport(), application, model, &state, &mut |_| {}, &cancel)
}

fn ask<H: ClientHalf<Question = Q>, Q: std::borrow::Borrow<Q>>(
    client: &mut ServiceClient<H>,
    questions: &[Q],
) -> Vec<H::Answer> {
    client.ask(questions, &mut |_| {}, &Cancel::new()).unwrap()
}

fn classify(client: &mut ServiceClient<ClassifyClient>) {
    let answers = client.ask(&["win free cash", "lunch at noon"], &mut |_| {}, &Cancel::new()).unwrap();
    assert_eq!([&answers[0].label, &answers[1].label], ["spam", "ham"]);
}

fn embed(client: &mut ServiceClient<EmbedClient>, table: &CompressedTable) {
    let answer = &ask(client, &[39])[0];
    for (found, clear) in answer.iter().zip(table.reconstruct_row(39).unwrap()) {
        assert!((found - f64::from(clear)).abs() < 1e-4, "{found} {clear}");
    }
}

fn bundles(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("data/keys")).unwrap().count()
}

/// The walk of a newcomer, which used to end at the fifth bundle.
#[test]
fn following_the_readme_meets_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let models = Models::new(4);
    let service = Service::start(&models, folder.path());
    let user = User::new(&service, &models);
    classify(&mut user.classifier());
    embed(&mut user.embedder(), &models.table);
    assert!(user.recognise() > 0);
    assert!(user.get("pir/one", Mode::Packed) > 0);
    assert!(user.get("pir/one", Mode::Compact) > 0);
    for database in &DATABASES[1..4] {
        assert_eq!(user.get(database, Mode::Packed), 0, "{database} has keys of its own");
    }
    // One bundle for texts and embeddings, one for digits, one for all kinds of queries: the bundle of compact queries
    // has taken the place of the bundle of packed queries.
    assert_eq!((bundles(folder.path()), user.uploaded()), (3, 3));
    assert_eq!(user.classifier().usage().key_bytes + user.embedder().usage().key_bytes, 0);
    let root = user.root;
    service.stop();

    // A retrained model and a fifth database take the keys that are there.
    let models = Models { model: model(2), ..Models::new(5) };
    let service = Service::start(&models, folder.path());
    let user = User { service: &service, models: &models, root };
    let mut classifier = user.classifier();
    classify(&mut classifier);
    assert_eq!(classifier.usage().key_bytes, 0);
    assert_eq!(user.get("pir/five", Mode::Packed) + user.get("pir/five", Mode::Compact), 0);
    assert_eq!(bundles(folder.path()), 3);

    // Six more clients without a token.
    for _ in 0..6 {
        let user = User::new(&service, &models);
        classify(&mut user.classifier());
        user.get("pir/two", Mode::Packed);
    }
    assert_eq!(bundles(folder.path()), 3 + 6 * 2);
    classify(&mut classifier);
}

#[test]
fn a_client_that_needs_more_keys_replaces_its_bundle_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let models = Models::new(0);
    let service = Service::start(&models, folder.path());
    let user = User::new(&service, &models);
    let mut embedder = user.embedder();
    let first = embedder.key().clone();
    let (alone, needed) = (embedder.usage().key_bytes, embedder.half().description().clone());
    let mut classifier = user.classifier();
    let both = classifier.usage().key_bytes;
    assert!(both > alone, "{both} bytes of keys for both, {alone} for one ({needed:?})");
    assert_eq!(bundles(folder.path()), 1, "the first bundle was replaced");
    classify(&mut classifier);
    // The other process of the user goes on with the new bundle, without uploading anything.
    embed(&mut embedder, &models.table);
    assert_eq!(embedder.key(), classifier.key());
    assert_ne!(*embedder.key(), first);
    assert_eq!(embedder.usage().key_bytes, alone);
    // A bundle that gave way to others is made again.
    service.transport().delete_key(embedder.key(), &Cancel::new()).unwrap();
    embed(&mut embedder, &models.table);
    classify(&mut classifier);
    embed(&mut embedder, &models.table);
    assert_eq!(bundles(folder.path()), 1);
}

#[test]
fn numbers_of_session_queries_are_not_repeated_at_another_database() {
    let folder = tempfile::tempdir().unwrap();
    let models = Models::new(2);
    let service = Service::start(&models, folder.path());
    let user = User::new(&service, &models);
    assert!(user.get("pir/one", Mode::Session) > 0);
    assert_eq!(user.get("pir/two", Mode::Session) + user.get("pir/one", Mode::Session), 0);
    let files = std::fs::read_dir(user.state("pir/one").path()).unwrap().map(|entry| entry.unwrap().path());
    let next: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "next")).collect();
    assert_eq!(next.len(), 1, "both databases count in one file");
    assert_eq!(std::fs::read(&next[0]).unwrap(), 3u32.to_le_bytes());
}

/// Number of vectors in a question to each of the applications below. The first needs more memory for an answer.
const VECTORS: [usize; 2] = [384, 1];

/// Two applications of one preset and thus one secret, without a key in common: the first moves the entries of each
/// vector by one place, the second by two.
fn moving_applications() -> Applications {
    let moving = |places: usize| {
        let mut graph = Graph::new();
        let vector = graph.input("vector", (1, 4)).unwrap();
        let weights = Array2::from_shape_fn((4, 4), |(i, j)| f64::from((i + places) % 4 == j));
        graph.push(Operation::TimesRight(weights), &[vector]).unwrap();
        let preset = Some("insecure_n11_real_depth9_scale50".into());
        let (batch, tile) = (VECTORS[places - 1], Some(4));
        let options = Options { preset, batch, tile, blocks: Some(1), one_row: Some(false), ..Options::default() };
        let source = ProgramSource { graph, inputs: vec![Axes::BATCH], output: Axes::BATCH, options };
        MatrixServer::new(Program::plan(source).unwrap()).unwrap()
    };
    Applications::new().with("matrix/one", moving(1)).and_then(|all| all.with("matrix/two", moving(2))).unwrap()
}

/// Clients of both applications, who share a state directory.
fn connect_movers(service: &Service, root: &Path) -> [ServiceClient<MatrixClient>; 2] {
    ["matrix/one", "matrix/two"].map(|application| connect(service, root, application, ()).unwrap())
}

/// Asks one of them.
fn move_entries(clients: &mut [ServiceClient<MatrixClient>; 2], which: usize) {
    let vectors = Array3::from_shape_fn((VECTORS[which], 1, 4), |(p, _, j)| (p + j) as f64 / 1000.0);
    let question: NamedArrays = vec![("vector".into(), vectors.clone())];
    let moved = ask(&mut clients[which], &[question]).remove(0);
    for ((p, _, j), found) in moved.indexed_iter() {
        assert!((found - vectors[(p, 0, (j + 3 - which) % 4)]).abs() < 1e-6, "{which}: {moved}");
    }
}

/// Where the memory has no room for a bundle of all keys beside an answer, each application has a bundle of its own.
#[test]
fn applications_whose_keys_do_not_fit_together_do_not_displace_each_other() {
    let (mut memory, mut found) = (1, Vec::new());
    // From the least memory with which the service starts to the least that has room for a common bundle.
    while found.last() != Some(&[1, 1]) {
        let folder = tempfile::tempdir().unwrap();
        let service = match Service::start_within(moving_applications(), folder.path(), memory) {
            Err(ServerError::Memory { needed, .. }) => {
                assert!(needed > memory && found.is_empty());
                memory = needed;
                continue;
            }
            other => other.unwrap(),
        };
        let root = tempfile::tempdir().unwrap();
        let mut clients = connect_movers(&service, root.path());
        let connected = bundles(folder.path());
        // A common bundle has replaced the bundle of the first client, which may have no room for it.
        move_entries(&mut clients, 0);
        move_entries(&mut clients, 1);
        move_entries(&mut clients, 0);
        let asked = bundles(folder.path());
        for _ in 0..2 {
            let mut clients = connect_movers(&service, root.path());
            move_entries(&mut clients, 0);
            move_entries(&mut clients, 1);
            let uploaded = clients.map(|client| client.usage().key_bytes);
            assert_eq!(uploaded, [0, 0], "{memory}: keys are sent again");
        }
        assert_eq!(bundles(folder.path()), asked, "{memory}");
        found.push([connected, asked]);
        assert!(found.len() < 100, "{found:?}");
        service.stop();
        memory += 150_000;
    }
    // With the least memory, the service refuses a common bundle when it is uploaded; with more, an answer of the
    // first application when it is asked for; both end with two bundles.
    found.dedup();
    assert_eq!(found, [[2, 2], [1, 2], [1, 1]]);
}
