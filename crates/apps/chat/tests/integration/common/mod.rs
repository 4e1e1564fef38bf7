//! A service of stories260K in a small insecure ring, and clients of it.

#![allow(dead_code)] // Each test binary uses a part.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ndarray::{Array1, Array2};
use unspoken_chat::{
    Answer, ChatClient, ChatError, ChatKeys, ChatServer, Description, PrivateGeneration, Question, ServedModel,
    ServerOptions, SessionId,
};
use unspoken_ckks::Preset;
use unspoken_llama::{Circuit, Design, DesignOptions, Margins, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{
    Attention, ClientModel, Config, Generation, Model, RotatedModel, TensorName, Tokenizer, Weights, rotate,
};
use unspoken_protocol::{Call, ClientHalf, ClientId, KeyGenerator, KeyLoader, Request, ServerHalf};

pub const PRESET: &str = "insecure_n11_boot_depth15_scale40";
pub static GO: AtomicBool = AtomicBool::new(false);
pub const CLIENT: ClientId = ClientId::new([1; 16]);

/// Tokens of a chunk, and chunks of a session.
pub const CHUNK: usize = 8;
pub const CHUNKS: usize = 4;

pub struct Setting {
    pub circuit: Circuit,
    pub design: Design,
    pub model: Arc<Model>,
    pub rotated: RotatedModel,
    pub client: Arc<ClientModel>,
    /// Public and private tokens, without the prefix.
    pub stories: Vec<(Vec<u32>, Vec<u32>)>,
}

impl Setting {
    /// Makes the polynomials of a model from samples.
    fn new(mut model: Model, tokenizer: Tokenizer, samples: &[Vec<u32>], held_out: &[Vec<u32>]) -> Self {
        // Also with few tokens in front of the private ones.
        let samples = samples.iter().enumerate().map(|(number, tokens)| {
            let (public, private) = tokens.split_at([2, 9, 17, 33][number % 4]);
            Sample { public: public.to_vec(), private: private[..private.len().min(40)].to_vec() }
        });
        let samples: Vec<Sample> = samples.collect();
        let stories = held_out.iter().map(|tokens| (tokens[1..17].to_vec(), tokens[17..29].to_vec())).collect();
        rotate(&model.config, &mut model.weights, 1);
        let circuit = Circuit::new(&model.config).with_rounds(3);
        let ranges = calibrate(&circuit, &model, &samples, 8, |_| {}).unwrap();
        let margins = Margins { norm: 1.2, softmax: 1.4, score: 1.3, gate: 1.5 };
        let options = DesignOptions { margins, bits: 12.0, ..DesignOptions::default() };
        let design = Design::new(&circuit, &ranges, &options).unwrap();
        let rotated = RotatedModel::new(model, vec![1]);
        let client = Arc::new(ClientModel::new(&rotated, tokenizer));
        let model = Arc::new(rotated.model().clone());
        Setting { circuit, design, model, rotated, client, stories }
    }

    /// A server of this model.
    pub fn server(&self, options: &ServerOptions) -> ChatServer {
        let parameters = Preset::find(PRESET).unwrap().build().unwrap();
        ChatServer::new(self.served(), &parameters, options).unwrap()
    }

    /// A client of a server of this model.
    pub fn client(&self, server: &ChatServer) -> ChatClient {
        let description = Description::insecure_from_bytes(&server.describe()).unwrap();
        ChatClient::open(description, Arc::clone(&self.client), None).unwrap()
    }

    /// What the model in the clear continues, at most `most` tokens.
    pub fn told(&self, public: &[u32], private: &[u32], most: usize) -> Vec<u32> {
        let prompt = [self.rotated.prefix(), public, private].concat();
        Generation::new(&self.model, &prompt, self.client.tokenizer().ends()).unwrap().take(most).collect()
    }

    pub fn served(&self) -> ServedModel {
        ServedModel {
            id: self.rotated.id(),
            model: Arc::clone(&self.model),
            prefix: self.rotated.prefix().to_vec(),
            circuit: self.circuit.clone(),
            design: self.design.clone(),
            context: 72,
            least_public: 0,
        }
    }
}

/// The first layer of stories260K: a small model, which tells stories of its own.
pub fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| of_stories(1))
}

/// stories260K.
pub fn whole() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| of_stories(5))
}

/// The first layers of stories260K.
fn of_stories(layers: usize) -> Setting {
    let LoadedModel { mut model, tokenizer } = stories260k();
    model.config.layers = layers;
    model.weights.layers.truncate(layers);
    let story = |name: &str, animal: &str| -> Vec<u32> {
        let prompt = format!("One day, {name} and a {animal} went to the park. They saw");
        let prompt = tokenizer.encode(&prompt).unwrap();
        let told = Generation::new(&model, &prompt, &[]).unwrap().take(60);
        prompt.iter().copied().chain(told).collect()
    };
    let stories = |animals: &[&str]| -> Vec<Vec<u32>> {
        let names = ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna"];
        animals.iter().flat_map(|animal| names.map(|name| story(name, animal))).collect()
    };
    let samples = stories(&["dog", "cat", "bird", "fish", "bear", "frog"]);
    let held_out = stories(&["pig", "cow"]);
    Setting::new(model, tokenizer, &samples, &held_out)
}

