//! Private text generation: a client's chunk of private tokens, and the tokens that are chosen from its answer.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use unspoken_chat::{Answer, ChatClient, ChatServer, PassInput, Question, ServedModel, ServerOptions, SessionId};
use unspoken_ckks::Preset;
use unspoken_llama::{Circuit, Design, DesignOptions, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ClientModel, RotatedModel, Sampler, Sampling};
use unspoken_protocol::ClientHalf;
use zeroize::Zeroizing;

use super::applications::{Asked, ask_server, open_client};
use crate::constant_time::memcheck::{mark_public, mark_secret};

const CHUNK: usize = 8;
const SESSION: SessionId = SessionId::new([3; 16]);

/// Dimensions of the model.
const WIDTH: usize = 8;
const FFN: usize = 8;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const VOCABULARY: usize = 12;
const CONTEXT: usize = 32;

/// A checkpoint of llama2.c with one layer, and its tokenizer.
fn model(directory: &Path) -> anyhow::Result<LoadedModel> {
    let (head, kv) = (WIDTH / HEADS, WIDTH / HEADS * KV_HEADS);
    let layer = 2 * WIDTH + 2 * WIDTH * WIDTH + 2 * kv * WIDTH + 3 * WIDTH * FFN;
    let numbers = layer + (VOCABULARY + 1) * WIDTH + CONTEXT * head;
    let header = [WIDTH, FFN, 1, HEADS, KV_HEADS, VOCABULARY, CONTEXT];
    let header = header.iter().flat_map(|number| (*number as i32).to_le_bytes());
    let weights = (0..numbers).flat_map(|i| ((i * i) as f32 * 0.37).sin().to_le_bytes());
    let path = directory.join("model.bin");
    std::fs::write(&path, header.chain(weights).collect::<Vec<u8>>())?;
    let token = |id: usize| {
        let text = format!("{}", (b'a' + id as u8) as char);
        [&0f32.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    };
    let tokens: Vec<Vec<u8>> = (0..VOCABULARY).map(token).collect();
    let tokenizer = directory.join("tok.bin");
    std::fs::write(&tokenizer, [1u32.to_le_bytes().to_vec(), tokens.concat()].concat())?;
    Ok(load(&path, Some(&tokenizer))?)
}

/// What clients of the two services encrypt.
const INPUTS: [PassInput; 2] = [PassInput::Embeddings, PassInput::Tokens];

fn name(input: PassInput) -> &'static str {
    match input {
        PassInput::Embeddings => "embeddings",
        PassInput::Tokens => "tokens",
    }
}

fn tokens() -> Vec<u32> {
    (0..CHUNK as u32).map(|place| (place * 5 + 2) % VOCABULARY as u32).collect()
}

fn pass(tokens: Vec<u32>) -> Question {
    Question::Pass { session: SESSION, chunk: 0, tokens: Zeroizing::new(tokens) }
}

pub fn prepare(directory: &Path) -> anyhow::Result<()> {
    let LoadedModel { model, tokenizer } = model(directory)?;
    let circuit = Circuit::new(&model.config).with_rounds(2);
    let text = |seed: u32| (0..CONTEXT as u32).map(move |place| (place * place + seed * place) % VOCABULARY as u32);
    let sample = |seed| Sample { public: text(seed).take(8).collect(), private: text(seed).skip(8).collect() };
    let samples: Vec<Sample> = (0..8).map(sample).collect();
    let ranges = calibrate(&circuit, &model, &samples, CHUNK, |_| {})?;
    let design = Design::new(&circuit, &ranges, &DesignOptions { bits: 12.0, ..DesignOptions::default() })?;
    let rotated = RotatedModel::new(model, vec![1]);
    let client = Arc::new(ClientModel::new(&rotated, tokenizer));
    client.save(directory)?;
    let (id, prefix, model) = (rotated.id(), rotated.prefix().to_vec(), Arc::new(rotated.into_model()));
    let served = |input| -> anyhow::Result<()> {
        let (prefix, model, design) = (prefix.clone(), Arc::clone(&model), design.clone());
        let circuit = circuit.clone();
        let served = ServedModel { id, model, prefix, circuit, design, context: CONTEXT, least_public: 0 };
        let parameters = Preset::find("insecure_n11_boot_depth15_scale40")?.build()?;
        let options = ServerOptions { chunk: CHUNK, chunks: 1, input, ..ServerOptions::default() };
        let server = ChatServer::new(served, &parameters, &options)?;
        let questions = [Question::Begin { session: SESSION, public: vec![4, 5] }, pass(tokens())];
        let directory = directory.join(name(input));
        std::fs::create_dir(&directory)?;
        ask_server::<_, ChatClient>(&server, Arc::clone(&client), &questions, &directory)
    };
    INPUTS.into_iter().try_for_each(served)
}

/// The time of drafts depends on the text (SECURITY.md).
pub fn run(directory: &Path) -> anyhow::Result<()> {
    let model = Arc::new(ClientModel::load(directory)?);
    INPUTS.into_iter().try_for_each(|input| ask(&directory.join(name(input)), Arc::clone(&model)))
}

/// All options of sampling at once.
fn sampling() -> Sampling {
    Sampling {
        temperature: Some(0.8),
        top_k: 9,
        top_p: 0.9,
        min_p: 0.01,
        seed: Some(1),
        repetition_penalty: 1.1,
        presence_penalty: 0.1,
        frequency_penalty: 0.1,
        logit_bias: [(3, 0.5)].into(),
        log_probabilities: Some(2),
    }
}

fn ask(directory: &Path, model: Arc<ClientModel>) -> anyhow::Result<()> {
    let Asked { description, stored, answer } = Asked::read(directory)?;
    let mut client = open_client::<ChatClient>(&description, model, &stored)?;
    let mut secret = tokens();
    mark_secret(&mut secret);
    let encoded = client.encode(&[pass(secret)])?;
    client.query(&encoded)?;
    client.check_answer(&answer, 1)?;
    let Some(Answer::Passed(logits)) = client.read(&answer, &encoded)?.pop() else {
        anyhow::bail!("no logits in the answer to a pass");
    };
    for sampling in [Sampling::default(), sampling()] {
        let mut sampler = Sampler::new(sampling, VOCABULARY, &[])?;
        for place in 0..CHUNK {
            let chosen = sampler.choose(logits.row(place).context("logits for each token")?);
            let others = chosen.probabilities.iter().flat_map(|told| told.alternatives.iter().chain([&told.token]));
            let mut next: Vec<u32> = others.map(|scored| scored.token).chain([chosen.token]).collect();
            mark_public(&mut next);
            anyhow::ensure!(next.iter().all(|next| (*next as usize) < VOCABULARY), "a token outside the vocabulary");
        }
    }
    Ok(())
}
