//! `vectors/llama.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::{Array1, Array2, s};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use unspoken_chat::{Answer, ChatClient, ChatServer, PassInput, Question, ServedModel, ServerOptions, SessionId};
use unspoken_ckks::Preset;
use unspoken_llama::{Circuit, DesignOptions, Margins, Preparation, Sample, calibrate};
use unspoken_llama_model::{
    Attention, AttentionVectors, ClientModel, Config, LayerWeights, Model, RotatedModel, Tokenizer, Weights, rotate,
};
use zeroize::Zeroizing;

use crate::case::{Bytes, Case, Clear, Known, Plan, check, directory_of, files_of};

struct Llama;

/// The client's half of the files.
const CLIENT_FILES: [&str; 4] = ["client.json", "client.safetensors", "head.safetensors", "tokenizer.json"];

/// Largest difference to the logits of the model in the clear. The description has no bound of this difference.
const ERROR: f64 = 0.01;

/// Control tokens, and the number of all tokens.
const UNKNOWN: u32 = 0;
const BEGIN: u32 = 1;
const END: u32 = 2;
const VOCABULARY: u32 = 24;

const CHUNK: usize = 8;

/// A question with its session.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    session: Bytes,
    /// Public tokens, after the prefix of the model.
    public: Vec<u32>,
    chunk: u32,
    /// Private tokens.
    tokens: Vec<u32>,
}

impl Pass {
    fn read(question: &Value) -> Self {
        serde_json::from_value(question.clone()).unwrap()
    }

    fn session(&self) -> SessionId {
        SessionId::new(self.session.0.clone().try_into().unwrap())
    }
}

/// Words `w3` to `w23`, which spaces separate.
fn tokenizer() -> Tokenizer {
    let control = |id: u32, text: &str| {
        json!({
            "id": id, "content": text, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let controls = [(UNKNOWN, "<unk>"), (BEGIN, "<s>"), (END, "</s>")];
    let words = (END + 1..VOCABULARY).map(|id| (format!("w{id}"), json!(id)));
    let vocabulary: Map<String, Value> =
        controls.map(|(id, text)| (text.into(), json!(id))).into_iter().chain(words).collect();
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": controls.map(|(id, text)| control(id, text)),
        "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>" },
    });
    Tokenizer::from_json(&serde_json::to_vec(&json).unwrap(), Some(BEGIN), &[END]).unwrap()
}

/// A model that was not trained.
fn model() -> Model {
    let config = Config {
        width: 8,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_width: 4,
        ffn_width: 12,
        vocabulary: VOCABULARY as usize,
        context: 32,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..2).map(|pair| 0.5f64.powi(pair)).collect(),
        attention: Attention::default(),
    };
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let mut matrix = |rows: usize, columns: usize, gain: f32| {
        Array2::from_shape_simple_fn((rows, columns), || gain * draw() / (columns as f32).sqrt())
    };
    let Config { width, ffn_width: ffn, .. } = config;
    let (queries, keys) = (config.query_width(), config.kv_width());
    let layer = LayerWeights {
        attention_norm: Array1::ones(width),
        query: matrix(queries, width, 1.5),
        key: matrix(keys, width, 1.5),
        value: matrix(keys, width, 1.0),
        output: matrix(width, queries, 2.0),
        ffn_norm: Array1::ones(width),
        gate: matrix(ffn, width, 2.0),
        up: matrix(ffn, width, 1.0),
        down: matrix(width, ffn, 2.0),
        attention: AttentionVectors::default(),
    };
    let (embedding, head) = (matrix(config.vocabulary, width, 12.0), matrix(config.vocabulary, width, 6.0));
    let weights = Weights { embedding, layers: vec![layer], norm: Array1::ones(width), head: Some(head) };
    Model { config, weights }
}

/// Words of a text, all determined by `seed`.
fn words(seed: u32) -> impl Iterator<Item = u32> {
    (0..).map(move |i| END + 1 + (i * i * (7 + seed) + 13 * i + seed * seed) % (VOCABULARY - END - 1))
}

/// The files of both halves, as `unspoken llama prepare` writes them.
fn files() -> BTreeMap<String, Bytes> {
    let (mut model, prefix, seed) = (model(), vec![BEGIN], 1);
    let weights = model.weights.digest();
    rotate(&model.config, &mut model.weights, seed);
    let text = |seed| {
        let public: Vec<u32> = [BEGIN].into_iter().chain(words(seed).take(5)).collect();
        Sample { public, private: words(seed).skip(5).take(2 * CHUNK).collect() }
    };
    let texts: Vec<Sample> = (0..24).map(text).collect();
    let circuit = Circuit::new(&model.config).with_rounds(2);
    let ranges = calibrate(&circuit, &model, &texts, CHUNK, |_| {}).unwrap();
    let margins = Margins { norm: 1.3, softmax: 1.5, score: 1.5, gate: 1.5 };
    let options = DesignOptions { margins, bits: 12.0, ..DesignOptions::default() };
    let (config, rounds) = (model.config.clone(), circuit.rounds());
    let preparation =
        Preparation { config, weights, prefix: prefix.clone(), seed, rounds, options, ranges, least_public: None };
    let directory = tempfile::tempdir().unwrap();
    let rotated = RotatedModel::new(model, prefix);
    rotated.save(directory.path()).unwrap();
    ClientModel::new(&rotated, tokenizer()).save(directory.path()).unwrap();
    let mut files = files_of(directory.path());
    let contents = [preparation.record_bytes().unwrap(), preparation.ranges_bytes().unwrap()];
    files.extend(Preparation::FILES.into_iter().map(String::from).zip(contents.map(Bytes)));
    files
}

