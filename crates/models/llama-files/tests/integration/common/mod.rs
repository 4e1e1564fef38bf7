//! The model stories260K in other formats.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ndarray::{Array1, Array2};
use serde_json::{Value as Json, json};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{KvCache, Model};

pub const TEXT: &str = "Once upon a time, Lily and Tom saw 3 big dogs at the caf\u{e9}.";

pub fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K").join(name)
}

pub fn stories() -> LoadedModel {
    load(&published("stories260K.bin"), None).unwrap()
}

pub fn logits(model: &Model, tokens: &[u32]) -> Array2<f32> {
    model.logits(model.forward(tokens, &mut KvCache::new(&model.config), &mut ()).unwrap().view())
}

pub fn largest_difference(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    (a - b).iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Tokens and scores of `tok512.bin`.
pub fn pieces() -> (Vec<String>, Vec<f32>) {
    let bytes = fs::read(published("tok512.bin")).unwrap();
    let word = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let (mut at, mut texts, mut scores) = (4, vec![], vec![]);
    while at < bytes.len() {
        let length = u32::from_le_bytes(word(at + 4)) as usize;
        scores.push(f32::from_le_bytes(word(at)));
        texts.push(String::from_utf8(bytes[at + 8..at + 8 + length].to_vec()).unwrap().replace(' ', "\u{2581}"));
        at += 8 + length;
    }
    (texts, scores)
}

pub fn matrix(weights: &Array2<f32>) -> Tensor {
    Tensor::from_iter(weights.iter().copied(), &Device::Cpu).unwrap().reshape(weights.dim()).unwrap()
}

pub fn vector(gains: &Array1<f32>) -> Tensor {
    Tensor::from_iter(gains.iter().copied(), &Device::Cpu).unwrap()
}

/// The metadata of a GGUF file of a model with the tokenizer of stories260K.
pub fn metadata(model: &Model) -> BTreeMap<String, Value> {
    let config = &model.config;
    let (texts, scores) = pieces();
    let kind = |id: usize| match id {
        0 => 2,
        1 | 2 => 3,
        3..259 => 6,
        _ => 1,
    };
    let kinds = (0..texts.len()).map(|id| Value::I32(kind(id))).collect();
    let number = |value: usize| Value::U32(value as u32);
    [
        ("general.architecture", Value::String("llama".into())),
        ("llama.embedding_length", number(config.width)),
        ("llama.block_count", number(config.layers)),
        ("llama.attention.head_count", number(config.heads)),
        ("llama.attention.head_count_kv", number(config.kv_heads)),
        ("llama.feed_forward_length", number(config.ffn_width)),
        ("llama.context_length", number(config.context)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(config.norm_epsilon)),
        ("tokenizer.ggml.model", Value::String("llama".into())),
        ("tokenizer.ggml.tokens", Value::Array(texts.into_iter().map(Value::String).collect())),
        ("tokenizer.ggml.scores", Value::Array(scores.into_iter().map(Value::F32).collect())),
        ("tokenizer.ggml.token_type", Value::Array(kinds)),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Writes a GGUF file. Matrices whose rows are whole blocks get the type, other tensors keep 32 bits.
pub fn write_gguf(path: &Path, model: &Model, metadata: &BTreeMap<String, Value>, kind: GgmlDType) {
    write_gguf_with(path, model, metadata, kind, vec![]);
}

/// As [`write_gguf`], with more tensors.
pub fn write_gguf_with(
    path: &Path,
    model: &Model,
    metadata: &BTreeMap<String, Value>,
    kind: GgmlDType,
    more: Vec<(String, Tensor)>,
) {
    let weights = &model.weights;
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), matrix(&weights.embedding)),
        ("output_norm.weight".to_owned(), vector(&weights.norm)),
    ];
    for (i, layer) in weights.layers.iter().enumerate() {
        let parts = [
            ("attn_norm", vector(&layer.attention_norm)),
            ("attn_q", matrix(&layer.query)),
            ("attn_k", matrix(&layer.key)),
            ("attn_v", matrix(&layer.value)),
            ("attn_output", matrix(&layer.output)),
            ("ffn_norm", vector(&layer.ffn_norm)),
            ("ffn_gate", matrix(&layer.gate)),
            ("ffn_up", matrix(&layer.up)),
            ("ffn_down", matrix(&layer.down)),
        ];
        tensors.extend(parts.map(|(name, tensor)| (format!("blk.{i}.{name}.weight"), tensor)));
    }
    tensors.extend(more);
    let stored: Vec<(String, QTensor)> = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let whole = tensor.rank() == 2 && tensor.dims()[1].is_multiple_of(kind.block_size());
            (name, QTensor::quantize(&tensor, if whole { kind } else { GgmlDType::F32 }).unwrap())
        })
        .collect();
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<(&str, &QTensor)> = stored.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

