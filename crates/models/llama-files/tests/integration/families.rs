//! Models of other families give the logits of transformers, from each of their files. Their weights are random:
//! `research/peers/llama_families.py` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, s};
use serde::Deserialize;
use unspoken_llama_files::load;
use unspoken_llama_model::{Attention, KvCache, Model, RotatedModel, rotate, round_weights};

use crate::common::{largest_difference, logits, refusal, write_json};

/// What transformers computes.
#[derive(Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

fn file(family: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/families").join(family).join(name)
}

fn expected(family: &str) -> (Vec<u32>, Array2<f32>) {
    let Expected { tokens, logits } =
        serde_json::from_slice(&fs::read(file(family, "expected.json")).unwrap()).unwrap();
    let shape = (logits.len(), logits[0].len());
    (tokens, Array2::from_shape_vec(shape, logits.concat()).unwrap())
}

/// A copy of the directory of a family.
fn directory(family: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(file(family, name), directory.path().join(name)).unwrap();
    }
    directory
}

/// Logits in passes of a few tokens each, so that the later ones see the cache.
fn logits_in_parts(model: &Model, tokens: &[u32]) -> Array2<f32> {
    let mut cache = KvCache::new(&model.config);
    let parts: Vec<Array2<f32>> = tokens
        .chunks(7)
        .map(|tokens| model.logits(model.forward(tokens, &mut cache, &mut ()).unwrap().view()))
        .collect();
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    ndarray::concatenate(ndarray::Axis(0), &views).unwrap()
}

/// The model gives the logits of transformers; so does the rotated model, which is read as it was written.
fn agrees(model: Model, family: &str) {
    let (mut tokens, expected) = expected(family);
    // Within a window a token sees all tokens before it.
    tokens.truncate(model.config.context);
    let expected = expected.slice(s![..tokens.len(), ..]).to_owned();
    let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let near = |found: &Array2<f32>, bound: f32, what: &str| {
        let difference = largest_difference(found, &expected);
        println!("{family}, {what}: largest difference of a logit {difference:.1e} of {scale:.1}");
        assert!(difference < bound * scale, "{family}, {what}: {difference} of {scale}");
    };
    near(&logits(&model, &tokens), 1e-5, "one pass");
    near(&logits_in_parts(&model, &tokens), 1e-5, "several passes");
    let stored = model.weights.digest();
    let mut rotated = model;
    rotate(&rotated.config, &mut rotated.weights, 5);
    near(&logits(&rotated, &tokens), 3e-5, "rotated");
    let mut rounded = rotated.clone();
    round_weights(&mut rounded.weights, 18);
    near(&logits(&rounded, &tokens), 1e-3, "rounded");
    let directory = tempfile::tempdir().unwrap();
    let half = RotatedModel::new(rotated, vec![1]);
    half.save(directory.path()).unwrap();
    let read = RotatedModel::load(directory.path()).unwrap();
    assert_eq!((read.id(), &read.model().config), (half.id(), &half.model().config));
    assert_eq!(logits(read.model(), &tokens), logits(half.model(), &tokens));
    assert_ne!(read.model().weights.digest(), stored);
    if read.model().config.attention.is_plain() {
        return;
    }
    // A half that states fewer parts than it has is refused, and so is one of the version that has none.
    let path = directory.path().join("tamed.safetensors");
    let bytes = fs::read(&path).unwrap();
    for (from, to) in [("llama tamed 2", "llama tamed 1"), (":true", ":null"), ("output_bias", "output_biaz")] {
        let Some(place) = bytes.windows(from.len()).position(|part| part == from.as_bytes()) else {
            assert_eq!(from, ":true");
            continue;
        };
        let mut other = bytes.clone();
        other[place..place + from.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, other).unwrap();
        let error = RotatedModel::load(directory.path()).err().unwrap().to_string();
        assert!(error.contains("tamed.safetensors"), "{from}: {error}");
    }
}

fn in_directory(family: &str, attention: Attention) {
    let model = load(&file(family, ""), None).unwrap().model;
    assert_eq!(model.config.attention, attention);
    agrees(model, family);
}

/// The GGUF file, which transformers read to the same logits.
fn in_gguf(family: &str) {
    let model = load(&file(family, "model.gguf"), None).unwrap().model;
    let other = load(&file(family, ""), None).unwrap().model;
    assert_eq!((&model.config, model.weights.digest()), (&other.config, other.weights.digest()));
}

#[test]
fn llama_with_biases_gives_the_logits_of_transformers() {
    in_directory("llama-biases", Attention { input_biases: true, output_bias: true, ..Attention::default() });
}

#[test]
fn qwen2_gives_the_logits_of_transformers() {
    in_directory("qwen2", Attention { input_biases: true, ..Attention::default() });
    in_gguf("qwen2");
}

#[test]
fn qwen3_gives_the_logits_of_transformers() {
    in_directory("qwen3", Attention { head_norms: true, ..Attention::default() });
    in_gguf("qwen3");
}