/// Logits, a row for each token.
fn logits(rows: impl Iterator<Item = Vec<f32>>) -> Value {
    json!({ "logits": rows.collect::<Vec<_>>() })
}

impl Known for Llama {
    const NAME: &'static str = "llama";
    const ABOUT: &'static str =
        "Continuation of a private text: a model of language that was not trained, and a session with one pass.";
    type Client = ChatClient;
    type Server = ChatServer;
    type Asked = Question;

    /// Logits have 24 bits.
    const TOLERANCE: f64 = 1e-5;

    const OTHER_SECRET: Option<&'static str> = Some("numbers that no sound pass gives, or that other keys encrypt");

    fn plans() -> Vec<Plan> {
        let mut text = words(99);
        let public: Vec<u32> = text.by_ref().take(3).collect();
        let question = Pass { session: Bytes(vec![7; 16]), public, chunk: 0, tokens: text.take(CHUNK).collect() };
        let preset = "insecure_n11_boot_depth15_scale40";
        vec![Plan {
            name: "encrypted tokens",
            server: json!({ "preset": preset, "chunk": CHUNK, "chunks": 2, "input": "tokens" }),
            options: Map::new(),
            model: files(),
            questions: vec![json!(question)],
        }]
    }

    fn server(case: &Case) -> ChatServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        let [record, ranges] = Preparation::FILES.map(|name| &case.model[name].0);
        let preparation = Preparation::from_bytes(record, ranges).unwrap();
        let rotated = RotatedModel::load(directory_of(case).path()).unwrap();
        let count = |name: &str| case.server[name].as_u64().unwrap() as usize;
        // Queries of encrypted embeddings are too long for the file.
        let input = if case.server["input"] == "tokens" { PassInput::Tokens } else { PassInput::Embeddings };
        let options =
            ServerOptions { chunk: count("chunk"), chunks: count("chunks"), input, ..ServerOptions::default() };
        ChatServer::new(ServedModel::new(&preparation, rotated).unwrap(), &parameters, &options).unwrap()
    }

    /// The client reads its half of the files alone.
    fn model(case: &Case) -> Arc<ClientModel> {
        let directory = directory_of(case);
        for name in case.model.keys().filter(|name| !CLIENT_FILES.contains(&name.as_str())) {
            std::fs::remove_file(directory.path().join(name)).unwrap();
        }
        Arc::new(ClientModel::load(directory.path()).unwrap())
    }

    fn question(question: &Value) -> Question {
        let pass = Pass::read(question);
        Question::Pass { session: pass.session(), chunk: pass.chunk, tokens: Zeroizing::new(pass.tokens) }
    }

    fn answer(answer: Answer) -> Value {
        match answer {
            Answer::Begun { public_tokens, chunks } => json!({ "public_tokens": public_tokens, "chunks": chunks }),
            Answer::Passed(found) => logits((0..found.len()).map(|token| found.row(token).unwrap().to_vec())),
            Answer::Ended => json!("ended"),
            Answer::Unknown => json!("no such session"),
        }
    }

    fn session(question: &Value) -> Option<[Question; 2]> {
        let pass = Pass::read(question);
        let session = pass.session();
        Some([Question::Begin { session, public: pass.public }, Question::End { session }])
    }

    fn clear(case: &Case, _client: &ChatClient) -> Option<Clear> {
        let rotated = RotatedModel::load(directory_of(case).path()).unwrap();
        let model = rotated.model();
        let answer = |question: &Value| {
            let Pass { public, tokens, .. } = Pass::read(question);
            let mut cache = model.prefix_cache(rotated.prefix()).unwrap();
            let normed = model.forward(&[public.as_slice(), &tokens].concat(), &mut cache, &mut ()).unwrap();
            let found = model.logits(normed.slice(s![public.len().., ..]));
            logits(found.outer_iter().map(|row| row.to_vec()))
        };
        Some(Clear { answers: case.questions.iter().map(answer).collect(), error: ERROR })
    }
}

#[test]
fn texts_are_continued_as_in_the_vectors() {
    check::<Llama>();
}
