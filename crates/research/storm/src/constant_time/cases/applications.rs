//! Clients of applications: their queries, and how they read answers. The answers are computed beforehand.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3};
use unspoken_ckks::Preset;
use unspoken_classify::{
    ClassifyClient, ClassifyOptions, ClassifyServer, HeadClient, HeadModel, HeadServer, HeadTables,
};
use unspoken_digits::{DigitsClient, DigitsServer};
use unspoken_digits_model::{Image, Network, PIXELS, Shape, TrainingRecord};
use unspoken_embedding::{CompressOptions, EmbeddingTable, LinearHead, TokenCodes, TokenList, compress};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_fasttext::{Encoder, TrainOptions, fit};
use unspoken_matrix::{Axes, MatrixClient, MatrixServer, NamedArrays, Options, Program, ProgramSource};
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, KeyGenerator, Request, ServerHalf};

use super::{secret_bytes, secret_numbers};
use crate::constant_time::memcheck::mark_secret;

const CLIENT: ClientId = ClientId::new([1; 16]);
static GO: AtomicBool = AtomicBool::new(false);

/// What a client has when the answer arrives.
pub struct Asked {
    /// The service's description.
    pub description: Vec<u8>,
    /// The client's stored secret.
    pub stored: Vec<u8>,
    /// The answer.
    pub answer: Vec<u8>,
}

impl Asked {
    /// Reads what [`ask_server`] wrote.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| std::fs::read(directory.join(name));
        Ok(Asked { description: read("description")?, stored: read("stored")?, answer: read("answer")? })
    }
}

/// Asks a server in this process, as a client with a new secret, a whole query of questions at once. Writes what the
/// client has after the last answer.
pub fn ask_server<S: ServerHalf, C: ClientHalf>(
    server: &S,
    model: C::Model,
    questions: &[impl Borrow<C::Question>],
    directory: &Path,
) -> anyhow::Result<()>
where
    S::Error: std::error::Error + Send + Sync + 'static,
    S::KeyError: std::error::Error + Send + Sync + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
    <C as KeyGenerator>::KeyError: std::error::Error + Send + Sync + 'static,
    <C::Description as ApplicationDescription>::Error: std::error::Error + Send + Sync + 'static,
{
    let described = server.describe();
    let mut client = C::open(C::Description::read(&described, true)?, model, None)?;
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO)?;
    let keys = server.load_keys(&mut bundle.as_slice())?;
    let mut answer = Vec::new();
    for questions in questions.chunks(client.batch()) {
        let encoded = client.encode(questions)?;
        answer = server.answer(&Request::new(CLIENT, &keys, &client.query(&encoded)?), &Call::default())?;
        client.read(&answer, &encoded)?;
    }
    std::fs::write(directory.join("description"), described)?;
    std::fs::write(directory.join("stored"), client.secret_bytes()?.as_slice())?;
    std::fs::write(directory.join("answer"), answer)?;
    Ok(())
}

/// The client with its stored secret marked.
pub fn open_client<C: ClientHalf>(description: &[u8], model: C::Model, stored: &[u8]) -> anyhow::Result<C>
where
    C::Error: std::error::Error + Send + Sync + 'static,
    <C::Description as ApplicationDescription>::Error: std::error::Error + Send + Sync + 'static,
{
    let mut secret = stored.to_vec();
    mark_secret(&mut secret);
    Ok(C::open(C::Description::read(description, true)?, model, Some(&secret))?)
}

const MESSAGES: [&str; 4] = ["lunch at noon", "win free cash", "see you at home", "claim your prize now"];

pub fn prepare_classify(directory: &Path) -> anyhow::Result<()> {
    let texts: Vec<String> = (0..40).map(|i| MESSAGES[i % 4].into()).collect();
    let labels: Vec<String> = (0..40).map(|i| if i % 2 == 0 { "ham" } else { "spam" }.into()).collect();
    let options = TrainOptions { seed: 1, columns: 32, ..TrainOptions::default() };
    let model = fit(&texts, &labels, &options, &mut |_| {}, &GO)?;
    model.save(directory.join("model"))?;
    let parameters = Preset::find("insecure_n11_depth9_scale50")?.build()?;
    let server = ClassifyServer::new(model.tables(), &parameters, &ClassifyOptions::default())?;
    for messages in BATCHES {
        let directory = directory.join(messages.len().to_string());
        std::fs::create_dir(&directory)?;
        ask_server::<_, ClassifyClient>(&server, Arc::new(model.encoder().clone()), messages, &directory)?;
    }
    Ok(())
}

/// A full query and a small one.
const BATCHES: [&[&str]; 2] = [&MESSAGES, &[MESSAGES[0]]];

/// The words of a message are turned into indices in time that depends on them (SECURITY.md); the case `index-queries`
/// has the indices, this one has the answer.
pub fn classify(directory: &Path) -> anyhow::Result<()> {
    let words = Arc::new(Encoder::load(directory.join("model"))?);
    for messages in BATCHES {
        let Asked { description, stored, answer } = Asked::read(&directory.join(messages.len().to_string()))?;
        let client = open_client::<ClassifyClient>(&description, Arc::clone(&words), &stored)?;
        let encoded = client.encode(messages)?;
        client.check_answer(&answer, messages.len())?;
        anyhow::ensure!(client.read(&answer, &encoded)?.len() == messages.len(), "an answer for each message");
    }
    Ok(())
}

