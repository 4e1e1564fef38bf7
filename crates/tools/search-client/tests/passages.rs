//! Passages that a private search finds, in front of questions to a private language model: end to end. The search has
//! its usual parameters, the model is one layer of stories260K in a small insecure ring.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ndarray::Array2;
use unspoken_chat::{
    ChatClient, ChatKeys, ChatServer, Conversation, Description, Passages, PromptTokens, Question, ServedModel,
    ServerOptions, Wanted,
};
use unspoken_ckks::Preset;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, StateDir};
use unspoken_collection::{Builder, Collection};
use unspoken_llama::{Circuit, Design, DesignOptions, Margins, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ClientModel, Generation, Model, Prompt, RotatedModel, Tokenizer, rotate};
use unspoken_pir::PirServer;
use unspoken_protocol::{Call, ClientHalf, ClientId, KeyGenerator, KeyLoader, Request, ServerHalf};
use unspoken_search::SearchServer;
use unspoken_search_client::Searcher;
use unspoken_search_index::Document;
use unspoken_server::{Applications, Server, ServerConfig};

const SEARCH: &str = "search/notes";
const DOCUMENTS: &str = "search/notes-documents";
/// Documents of very different lengths; the control token would end a text.
const NOTES: [&str; 6] = [
    "Tom has a red ball.",
    "Mia has a big dog, and the dog likes to run in the park with Mia and her mom all the day long.",
    "Ben.",
    "One day </s> Lily saw a cat.",
    "",
    "The sun was hot, so Sam sat down by a tree and ate an apple. Then Sam went home to see his mom and dad.",
];
const WIDTH: usize = 8;
/// Passages of a question, and the tokens that they take.
const MOST: usize = 2;
const TOKENS: usize = 32;
const CHUNK: usize = 8;
const CLIENT: ClientId = ClientId::new([1; 16]);

/// The vector of each note, which is that of the question about it.
fn vectors() -> Array2<f32> {
    Array2::from_shape_fn((NOTES.len(), WIDTH), |(i, j)| ((i + 1) as f32 * (j + 1).pow(2) as f32).sin())
}

/// The collection at a service on this machine, and its client.
fn searcher(folder: &Path, runtime: &tokio::runtime::Runtime) -> Searcher {
    let path = folder.join("notes");
    let documents: Vec<Document> =
        NOTES.iter().map(|note| Document { id: None, content: note.as_bytes().into() }).collect();
    Builder::default().build(&path, &documents, vectors(), &mut |_| (), &AtomicBool::new(false)).unwrap();
    let collection = Arc::new(Collection::open(&path, None).unwrap());
    let scores = SearchServer::new(Arc::clone(&collection), DOCUMENTS.into()).unwrap();
    let applications = Applications::new().with(SEARCH, scores).unwrap();
    let applications = applications.with(DOCUMENTS, PirServer::new(collection).unwrap()).unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen, data_dir: folder.join("data"), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(config, applications)).unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    runtime.spawn(server.run(std::future::pending()));
    let open = |application: &str| {
        let state = StateDir::open(&folder.join("client"), &url, application).unwrap();
        Ok::<_, ClientError>((Transport::new(TransportConfig::new(&url)).unwrap(), state))
    };
    Searcher::connect(SEARCH, open, &mut |_| (), &Cancel::new()).unwrap()
}

/// Both halves of a private language model.
struct Chat {
    server: ChatServer,
    client: ChatClient,
    keys: ChatKeys,
    model: RotatedModel,
}

impl Chat {
    /// `samples` are texts of the kind that will be asked.
    fn new(mut model: Model, tokenizer: Tokenizer, samples: &[Vec<u32>]) -> Self {
        rotate(&model.config, &mut model.weights, 1);
        let samples = samples.iter().map(|text| Sample { public: vec![1], private: text.clone() });
        let samples: Vec<Sample> = samples.collect();
        let circuit = Circuit::new(&model.config).with_rounds(3);
        let ranges = calibrate(&circuit, &model, &samples, CHUNK, |_| {}).unwrap();
        let margins = Margins { norm: 1.2, softmax: 1.4, score: 1.3, gate: 1.5 };
        let options = DesignOptions { margins, bits: 12.0, ..DesignOptions::default() };
        let design = Design::new(&circuit, &ranges, &options).unwrap();
        let model = RotatedModel::new(model, vec![1]);
        let half = Arc::new(ClientModel::new(&model, tokenizer));
        let served = ServedModel {
            id: model.id(),
            model: Arc::new(model.model().clone()),
            prefix: vec![1],
            circuit,
            design,
            context: 1 + 8 * CHUNK,
            least_public: 0,
        };
        let parameters = Preset::find("insecure_n11_boot_depth15_scale40").unwrap().build().unwrap();
        let options = ServerOptions { chunk: CHUNK, chunks: 8, ..ServerOptions::default() };
        let server = ChatServer::new(served, &parameters, &options).unwrap();
        let description = Description::insecure_from_bytes(&server.describe()).unwrap();
        let client = ChatClient::open(description, half, None).unwrap();
        let mut bundle = Vec::new();
        client.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
        let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
        Chat { server, client, keys, model }
    }