/// Writes a directory of Hugging Face's layout. Its tokenizer knows words, one for each row of the embedding.
pub fn write_safetensors(directory: &Path, model: &Model, config: &Json) {
    candle_core::safetensors::save(&tensors(model), directory.join("model.safetensors")).unwrap();
    write_json(directory, "config.json", config);
    write_json(directory, "tokenizer.json", &words(model.config.vocabulary));
}

pub fn write_json(directory: &Path, name: &str, json: &Json) {
    fs::write(directory.join(name), json.to_string()).unwrap();
}

/// A `tokenizer.json` with a number of words, among them `<s>`, `</s>` and `the`.
pub fn words(count: usize) -> Json {
    let name = |id: usize| match id {
        0 => "<unk>".to_owned(),
        1 => "<s>".into(),
        2 => "</s>".into(),
        3 => "the".into(),
        id => format!("word{id}"),
    };
    let vocabulary: serde_json::Map<String, Json> = (0..count).map(|id| (name(id), json!(id))).collect();
    let model = json!({"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"});
    json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model})
}

/// An added token of a `tokenizer.json`.
pub fn added(id: usize, content: &str) -> Json {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    })
}

/// The tensors of a model by the names of Hugging Face, where the two halves of a head are rotated together.
pub fn tensors(model: &Model) -> HashMap<String, Tensor> {
    let halves = |weights: &Array2<f32>| {
        let width = model.config.head_width;
        let row = |row: usize| row / width * width + row % (width / 2) * 2 + row % width / (width / 2);
        matrix(&Array2::from_shape_fn(weights.dim(), |(i, j)| weights[(row(i), j)]))
    };
    let weights = &model.weights;
    let mut tensors = HashMap::from([
        ("model.embed_tokens.weight".to_owned(), matrix(&weights.embedding)),
        ("model.norm.weight".to_owned(), vector(&weights.norm)),
    ]);
    for (i, layer) in weights.layers.iter().enumerate() {
        let parts = [
            ("input_layernorm", vector(&layer.attention_norm)),
            ("self_attn.q_proj", halves(&layer.query)),
            ("self_attn.k_proj", halves(&layer.key)),
            ("self_attn.v_proj", matrix(&layer.value)),
            ("self_attn.o_proj", matrix(&layer.output)),
            ("post_attention_layernorm", vector(&layer.ffn_norm)),
            ("mlp.gate_proj", matrix(&layer.gate)),
            ("mlp.up_proj", matrix(&layer.up)),
            ("mlp.down_proj", matrix(&layer.down)),
        ];
        tensors.extend(parts.map(|(name, tensor)| (format!("model.layers.{i}.{name}.weight"), tensor)));
    }
    tensors
}

pub fn config_json(model: &Model) -> Json {
    let config = &model.config;
    json!({
        "model_type": "llama", "hidden_size": config.width, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "intermediate_size": config.ffn_width, "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context, "rms_norm_eps": config.norm_epsilon, "rope_theta": 10000.0,
        "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2,
    })
}

/// What a file is refused with.
pub fn refusal(path: &Path) -> String {
    match load(path, None) {
        Ok(_) => panic!("{} was read", path.display()),
        Err(error) => error.to_string(),
    }
}