#[test]
fn smollm3_gives_the_logits_of_transformers() {
    in_directory("smollm3", Attention { unrotated: vec![1], ..Attention::default() });
}

#[test]
fn mistral_gives_the_logits_of_transformers() {
    let model = load(&file("mistral", ""), None).unwrap().model;
    // The window bounds the context.
    assert_eq!((&model.config.attention, model.config.context), (&Attention::default(), 12));
    agrees(model, "mistral");
}

#[test]
fn phi3_gives_the_logits_of_transformers() {
    let model = load(&file("phi3", ""), None).unwrap().model;
    // Half of the coordinates of a head are turned. The window bounds the context.
    assert_eq!((&model.config.rope_frequencies[..], model.config.context), (&[1.0, 0.01, 0.0, 0.0][..], 12));
    agrees(model, "phi3");
}

#[test]
fn parts_of_rotations_that_do_not_fit_are_refused() {
    let directory = directory("phi3");
    let path = directory.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    for factor in ["0.4", "-0.5", "1.5", "1e300"] {
        fs::write(
            &path,
            config.replace("\"partial_rotary_factor\": 0.5", &format!("\"partial_rotary_factor\": {factor}")),
        )
        .unwrap();
        let refused = refusal(directory.path());
        assert!(refused.contains("partial_rotary_factor"), "{factor}: {refused}");
    }
    // Models of another family do not have them, nor fused maps.
    fs::write(&path, config.replace("\"phi3\"", "\"llama\"")).unwrap();
    assert!(refusal(directory.path()).contains("partial_rotary_factor 0.5"), "{}", refusal(directory.path()));
    fs::write(&path, config.replace("\"phi3\"", "\"llama\"").replace("0.5", "1.0")).unwrap();
    assert!(refusal(directory.path()).contains("self_attn.q_proj"), "{}", refusal(directory.path()));
    let longrope = config.replace("\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"longrope\"}");
    fs::write(&path, longrope).unwrap();
    assert!(refusal(directory.path()).contains("longrope"), "{}", refusal(directory.path()));
}

#[test]
fn layers_without_rope_are_those_of_the_configuration() {
    let directory = directory("smollm3");
    let path = directory.path().join("config.json");
    let mut config: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut set = |key: &str, value: serde_json::Value| {
        config[key] = value;
        write_json(directory.path(), "config.json", &config);
    };
    for (numbers, found) in [(vec![1, 0], "2 numbers"), (vec![1, 0, 2], "3 numbers")] {
        set("no_rope_layers", numbers.into());
        assert!(refusal(directory.path()).contains(found), "{}", refusal(directory.path()));
    }
    set("no_rope_layers", serde_json::Value::Null);
    assert!(load(directory.path(), None).unwrap().model.config.attention.is_plain());
    set("no_rope_layer_interval", 3.into());
    assert_eq!(load(directory.path(), None).unwrap().model.config.attention.unrotated, [2]);
    set("no_rope_layer_interval", 0.into());
    assert!(refusal(directory.path()).contains("no_rope_layer_interval 0"), "{}", refusal(directory.path()));
    set("num_hidden_layers", u64::MAX.into());
    assert!(refusal(directory.path()).contains("num_hidden_layers 18446744073709551615"));
}

#[test]
fn the_width_of_a_head_of_qwen3_must_be_stated() {
    let directory = directory("qwen3");
    let path = directory.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, config.replace("head_dim", "head_dimension")).unwrap();
    assert!(refusal(directory.path()).contains("no head_dim"), "{}", refusal(directory.path()));
}

#[test]
fn biases_that_a_family_must_have_are_missed_by_name() {
    let directory = directory("qwen2");
    let path = directory.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    // Of a Llama model the same tensors are more than the configuration states.
    fs::write(&path, config.replace("\"qwen2\"", "\"llama\"")).unwrap();
    assert!(refusal(directory.path()).contains("self_attn.k_proj.bias"), "{}", refusal(directory.path()));
    let with = |key: &str| config.replace("\"qwen2\",", &format!("\"llama\", \"{key}\": true,"));
    fs::write(&path, with("attention_bias")).unwrap();
    assert!(refusal(directory.path()).contains("self_attn.o_proj.bias"), "{}", refusal(directory.path()));
    fs::write(&path, with("mlp_bias")).unwrap();
    assert!(refusal(directory.path()).contains("mlp_bias true"), "{}", refusal(directory.path()));
    fs::write(&path, config.replace("\"qwen2\"", "\"mistral\"")).unwrap();
    assert!(refusal(directory.path()).contains("bias"), "{}", refusal(directory.path()));
}

#[test]
fn the_window_of_qwen2_counts_only_where_it_is_used() {
    let directory = directory("qwen2");
    let path = directory.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap().replace("32768", "50");
    for (used, context) in [("false", 128), ("true", 50)] {
        let stated = config.replace("\"use_sliding_window\": false", &format!("\"use_sliding_window\": {used}"));
        fs::write(&path, stated).unwrap();
        assert_eq!(load(directory.path(), None).unwrap().model.config.context, context);
    }
}
