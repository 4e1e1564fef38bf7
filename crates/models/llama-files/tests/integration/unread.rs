//! What a file states and a model cannot do is never passed over: every tensor is used, and so is every key of RoPE.

use std::fs;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use candle_core::{DType, Device, Tensor};
use ndarray::Array2;
use serde_json::{Value as Json, json};
use unspoken_llama_files::load;

use crate::common::*;

fn ones(length: usize) -> Tensor {
    Tensor::ones(length, DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn tensors_that_are_not_used_are_refused_by_name() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    for (name, length) in [("blk.0.attn_q.bias", 64), ("blk.4.attn_output.bias", 64), ("output_norm.bias", 64)] {
        let more = vec![(name.to_owned(), ones(length))];
        write_gguf_with(&path, &model, &metadata(&model), GgmlDType::F32, more);
        let refused = refusal(&path);
        assert!(refused.contains("model.gguf") && refused.contains(name), "{refused}");
    }
    let more = (0..5).map(|layer| (format!("blk.{layer}.attn_k.bias"), ones(32))).collect();
    write_gguf_with(&path, &model, &metadata(&model), GgmlDType::F32, more);
    assert!(refusal(&path).contains("blk.0.attn_k.bias, blk.1.attn_k.bias, blk.2.attn_k.bias and 2 more"));

    write_safetensors(directory.path(), &model, &config_json(&model));
    for name in ["model.layers.1.self_attn.q_proj.bias", "model.layers.0.mlp.up_proj.bias", "model.extra", "other"] {
        let mut tensors = tensors(&model);
        tensors.insert(name.into(), ones(64));
        candle_core::safetensors::save(&tensors, directory.path().join("model.safetensors")).unwrap();
        assert!(refusal(directory.path()).contains(name), "{}", refusal(directory.path()));
    }
    // Of a type that is not read.
    let mut tensors = tensors(&model);
    tensors.insert("model.counts".into(), Tensor::zeros(3, DType::U32, &Device::Cpu).unwrap());
    candle_core::safetensors::save(&tensors, directory.path().join("model.safetensors")).unwrap();
    assert!(refusal(directory.path()).contains("model.counts"));
    // A layer that the configuration does not know.
    write_safetensors(directory.path(), &model, &config_json(&model));
    let mut config = config_json(&model);
    config["num_hidden_layers"] = json!(4);
    write_json(directory.path(), "config.json", &config);
    assert!(refusal(directory.path()).contains("model.layers.4"));
}

/// Mistral is Llama with a window: within it the two are the same.
#[test]
fn the_window_of_mistral_bounds_the_context() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let mut config = config_json(&model);
    write_safetensors(directory.path(), &model, &config);
    write_json(directory.path(), "tokenizer.json", &words(512));
    let whole = load(directory.path(), None).unwrap().model;
    (config["model_type"], config["sliding_window"]) = (json!("mistral"), json!(100));
    write_json(directory.path(), "config.json", &config);
    let bounded = load(directory.path(), None).unwrap().model;
    assert_eq!((bounded.config.context, &bounded.weights.digest()), (100, &whole.weights.digest()));
    for window in [Json::Null, json!(100_000)] {
        config["sliding_window"] = window;
        write_json(directory.path(), "config.json", &config);
        assert_eq!(load(directory.path(), None).unwrap().model.config, whole.config);
    }
    config["model_type"] = json!("mixtral");
    write_json(directory.path(), "config.json", &config);
    assert!(refusal(directory.path()).contains("\"mixtral\""), "{}", refusal(directory.path()));
}

#[test]
fn tensors_of_angles_are_those_of_the_configuration() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    write_safetensors(directory.path(), &model, &config_json(&model));
    let save = |angles: &[f64], dtype: DType| {
        let mut tensors = tensors(&model);
        let angles: Vec<f32> = angles.iter().map(|angle| *angle as f32).collect();
        let angles = Tensor::from_vec(angles.clone(), angles.len(), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), angles);
        candle_core::safetensors::save(&tensors, directory.path().join("model.safetensors")).unwrap();
    };
    let angles = model.config.rope_frequencies.clone();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        save(&angles, dtype);
        assert_eq!(load(directory.path(), None).unwrap().model.config, model.config);
    }
    for wrong in [vec![0.0; angles.len()], angles.iter().map(|angle| angle / 2.0).collect()] {
        save(&wrong, DType::F32);
        assert!(refusal(directory.path()).contains("layers.0.self_attn.rotary_emb.inv_freq"));
    }
    // Angles that are scaled, or that were written before they were.
    let mut config = config_json(&model);
    config["rope_scaling"] = json!({"rope_type": "linear", "factor": 2.0});
    write_json(directory.path(), "config.json", &config);
    assert!(load(directory.path(), None).is_ok());
    save(&angles, DType::F32);
    assert!(load(directory.path(), None).is_ok());
}