pub fn prepare_layer(directory: &Path) -> anyhow::Result<()> {
    let tokens: BTreeSet<String> = MESSAGES.join(" ").split(' ').map(str::to_owned).collect();
    let tokens = Vec::from_iter(tokens);
    let values = (0..tokens.len() * 3).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let table = EmbeddingTable::new(TokenList::new(tokens)?, 3, values)?;
    let options = CompressOptions { columns: 8, rounds: 2, ..CompressOptions::default() };
    let table = compress(&table, &options, &mut |_| {}, &GO)?;
    table.save(directory.join("table"))?;
    let classes = ["ham", "spam"].map(String::from).to_vec();
    let head = LinearHead::new(classes, 128, 3, vec![1.0, -0.5, 0.25, -1.0, 0.5, 2.0], vec![0.1, -0.1])?;
    let parameters = Preset::find("insecure_n11_depth9_scale50")?.build()?;
    let server =
        HeadServer::new(&HeadTables::new(&head, table.subtables())?, &parameters, &ClassifyOptions::default())?;
    for messages in BATCHES {
        let directory = directory.join(messages.len().to_string());
        std::fs::create_dir(&directory)?;
        let model = HeadModel { codes: Arc::new(table.codes().clone()), cut: false };
        ask_server::<_, HeadClient>(&server, model, messages, &directory)?;
    }
    Ok(())
}

/// As [`classify`].
pub fn layer(directory: &Path) -> anyhow::Result<()> {
    let model = HeadModel { codes: Arc::new(TokenCodes::load(directory.join("table"))?), cut: false };
    for messages in BATCHES {
        let Asked { description, stored, answer } = Asked::read(&directory.join(messages.len().to_string()))?;
        let client = open_client::<HeadClient>(&description, model.clone(), &stored)?;
        let encoded = client.encode(messages)?;
        client.check_answer(&answer, messages.len())?;
        let answers = client.read(&answer, &encoded)?;
        anyhow::ensure!(client.share(&answers, 10)?.len() == messages.len(), "an answer for each message");
    }
    Ok(())
}

pub fn prepare_digits(directory: &Path) -> anyhow::Result<()> {
    let shape = Shape { channels: 1, hidden: 16 };
    let weights = (0..shape.parameters()).map(|i| ((i * 7919) % 201) as f64 / 2000.0 - 0.05).collect();
    let network = Network::new(shape, weights, TrainingRecord::default())?;
    let parameters = Preset::find("insecure_n11_real_depth17_scale30")?.build()?;
    let server = DigitsServer::new(&network, &parameters, Some(2))?;
    let pixels: Vec<u8> = (0..PIXELS).map(|i| (i * 31) as u8).collect();
    ask_server::<_, DigitsClient>(&server, (), &[Image::new(&pixels)?], directory)
}

pub fn digits(directory: &Path) -> anyhow::Result<()> {
    let Asked { description, stored, answer } = Asked::read(directory)?;
    let mut client = open_client::<DigitsClient>(&description, (), &stored)?;
    let encoded = client.encode(&[Image::new(&secret_bytes(PIXELS))?])?;
    client.query(&encoded)?;
    client.check_answer(&answer, 1)?;
    client.read(&answer, &encoded)?;
    Ok(())
}

fn inputs(entries: &mut dyn FnMut(usize) -> Vec<f64>) -> anyhow::Result<NamedArrays> {
    let mut input = |name: &str| Ok((name.into(), Array3::from_shape_vec((1, 4, 4), entries(16))?));
    ["a", "b"].map(&mut input).into_iter().collect()
}

pub fn prepare_matrix(directory: &Path) -> anyhow::Result<()> {
    let mut graph = Graph::new();
    let (a, b) = (graph.input("a", (4, 4))?, graph.input("b", (4, 4))?);
    let product = graph.push(Operation::MatMul, &[a, b])?;
    let ones = graph.push(Operation::Constant(Array2::ones((4, 4))), &[])?;
    graph.push(Operation::Add, &[product, ones])?;
    let preset = Some("insecure_n11_real_depth9_scale50".into());
    let options = Options { preset, batch: 1, tile: Some(4), blocks: Some(4), ..Options::default() };
    let inputs_of = vec![Axes::MATRIX, Axes::MATRIX];
    let program = Program::plan(ProgramSource { graph, inputs: inputs_of, output: Axes::MATRIX, options })?;
    let server = MatrixServer::new(program)?;
    let known = inputs(&mut |count| vec![0.25; count])?;
    ask_server::<_, MatrixClient>(&server, (), &[known], directory)
}

pub fn matrix(directory: &Path) -> anyhow::Result<()> {
    let Asked { description, stored, answer } = Asked::read(directory)?;
    let mut client = open_client::<MatrixClient>(&description, (), &stored)?;
    let encoded = client.encode(&[inputs(&mut secret_numbers)?])?;
    client.query(&encoded)?;
    client.check_answer(&answer, 1)?;
    client.read(&answer, &encoded)?;
    Ok(())
}
