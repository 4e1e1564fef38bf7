//! stories260K, written in the other formats: each gives the same model. Damaged files and models of other kinds are
//! refused by name.

use std::fs;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use serde_json::json;
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::Tokenizer;

use crate::common::*;

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
    // With the space in front, the text gives the same tokens.
    assert_eq!(plain.encode(" big dog").unwrap(), tokenizer.encode("big dog").unwrap()[1..]);
    assert_ne!(plain.encode("big dog").unwrap(), tokenizer.encode("big dog").unwrap()[1..]);
    let behind = |tokenizer: &Tokenizer, text: &str| tokenizer.encode_continuation(text).unwrap();
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
    metadata.insert("tokenizer.ggml.pre".into(), Value::String("falcon".into()));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    assert!(refusal(&path).contains("\"falcon\""), "{}", refusal(&path));
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
    // After the name: the number of dimensions, two dimensions, the type.
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
        ("model_type", json!("gemma"), "\"gemma\""),
        ("attention_bias", json!(true), "self_attn.q_proj.bias"),
        ("mlp_bias", json!(true), "mlp_bias"),
        ("hidden_act", json!("gelu"), "\"gelu\""),
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0}), "\"yarn\""),
        ("rope_scaling", json!({"rope_type": "linear"}), "no factor"),
        ("num_hidden_layers", json!(6), "model.layers.5"),
        ("hidden_size", json!(-1), "config.json"),
        ("vocab_size", json!(2), "512 tokens"),
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