#[test]
fn a_factor_of_rope_without_a_type_is_linear_in_gguf_files() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let halved: Vec<f64> = model.config.rope_frequencies.iter().map(|frequency| frequency / 2.0).collect();
    let text = |text: &str| Value::String(text.into());
    let (factor, old, kind) = ("llama.rope.scaling.factor", "llama.rope.scale_linear", "llama.rope.scaling.type");
    let two = || Value::F32(2.0);
    for (keys, expected) in [
        (vec![(factor, two())], &halved),
        (vec![(old, two())], &halved),
        (vec![(old, Value::F32(4.0)), (factor, two())], &halved),
        (vec![(kind, text("linear")), (factor, two())], &halved),
        (vec![(kind, text("none")), (factor, two())], &model.config.rope_frequencies),
        (vec![(factor, Value::F32(0.0))], &model.config.rope_frequencies),
    ] {
        let mut metadata = metadata(&model);
        metadata.extend(keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
        write_gguf(&path, &model, &metadata, GgmlDType::F32);
        assert_eq!(&load(&path, None).unwrap().model.config.rope_frequencies, expected);
    }
    let mut metadata = metadata(&model);
    metadata.insert(factor.into(), Value::F32(-2.0));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    assert!(refusal(&path).contains("RoPE scaling by -2"));
}

#[test]
fn divisors_of_angles_are_used() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let divisors = (ones(4) * 2.0).unwrap();
    write_gguf_with(&path, &model, &metadata(&model), GgmlDType::F32, vec![("rope_freqs.weight".into(), divisors)]);
    let halved: Vec<f64> = model.config.rope_frequencies.iter().map(|frequency| frequency / 2.0).collect();
    assert_eq!(load(&path, None).unwrap().model.config.rope_frequencies, halved);
}

#[test]
fn both_names_of_the_kind_of_scaling_are_read() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    write_safetensors(directory.path(), &model, &config_json(&model));
    let set = |key: &str, value: Json| {
        let mut config = config_json(&model);
        config[key] = value;
        write_json(directory.path(), "config.json", &config);
    };
    let plain = model.config.rope_frequencies.clone();
    let halved: Vec<f64> = plain.iter().map(|frequency| frequency / 2.0).collect();
    for (scaling, expected) in [
        (json!({"factor": 2.0, "type": "linear"}), &halved),
        (json!({"factor": 2.0, "rope_type": "linear"}), &halved),
        (json!({"factor": 2.0, "rope_type": "linear", "type": "linear"}), &halved),
        (json!({"rope_type": "default", "type": "default"}), &plain),
        (json!({"rope_type": null, "type": "default"}), &plain),
        (json!({}), &plain),
        (json!(null), &plain),
    ] {
        set("rope_scaling", scaling.clone());
        assert_eq!(&load(directory.path(), None).unwrap().model.config.rope_frequencies, expected, "{scaling}");
    }
    for (key, value, part) in [
        ("rope_scaling", json!({"rope_type": "llama3", "type": "linear", "factor": 2.0}), "type \"linear\""),
        ("rope_scaling", json!({"factor": 2.0}), "no rope_type"),
        ("partial_rotary_factor", json!(0.5), "partial_rotary_factor 0.5"),
    ] {
        set(key, value);
        assert!(refusal(directory.path()).contains(part), "{}", refusal(directory.path()));
    }
    let mut config = config_json(&model);
    config["rope_scaling"] = json!({"rope_type": "linear", "factor": 2.0});
    config["rope_parameters"] = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0});
    write_json(directory.path(), "config.json", &config);
    assert!(refusal(directory.path()).contains("that differ"));
}