/// A model with random weights, whose heads and activations need several vectors of the small ring.
pub fn many_heads() -> Setting {
    random(256, 32, 8, 300, Attention::default())
}

/// A small model with random weights, of one layer.
pub fn one_layer() -> Setting {
    random(64, 8, 4, 172, Attention::default())
}

/// Such a model with all that the attention of other families has beside that of Llama, but for layers without RoPE.
pub fn other_attention() -> Setting {
    random(64, 4, 2, 96, Attention { input_biases: true, output_bias: true, head_norms: true, unrotated: vec![] })
}

/// A model of one layer with random weights.
fn random(width: usize, heads: usize, kv_heads: usize, ffn_width: usize, attention: Attention) -> Setting {
    let head_width = width / heads;
    let tokenizer = stories260k().tokenizer;
    let config = Config {
        width,
        layers: 1,
        heads,
        kv_heads,
        head_width,
        ffn_width,
        vocabulary: tokenizer.vocabulary(),
        context: 128,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..head_width / 2).map(|pair| 0.6f64.powi(pair as i32)).collect(),
        attention,
    };
    let mut random = fastrand::Rng::with_seed(1);
    let matrix = |_: TensorName, rows: usize, columns: usize| {
        let mut draw = || 2.0 * random.f32() - 1.0;
        Ok::<_, ()>(Array2::from_shape_simple_fn((rows, columns), || 2.0 * draw() / (columns as f32).sqrt()))
    };
    let weights = Weights::read(&config, true, matrix, |_, length| Ok(Array1::ones(length))).unwrap();
    let model = Model { config, weights };
    let text = |seed: u32| -> Vec<u32> { (1..=60).map(|i| (i * i * (7 + seed) + 13 * i) % 500 + 3).collect() };
    let samples: Vec<Vec<u32>> = (0..24).map(text).collect();
    Setting::new(model, tokenizer, &samples, &samples)
}

pub fn stories260k() -> LoadedModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    load(&path, None).unwrap()
}

pub fn options() -> ServerOptions {
    ServerOptions {
        chunk: CHUNK,
        chunks: CHUNKS,
        sessions: 4,
        sessions_per_client: 2,
        age: Duration::from_secs(3600),
        ..ServerOptions::default()
    }
}

pub fn server(options: &ServerOptions) -> ChatServer {
    setting().server(options)
}

/// A server that tests share, with room for the sessions of all of them.
pub fn shared() -> &'static ChatServer {
    static SERVER: OnceLock<ChatServer> = OnceLock::new();
    SERVER.get_or_init(|| server(&ServerOptions { sessions: 64, ..options() }))
}

pub fn client(server: &ChatServer) -> ChatClient {
    setting().client(server)
}

pub fn bundle(client: &ChatClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.write_keys(&mut bytes, |_, _| {}, &GO).unwrap();
    assert_eq!(bytes.len() as u64, client.key_bytes());
    bytes
}

/// A client whose keys a server has loaded.
pub struct Party<'a> {
    pub server: &'a ChatServer,
    pub id: ClientId,
    pub client: ChatClient,
    pub keys: ChatKeys,
}

impl<'a> Party<'a> {
    pub fn new(server: &'a ChatServer, id: ClientId) -> Self {
        Self::of(server, id, client(server))
    }

    pub fn of(server: &'a ChatServer, id: ClientId, client: ChatClient) -> Self {
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        Party { server, id, client, keys }
    }

    /// The same client at a server that has been restarted.
    pub fn at<'b>(self, server: &'b ChatServer) -> Party<'b> {
        Party::of(server, self.id, self.client)
    }

    pub fn query(&mut self, question: &Question) -> Vec<u8> {
        let encoded = self.client.encode(&[question]).unwrap();
        let query = self.client.query(&encoded).unwrap();
        assert!(query.len() <= self.client.query_bytes(1) && query.len() <= self.server.limits().query_bytes);
        query
    }

    pub fn ask(&mut self, question: &Question) -> Result<Answer, ChatError> {
        self.ask_with(question, &GO)
    }

    pub fn ask_with(&mut self, question: &Question, cancel: &AtomicBool) -> Result<Answer, ChatError> {
        let query = self.query(question);
        let answer = self.server.answer(&Request::new(self.id, &self.keys, &query), &Call::new(cancel))?;
        assert!(answer.len() <= self.server.limits().answer_bytes);
        let encoded = self.client.encode(&[question]).unwrap();
        Ok(self.client.read(&answer, &encoded)?.remove(0))
    }

    pub fn generation(&self, session: u8, public: &[u32], private: &[u32], most: usize) -> PrivateGeneration {
        let model = &setting().client;
        let texts = (model.prefix(), public, private);
        let session = SessionId::new([session; 16]);
        PrivateGeneration::new(self.client.description(), session, texts, model.tokenizer().ends(), most).unwrap()
    }

    /// Runs a generation to its end.
    pub fn run(&mut self, generation: &mut PrivateGeneration) -> Result<Vec<u32>, ChatError> {
        let mut all = Vec::new();
        while let Some(question) = generation.question() {
            let answer = self.ask(&question)?;
            all.extend_from_slice(&generation.answer(&answer)?);
        }
        assert_eq!(all, generation.tokens());
        Ok(all)
    }
}
