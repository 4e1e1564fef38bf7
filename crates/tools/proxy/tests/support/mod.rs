//! A service of the first layer of stories260K in a small insecure ring, and a proxy in front of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use unspoken_chat::{Answer, ChatClient, ChatKeys, ChatServer, Description, Question, ServedModel, ServerOptions};
use unspoken_ckks::Preset;
use unspoken_llama::{Circuit, Design, DesignOptions, Margins, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ChatTemplate, ClientModel, Generation, RotatedModel, rotate};
use unspoken_protocol::{Call, ClientHalf, ClientId, KeyGenerator, KeyLoader, Request, ServerHalf};
use unspoken_proxy::{Failure, Key, Options, Served, Service};

const CLIENT: ClientId = ClientId::new([1; 16]);
pub const MODEL: &str = "chat/stories";
pub const KEY: &str = "sk-unspoken-test";

/// Messages are parts of one story: the model knows no conversations.
const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

/// Both halves in one process.
pub struct SmallService {
    server: ChatServer,
    client: ChatClient,
    keys: ChatKeys,
    bytes: [u64; 2],
    /// Questions until the service cannot be reached.
    pub left: Option<usize>,
}

impl SmallService {
    /// The service, its client's half of the model, and the model in the clear.
    pub fn new() -> (Self, Arc<ClientModel>, RotatedModel) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
        let LoadedModel { mut model, tokenizer } = load(&file, None).unwrap();
        model.config.layers = 1;
        model.weights.layers.truncate(1);
        let story = |number: usize, name: &str| -> Sample {
            let prompt = tokenizer.encode(&format!("{name} went to the park. They saw")).unwrap();
            let told = Generation::new(&model, &prompt, &[]).unwrap().take(60);
            let text: Vec<u32> = prompt.iter().copied().chain(told).collect();
            let (public, private) = text.split_at([2, 9, 17, 33][number % 4]);
            Sample { public: public.to_vec(), private: private[..private.len().min(40)].to_vec() }
        };
        let names = ["Tom", "One day, Lily", "Sam", "Once, Mia", "A dog", "One day, a cat", "Anna and Ben", "The pig"];
        let stories = names.iter().enumerate().map(|(number, name)| story(number, name));
        let samples: Vec<Sample> = stories.collect();
        rotate(&model.config, &mut model.weights, 1);
        let circuit = Circuit::new(&model.config).with_rounds(3);
        let ranges = calibrate(&circuit, &model, &samples, 8, |_| {}).unwrap();
        let margins = Margins { norm: 1.3, softmax: 1.6, score: 1.6, gate: 1.8 };
        let options = DesignOptions { margins, bits: 12.0, ..DesignOptions::default() };
        let design = Design::new(&circuit, &ranges, &options).unwrap();
        let rotated = RotatedModel::new(model, vec![1]);
        let template = ChatTemplate::new(TEMPLATE, BTreeMap::new()).unwrap();
        let half = Arc::new(ClientModel::new(&rotated, tokenizer.with_chat_template(Some(template))));
        let served = ServedModel {
            id: rotated.id(),
            model: Arc::new(rotated.model().clone()),
            prefix: rotated.prefix().to_vec(),
            circuit,
            design,
            context: 72,
            least_public: 0,
        };
        let parameters = Preset::find("insecure_n11_boot_depth15_scale40").unwrap().build().unwrap();
        let options = ServerOptions { chunk: 8, chunks: 6, ..ServerOptions::default() };
        let server = ChatServer::new(served, &parameters, &options).unwrap();
        let description = Description::insecure_from_bytes(&server.describe()).unwrap();
        let client = ChatClient::open(description, Arc::clone(&half), None).unwrap();
        let mut bundle = Vec::new();
        client.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
        let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
        (SmallService { server, client, keys, bytes: [0; 2], left: None }, half, rotated)
    }
}

impl Service for SmallService {
    fn half(&self) -> &ChatClient {
        &self.client
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Failure> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or_else(|| Failure::unavailable("the service is away"))?;
        }
        let encoded = self.client.encode(&[question])?;
        let query = self.client.query(&encoded)?;
        let answer = self.server.answer(&Request::new(CLIENT, &self.keys, &query), &Call::default())?;
        self.bytes[0] += query.len() as u64;
        self.bytes[1] += answer.len() as u64;
        Ok(self.client.read(&answer, &encoded)?.remove(0))
    }

    fn bytes(&self) -> [u64; 2] {
        self.bytes
    }
}

/// Options of a proxy, with an embedder that counts letters.
pub fn options() -> Options {
    let embed = |texts: &[String]| {
        let known = |text: &String| !text.is_empty();
        if !texts.iter().all(known) {
            return Err("an empty text".to_owned());
        }
        Ok(texts.iter().map(|text| vec![text.len() as f32, 0.5]).collect())
    };
    Options {
        model: MODEL.to_owned(),
        key: Key::new(KEY).unwrap(),
        sessions: 2,
        tokens: 4,
        public_system: false,
        tell_length: true,
        embedder: Some(("letters".to_owned(), Box::new(embed))),
    }
}

/// A proxy that runs until the process ends: its address, and what it has told to have left.
pub async fn start(service: SmallService, half: Arc<ClientModel>) -> (SocketAddr, Arc<Mutex<Vec<Served>>>) {
    let listener = unspoken_proxy::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&served);
    let log = move |one: &Served| told.lock().unwrap().push(one.clone());
    tokio::spawn(unspoken_proxy::serve(listener, options(), service, half, log, std::future::pending()));
    (address, served)
}