#[test]
fn the_head_is_the_embedding_only_where_the_configuration_says_so() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    write_safetensors(directory.path(), &model, &config_json(&model));
    for stated in [json!(false), json!(null)] {
        let mut config = config_json(&model);
        config["tie_word_embeddings"] = stated;
        write_json(directory.path(), "config.json", &config);
        let refused = refusal(directory.path());
        assert!(refused.contains("lm_head.weight") && refused.contains("tie_word_embeddings"), "{refused}");
    }
    let save = |factor: f32| {
        let mut tensors = tensors(&model);
        tensors.insert("lm_head.weight".into(), matrix(&(&model.weights.embedding * factor)));
        candle_core::safetensors::save(&tensors, directory.path().join("model.safetensors")).unwrap();
    };
    save(2.0);
    assert_eq!(load(directory.path(), None).unwrap().model.weights.head.unwrap(), &model.weights.embedding * 2.0);
    write_json(directory.path(), "config.json", &config_json(&model));
    assert!(refusal(directory.path()).contains("lm_head.weight that is not the embedding"));
    save(1.0);
    assert!(load(directory.path(), None).unwrap().model.weights.head.is_none());
}

#[test]
fn tensors_of_other_layouts_are_read() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    write_safetensors(directory.path(), &model, &config_json(&model));
    let file = directory.path().join("model.safetensors");
    let same = || {
        let found = load(directory.path(), None).unwrap().model;
        assert_eq!(logits(&found, &[1, 403, 407]), logits(&model, &[1, 403, 407]));
    };
    // Without the prefix of a model that has its head, and in 64 bits.
    let bare = |(name, tensor): (String, Tensor)| (name.trim_start_matches("model.").to_owned(), tensor);
    candle_core::safetensors::save(&tensors(&model).into_iter().map(bare).collect(), &file).unwrap();
    same();
    let wide = |(name, tensor): (String, Tensor)| (name, tensor.to_dtype(DType::F64).unwrap());
    candle_core::safetensors::save(&tensors(&model).into_iter().map(wide).collect(), &file).unwrap();
    same();
    // Beside an index of files that are gone.
    let index = json!({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}});
    write_json(directory.path(), "model.safetensors.index.json", &index);
    same();
    // In two files, and then with a tensor in both.
    let (one, other): (Vec<_>, Vec<_>) = tensors(&model).into_iter().partition(|(name, _)| name.contains("layers"));
    let names = ["a.safetensors", "b.safetensors"];
    let index = json!({"weight_map": {"model.norm.weight": names[0], "model.embed_tokens.weight": names[1]}});
    write_json(directory.path(), "model.safetensors.index.json", &index);
    fs::remove_file(&file).unwrap();
    candle_core::safetensors::save(&one.into_iter().collect(), directory.path().join(names[0])).unwrap();
    candle_core::safetensors::save(&other.into_iter().collect(), directory.path().join(names[1])).unwrap();
    same();
    candle_core::safetensors::save(&tensors(&model), directory.path().join(names[0])).unwrap();
    assert!(refusal(directory.path()).contains("which"), "{}", refusal(directory.path()));
    // Under a name that nothing states.
    fs::remove_file(directory.path().join("model.safetensors.index.json")).unwrap();
    assert!(refusal(directory.path()).contains("no model.safetensors"), "{}", refusal(directory.path()));
}

#[test]
fn what_the_configuration_leaves_out_is_what_other_programs_take() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let mut config = config_json(&model);
    for key in ["max_position_embeddings", "rms_norm_eps", "rope_theta"] {
        config.as_object_mut().unwrap().remove(key);
    }
    write_safetensors(directory.path(), &model, &config);
    let found = load(directory.path(), None).unwrap().model.config;
    assert_eq!((found.context, found.norm_epsilon), (2048, 1e-6));
    assert_eq!(found.rope_frequencies, model.config.rope_frequencies);
}

#[test]
fn a_tensor_that_a_gguf_file_has_twice_is_refused() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let copy = matrix(&Array2::ones((64, 64)));
    write_gguf_with(&path, &model, &metadata(&model), GgmlDType::F32, vec![("blk.0.attn_q.weight".into(), copy)]);
    assert!(refusal(&path).contains("two tensors blk.0.attn_q.weight"), "{}", refusal(&path));
}