    /// The first token after a text, and the bytes of all queries.
    fn answer(&mut self, model: &Arc<ClientModel>, tokens: PromptTokens) -> (Vec<u32>, Vec<usize>) {
        let mut conversation = Conversation::new(Arc::clone(model), false).unwrap();
        let wanted = Wanted { tokens: 1, sampling: Default::default(), stops: vec![] };
        conversation.begin(&self.client, tokens, wanted).unwrap();
        let mut seen = Vec::new();
        while let Some(question) = conversation.question() {
            let encoded = self.client.encode(&[&question]).unwrap();
            let query = self.client.query(&encoded).unwrap();
            let answer = self.server.answer(&Request::new(CLIENT, &self.keys, &query), &Call::default()).unwrap();
            conversation.answer(&self.client.read(&answer, &encoded).unwrap()[0]).unwrap();
            // Numbers of sessions have no fixed length only where a session begins.
            seen.push(if matches!(question, Question::Pass { .. }) { query.len() } else { 0 });
        }
        (conversation.generation().unwrap().tokens().to_vec(), seen)
    }
}

#[test]
fn a_private_model_reads_passages_and_neither_service_sees_which() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut searcher = searcher(folder.path(), &runtime);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    let LoadedModel { mut model, tokenizer } = load(&file, None).unwrap();
    model.config.layers = 1;
    model.weights.layers.truncate(1);
    let again = load(&file, None).unwrap().tokenizer;
    let half = Arc::new(ClientModel::new(&RotatedModel::new(model.clone(), vec![1]), again));

    let question = "Why?";
    let mut read = |note: Option<usize>| {
        let vector = note.map_or(vec![1.0; WIDTH], |note| vectors().row(note).to_vec());
        let found = searcher.find(&[vector], MOST, &mut |_| (), &Cancel::new()).unwrap().remove(0);
        let texts: Vec<_> =
            found.iter().map(|one| String::from_utf8_lossy(&one.document.content).into_owned()).collect();
        if let Some(note) = note {
            assert_eq!(texts[0], NOTES[note]);
        }
        let used = if note.is_some() { &texts[..] } else { &[] };
        let mut passages = Passages::new(TOKENS).unwrap();
        let content = passages.ask(half.tokenizer(), question, used).unwrap();
        let prompt = Prompt { public: String::new(), private: Passages::without_template(&content) };
        let conversation = Conversation::new(Arc::clone(&half), false).unwrap();
        (content.to_string(), conversation.read_with(&prompt, &passages, CHUNK).unwrap())
    };
    let notes = [None].into_iter().chain((0..NOTES.len()).map(Some));
    let (contents, prompts): (Vec<String>, Vec<PromptTokens>) = notes.map(&mut read).unzip();
    assert!(contents[0].starts_with("Passages: none."), "{contents:?}");
    assert!(contents[1].starts_with("Passages:\n- Tom has a red ball."), "{contents:?}");
    let samples: Vec<Vec<u32>> = prompts.iter().map(|tokens| tokens.private.to_vec()).collect();

    let mut chat = Chat::new(model, tokenizer, &samples);
    let mut seen_first = Vec::new();
    // Without a passage, and with a long one.
    for number in [0, 6] {
        let (tokens, seen) = chat.answer(&half, prompts[number].clone());
        let text = [chat.model.prefix(), &samples[number]].concat();
        let clear = Generation::new(chat.model.model(), &text, &[]).unwrap().next();
        assert_eq!(tokens.first().copied(), clear, "{}", contents[number]);
        if number == 0 {
            seen_first = seen;
        } else {
            assert_eq!(seen, seen_first, "{}", contents[number]);
        }
    }
    // Begin, a pass for each chunk, and end.
    assert_eq!(seen_first.len(), 2 + samples[0].len() / CHUNK);
}
