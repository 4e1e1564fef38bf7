//! stories260K, written in the other formats: each gives the same model. Damaged files and models of other kinds are
//! refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use ndarray::{Array1, Array2};
use serde_json::{Value as Json, json};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{KvCache, Model, Tokenizer};

const TEXT: &str = "Once upon a time, Lily and Tom saw 3 big dogs at the caf\u{e9}.";

fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K").join(name)
}

fn stories() -> LoadedModel {
    load(&published("stories260K.bin"), None).unwrap()
}

fn logits(model: &Model, tokens: &[u32]) -> Array2<f32> {
    model.logits(model.forward(tokens, &mut KvCache::new(&model.config), &mut ()).unwrap().view())
}

fn largest_difference(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    (a - b).iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Tokens and scores of `tok512.bin`.
fn pieces() -> (Vec<String>, Vec<f32>) {
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

fn matrix(weights: &Array2<f32>) -> Tensor {
    Tensor::from_iter(weights.iter().copied(), &Device::Cpu).unwrap().reshape(weights.dim()).unwrap()
}

fn vector(gains: &Array1<f32>) -> Tensor {
    Tensor::from_iter(gains.iter().copied(), &Device::Cpu).unwrap()
}

/// The metadata of a GGUF file of a model with the tokenizer of stories260K.
fn metadata(model: &Model) -> BTreeMap<String, Value> {
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
fn write_gguf(path: &Path, model: &Model, metadata: &BTreeMap<String, Value>, kind: GgmlDType) {
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

/// Writes a directory of Hugging Face's layout, where the two halves of a head are rotated together. Its tokenizer
/// knows few words.
fn write_safetensors(directory: &Path, model: &Model, config: &Json) {
    let halves = |weights: &Array2<f32>| {
        let width = model.config.head_width;
        let row = |row: usize| row / width * width + row % (width / 2) * 2 + row % width / (width / 2);
        matrix(&Array2::from_shape_fn(weights.dim(), |(i, j)| weights[(row(i), j)]))
    };
    let weights = &model.weights;
    let mut tensors = std::collections::HashMap::from([
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
    candle_core::safetensors::save(&tensors, directory.join("model.safetensors")).unwrap();
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let words = json!({"type": "WordLevel", "vocab": {"<unk>": 0, "<s>": 1, "the": 2}, "unk_token": "<unk>"});
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": words});
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

fn config_json(model: &Model) -> Json {
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
fn refusal(path: &Path) -> String {
    match load(path, None) {
        Ok(_) => panic!("{} was read", path.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_gguf_file_gives_the_same_tokens_and_logits() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode(TEXT).unwrap();
    let expected = logits(&model, &tokens);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    write_gguf(&path, &model, &metadata(&model), GgmlDType::F32);
    let same = load(&path, None).unwrap();
    assert_eq!((&same.model.config, same.tokenizer.ends()), (&model.config, &[2][..]));
    assert_eq!(same.tokenizer.encode(TEXT).unwrap(), tokens);
    assert_eq!(same.tokenizer.controls(), [1, 2]);
    assert_eq!(logits(&same.model, &tokens), expected);
    // Rounded weights: half of the steps of 8 bits of each block's range.
    for (kind, most) in [(GgmlDType::F16, 0.02), (GgmlDType::Q8_0, 0.5), (GgmlDType::Q4_1, 6.0)] {
        write_gguf(&path, &model, &metadata(&model), kind);
        let difference = largest_difference(&logits(&load(&path, None).unwrap().model, &tokens), &expected);
        assert!(difference > 0.0 && difference < most, "{kind:?}: {difference}");
    }
}

#[test]
fn flags_of_a_gguf_tokenizer_are_obeyed() {
    let LoadedModel { model, tokenizer } = stories();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut metadata = metadata(&model);
    metadata.insert("tokenizer.ggml.add_bos_token".into(), Value::Bool(false));
    metadata.insert("tokenizer.ggml.add_space_prefix".into(), Value::Bool(false));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    let plain = load(&path, None).unwrap().tokenizer;
    assert_eq!(plain.begin(), None);
    // With the space in front, the same text is the one behind it.
    assert_eq!(plain.encode(" big dog").unwrap(), tokenizer.encode("big dog").unwrap()[1..]);
    assert_ne!(plain.encode("big dog").unwrap(), tokenizer.encode("big dog").unwrap()[1..]);
    let behind = |tokenizer: &Tokenizer, text: &str| tokenizer.encode_behind(text).unwrap();
    assert_eq!(behind(&tokenizer, " big dog"), behind(&tokenizer, "big dog"));
    assert_ne!(behind(&plain, " big dog"), behind(&plain, "big dog"));
    assert_ne!(behind(&tokenizer, "  big dog"), behind(&tokenizer, "big dog"));
    assert!(behind(&tokenizer, "").is_empty());
    assert!(!behind(&tokenizer, " ").is_empty());
    assert_eq!(plain.decode(&plain.encode(" big dog").unwrap()).unwrap(), " big dog");
}

#[test]
fn gguf_files_of_other_models_are_refused_by_name() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let text = |text: &str| Value::String(text.into());
    for (key, value, parts) in [
        ("general.architecture", text("mamba"), ["\"mamba\"", "\"llama\""]),
        ("general.alignment", Value::U32(0), ["general.alignment 0", "power of two"]),
        ("llama.expert_count", Value::U32(8), ["mixture of 8 experts", "dense"]),
        ("llama.rope.scaling.type", text("yarn"), ["\"yarn\"", "\"linear\""]),
        ("llama.rope.scaling.type", Value::U32(3), ["llama.rope.scaling.type", "a text"]),
        ("llama.rope.freq_base", Value::F32(0.0), ["RoPE frequencies", "finite"]),
        ("llama.attention.head_count_kv", Value::U32(3), ["3 key heads", "divides"]),
        ("llama.block_count", Value::U32(6), ["no such tensor", "blk.5.attn_norm.weight"]),
        ("llama.feed_forward_length", Value::U32(180), ["shape [172, 64]", "[180, 64]"]),
        ("llama.context_length", Value::U32(0), ["context 0", "1 to"]),
        ("tokenizer.ggml.model", text("t5"), ["\"t5\"", "\"gpt2\""]),
        ("tokenizer.ggml.bos_token_id", Value::U32(512), ["tokenizer.ggml.bos_token_id 512", "vocabulary"]),
        ("tokenizer.ggml.scores", Value::Array(vec![Value::F32(0.0)]), ["scores of 1 tokens", "512"]),
        ("llama.vocab_size", Value::U32(513), ["512 tokens for a vocabulary of 513", "as many"]),
    ] {
        let mut metadata = metadata(&model);
        metadata.insert(key.into(), value);
        write_gguf(&path, &model, &metadata, GgmlDType::F32);
        let refused = refusal(&path);
        assert!(refused.contains("model.gguf") && parts.iter().all(|part| refused.contains(part)), "{key}: {refused}");
    }
    for key in ["general.architecture", "llama.block_count", "tokenizer.ggml.tokens"] {
        let mut metadata = metadata(&model);
        metadata.remove(key);
        write_gguf(&path, &model, &metadata, GgmlDType::F32);
        let refused = refusal(&path);
        assert!(refused.contains(&format!("no metadata {key}")), "{refused}");
    }
}

#[test]
fn byte_level_tokenizers_without_their_splitting_are_refused() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut metadata = metadata(&model);
    metadata.insert("tokenizer.ggml.model".into(), Value::String("gpt2".into()));
    metadata.insert("tokenizer.ggml.merges".into(), Value::Array(vec![]));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    assert!(refusal(&path).contains("no metadata tokenizer.ggml.pre"), "{}", refusal(&path));
    metadata.insert("tokenizer.ggml.pre".into(), Value::String("qwen2".into()));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    assert!(refusal(&path).contains("\"qwen2\""), "{}", refusal(&path));
}

#[test]
fn an_unknown_quantisation_is_named() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    write_gguf(&path, &model, &metadata(&model), GgmlDType::F32);
    let bytes = fs::read(&path).unwrap();
    let name = b"blk.3.ffn_up.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    // Behind the name: the number of dimensions, two dimensions, the type.
    let place = at + 4 + 16..at + 4 + 16 + 4;
    for (kind, found) in [(23u32, "of type IQ4_XS"), (9, "of type Q8_1"), (4, "of unknown type 4"), (99, "type 99")] {
        let mut changed = bytes.clone();
        changed[place.clone()].copy_from_slice(&kind.to_le_bytes());
        fs::write(&path, changed).unwrap();
        let refused = refusal(&path);
        assert!(refused.contains("blk.3.ffn_up.weight") && refused.contains(found), "{refused}");
        assert!(refused.contains("Q4_1") && refused.contains("BF16"), "{refused}");
    }
}

#[test]
fn a_gguf_file_that_ends_early_is_refused_wherever_it_ends() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    write_gguf(&path, &model, &metadata(&model), GgmlDType::F32);
    let bytes = fs::read(&path).unwrap();
    for length in (4..20_000).step_by(97).chain((20_000..bytes.len()).step_by(50_021)).chain([bytes.len() - 4]) {
        fs::write(&path, &bytes[..length]).unwrap();
        let refused = refusal(&path);
        assert!(refused.contains("model.gguf") && refused.contains("needed"), "{length}: {refused}");
    }
}

#[test]
fn tensors_that_share_a_place_cannot_fill_the_memory() {
    let mut model = stories().model;
    // A thousand layers, each with the tensors of the first: 64 bytes of header for each tensor.
    model.weights.layers.truncate(1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut metadata = metadata(&model);
    metadata.insert("llama.block_count".into(), Value::U32(1000));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    let refused = refusal(&path);
    assert!(refused.contains("weights in") && refused.contains("bytes"), "{refused}");
}

#[test]
fn safetensors_give_the_same_logits() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode(TEXT).unwrap();
    let directory = tempfile::tempdir().unwrap();
    write_safetensors(directory.path(), &model, &config_json(&model));
    let same = load(directory.path(), None).unwrap();
    assert_eq!(same.model.config, model.config);
    assert_eq!(logits(&same.model, &tokens), logits(&model, &tokens));
    assert_eq!((same.tokenizer.begin(), same.tokenizer.ends()), (Some(1), &[2][..]));
}

#[test]
fn rope_parameters_of_newer_files_are_those_of_older_ones() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let scaling = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    });
    let mut older = config_json(&model);
    older["rope_theta"] = json!(500_000.0);
    older["rope_scaling"] = scaling.clone();
    write_safetensors(directory.path(), &model, &older);
    let expected = load(directory.path(), None).unwrap().model.config;
    assert_ne!(expected.rope_frequencies, model.config.rope_frequencies);
    let mut newer = config_json(&model);
    newer.as_object_mut().unwrap().remove("rope_theta");
    newer["rope_parameters"] = scaling;
    newer["rope_parameters"]["rope_theta"] = json!(500_000.0);
    fs::write(directory.path().join("config.json"), newer.to_string()).unwrap();
    assert_eq!(load(directory.path(), None).unwrap().model.config, expected);
}

#[test]
fn wrong_safetensors_are_refused_by_name() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let good = config_json(&model);
    write_safetensors(directory.path(), &model, &good);
    for (key, value, part) in [
        ("model_type", json!("qwen2"), "\"qwen2\""),
        ("attention_bias", json!(true), "biases"),
        ("hidden_act", json!("gelu"), "\"gelu\""),
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0}), "\"yarn\""),
        ("rope_scaling", json!({"rope_type": "linear"}), "no factor"),
        ("num_hidden_layers", json!(6), "model.layers.5"),
        ("hidden_size", json!(-1), "config.json"),
        ("vocab_size", json!(2), "3 tokens"),
        ("tie_word_embeddings", json!("perhaps"), "config.json"),
    ] {
        let mut config = good.clone();
        config[key] = value;
        fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        let refused = refusal(directory.path());
        assert!(refused.contains(part), "{key}: {refused}");
    }
    fs::write(directory.path().join("config.json"), good.to_string()).unwrap();
    let file = directory.path().join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    for length in (0..12_000).step_by(997).chain([bytes.len() / 2, bytes.len() - 1]) {
        fs::write(&file, &bytes[..length]).unwrap();
        assert!(refusal(directory.path()).contains("model.safetensors"), "{length}");
    }
    let index = json!({"weight_map": {"model.norm.weight": "../model.safetensors"}});
    fs::write(directory.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    assert!(refusal(directory.path()).contains("same directory"));
}
