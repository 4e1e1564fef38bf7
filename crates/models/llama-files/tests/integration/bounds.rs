//! Where a text begins and ends, and which tokens a model may choose.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use ndarray::{Array2, Axis, concatenate};
use serde_json::{Value as Json, json};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{Generation, Message, Model, Rendering, Tokenizer};

use crate::common::*;

fn tokenizer(directory: &Path) -> Tokenizer {
    load(directory, None).unwrap().tokenizer
}

/// A post-processor that puts a token in front.
fn template(token: &str, id: usize) -> Json {
    json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    })
}

#[test]
fn the_tokenizer_decides_the_first_token() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // The configuration states another one than the tokenizer.
    let mut config = config_json(&model);
    config["bos_token_id"] = json!(3);
    write_safetensors(directory, &model, &config);
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let both = json!({"type": "Sequence", "processors": [bytes, template("<s>", 1)]});
    let none = Json::Null;
    let class = |class: &str| json!({"tokenizer_class": class, "bos_token": "<s>"});
    let wants = json!({"add_bos_token": true, "bos_token": {"content": "<s>"}, "tokenizer_class": "LlamaTokenizer"});
    let refuses = json!({"add_bos_token": false, "bos_token": "<s>", "tokenizer_class": "LlamaTokenizer"});
    for (processor, own, expected) in [
        (&template("<s>", 1), Some(class("GPT2Tokenizer")), Some(1)),
        (&template("<s>", 1), None, Some(1)),
        (&template("</s>", 2), Some(wants.clone()), Some(2)),
        (&both, Some(class("PreTrainedTokenizerFast")), Some(1)),
        (&bytes, Some(class("LlamaTokenizer")), None),
        (&bytes, Some(wants.clone()), None),
        (&bytes, None, None),
        (&none, Some(class("PreTrainedTokenizerFast")), None),
        (&none, Some(class("LlamaTokenizer")), None),
        (&none, Some(wants), Some(1)),
        (&none, Some(refuses), None),
        (&none, None, Some(3)),
    ] {
        let mut json = words(512);
        json["post_processor"] = processor.clone();
        write_json(directory, "tokenizer.json", &json);
        let path = directory.join("tokenizer_config.json");
        match &own {
            Some(own) => write_json(directory, "tokenizer_config.json", own),
            None => drop(std::fs::remove_file(path)),
        }
        let found = tokenizer(directory);
        assert_eq!(found.begin(), expected, "{processor} {own:?}");
        let begin: Vec<u32> = expected.into_iter().collect();
        assert_eq!(found.encode("the word9").unwrap(), [begin, vec![3, 9]].concat());
    }
}

/// The template of conversations: a file of its own, or in the configuration of the tokenizer, alone or among others.
#[test]
fn a_directory_has_the_template_of_conversations() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_safetensors(directory, &model, &config_json(&model));
    write_json(directory, "tokenizer.json", &words(512));
    let named = |name: &str, template: &str| json!({"name": name, "template": template});
    let texts = |template: Json| json!({"bos_token": {"content": "<s>"}, "chat_template": template});
    let say = "{{ bos_token }}{{ messages[0].content }}";
    let question = [Message::new("user", "Why?")];
    let read = |own: &Json| {
        write_json(directory, "tokenizer_config.json", own);
        load(directory, None).map(|loaded| {
            let template = loaded.tokenizer.chat_template()?;
            Some(template.render(&question, true, &Rendering::default()).unwrap().to_string())
        })
    };
    assert_eq!(read(&texts(Json::Null)).unwrap(), None);
    assert_eq!(read(&texts(json!(say))).unwrap().unwrap(), "<s>Why?");
    assert_eq!(read(&texts(json!([named("rag", "x"), named("default", say)]))).unwrap().unwrap(), "<s>Why?");
    assert_eq!(read(&texts(json!([named("rag", say)]))).unwrap().unwrap(), "<s>Why?");
    for (own, found) in [
        (json!([named("rag", "x"), named("tool_use", say)]), "chat templates \"rag\", \"tool_use\""),
        (json!([]), "chat templates"),
        (json!("{% for %}"), "compile"),
    ] {
        let error = read(&texts(own)).unwrap_err().to_string();
        assert!(error.contains(found) && error.contains("tokenizer_config.json"), "{error}");
    }
    std::fs::write(directory.join("chat_template.jinja"), "file: {{ messages[0].content }}").unwrap();
    assert_eq!(read(&texts(json!(say))).unwrap().unwrap(), "file: Why?");
}

#[test]
fn a_gguf_file_has_the_template_of_conversations() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut metadata = metadata(&model);
    let source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}";
    metadata.insert("tokenizer.chat_template".into(), Value::String(source.into()));
    // A token for padding that the vocabulary does not have.
    metadata.insert("tokenizer.ggml.padding_token_id".into(), Value::U32(9999));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    let tokenizer = load(&path, None).unwrap().tokenizer;
    let text = tokenizer.chat_template().unwrap();
    let text = text.render(&[Message::new("user", "Why?")], true, &Rendering::default()).unwrap();
    assert_eq!(*text, "\n<s>\nWhy?\n</s>\n");
    metadata.insert("tokenizer.chat_template".into(), Value::String("{% if %}".into()));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    let error = load(&path, None).err().unwrap().to_string();
    assert!(error.contains("chat template") && error.contains("model.gguf"), "{error}");
}

#[test]
fn control_tokens_between_line_breaks_are_found_by_their_names() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut config = config_json(&model);
    (config["bos_token_id"], config["eos_token_id"]) = (json!(0), json!(1));
    write_safetensors(directory, &model, &config);
    let mut json = words(510);
    json["added_tokens"] = json!([added(510, "\n<begin>\n"), added(511, "\n<end>\n")]);
    write_json(directory, "tokenizer.json", &json);
    let own = json!({"add_bos_token": true, "bos_token": "<begin>", "eos_token": "<end>"});
    write_json(directory, "tokenizer_config.json", &own);
    let found = tokenizer(directory);
    assert_eq!((found.begin(), found.ends()), (Some(510), &[1, 511][..]));
}

#[test]
fn first_and_last_tokens_that_the_tokenizer_does_not_have_are_refused() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_safetensors(directory, &model, &config_json(&model));
    for (key, value, part) in [
        ("bos_token_id", json!(128_000), "bos_token_id 128000"),
        ("eos_token_id", json!(128_001), "eos_token_id 128001"),
        ("eos_token_id", json!([2, 512]), "eos_token_id 512"),
    ] {
        let mut config = config_json(&model);
        config[key] = value;
        write_json(directory, "config.json", &config);
        assert!(refusal(directory).contains(part), "{}", refusal(directory));
    }
    write_json(directory, "config.json", &config_json(&model));
    write_json(directory, "tokenizer_config.json", &json!({"add_bos_token": true, "bos_token": "<begin>"}));
    assert!(refusal(directory).contains("\"<begin>\""));
    write_json(directory, "tokenizer_config.json", &json!(["no", "object"]));
    assert!(refusal(directory).contains("tokenizer_config.json"));
    write_json(directory, "tokenizer_config.json", &json!({}));
    let mut json = words(512);
    let mut twice = template("<s>", 1);
    let first = twice["single"][0].clone();
    twice["single"].as_array_mut().unwrap().insert(0, first);
    json["post_processor"] = twice;
    write_json(directory, "tokenizer.json", &json);
    assert!(refusal(directory).contains("2 tokens in front"), "{}", refusal(directory));
}

#[test]
fn a_text_ends_at_every_end_that_the_files_state() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_safetensors(directory, &model, &config_json(&model));
    let ends = || tokenizer(directory).ends().to_vec();
    assert_eq!(ends(), [2]);
    for (stated, expected) in [(json!([2, 9]), vec![2, 9]), (json!(9), vec![2, 9]), (json!(null), vec![2])] {
        write_json(directory, "generation_config.json", &json!({"eos_token_id": stated}));
        assert_eq!(ends(), expected);
    }
    write_json(directory, "generation_config.json", &json!({"temperature": 0.6}));
    write_json(directory, "tokenizer_config.json", &json!({"eos_token": "word11"}));
    assert_eq!(ends(), [2, 11]);
    // Control tokens that end a turn.
    let mut json = words(509);
    json["added_tokens"] = json!([added(509, "<|eot_id|>"), added(510, "<|im_end|>"), added(511, "<end_of_turn>")]);
    write_json(directory, "tokenizer.json", &json);
    assert_eq!(ends(), [2, 11, 509, 510, 511]);
    write_json(directory, "generation_config.json", &json!({"eos_token_id": "</s>"}));
    assert!(refusal(directory).contains("generation_config.json"));

    let path = directory.join("model.gguf");
    let mut metadata = metadata(&model);
    let Some(Value::Array(tokens)) = metadata.get_mut("tokenizer.ggml.tokens") else { panic!("no tokens") };
    tokens[300] = Value::String("<|eot_id|>".into());
    metadata.insert("tokenizer.ggml.eom_token_id".into(), Value::U32(301));
    write_gguf(&path, &model, &metadata, GgmlDType::F32);
    assert_eq!(load(&path, None).unwrap().tokenizer.ends(), [2, 301, 300]);
}

/// The model with more rows of the embedding. The logits of these rows are larger than the logits of all tokens.
fn padded(model: &Model, rows: usize) -> Model {
    let mut padded = model.clone();
    let more = Array2::from_elem((rows, model.config.width), 50.0);
    let more = &more * &model.weights.norm.mapv(f32::signum);
    padded.weights.embedding =
        concatenate![Axis(0), model.weights.embedding, more.clone(), -&more].as_standard_layout().into_owned();
    padded.config.vocabulary += 2 * rows;
    padded
}

#[test]
fn rows_that_only_fill_the_embedding_up_are_never_chosen() {
    let LoadedModel { model, tokenizer: own } = stories();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let padded = padded(&model, 44);
    let prompt = own.encode("Once upon a time, Tom").unwrap();
    let told = |model: &Model| Generation::new(model, &prompt, &[]).unwrap().take(20).collect::<Vec<u32>>();
    assert!(told(&padded).iter().any(|token| *token >= 512));

    write_safetensors(directory, &padded, &config_json(&padded));
    write_json(directory, "tokenizer.json", &words(512));
    let found = load(directory, None).unwrap();
    assert_eq!(found.model.config, model.config);
    assert_eq!(told(&found.model), told(&model));

    // Padding of llama.cpp's conversion: tokens that are not used.
    let path = directory.join("model.gguf");
    let mut metadata = metadata(&padded);
    for (key, more) in [
        ("tokenizer.ggml.tokens", (512..600).map(|id| Value::String(format!("[PAD{id}]"))).collect::<Vec<_>>()),
        ("tokenizer.ggml.scores", vec![Value::F32(-10_000.0); 88]),
        ("tokenizer.ggml.token_type", vec![Value::I32(5); 88]),
    ] {
        let Some(Value::Array(values)) = metadata.get_mut(key) else { panic!("no {key}") };
        values.extend(more);
    }
    write_gguf(&path, &padded, &metadata, GgmlDType::F32);
    let found = load(&path, None).unwrap();
    assert_eq!((found.model.config.vocabulary, found.tokenizer.vocabulary()), (512, 512));
    assert_eq!(told(&found.model), told(&model));
}

#[test]
fn added_tokens_beyond_the_embedding_are_text() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_safetensors(directory, &model, &config_json(&model));
    let mut json = words(511);
    json["added_tokens"] = json!([added(511, "<last>"), added(512, "<pad>"), added(513, "<|im_end|>")]);
    write_json(directory, "tokenizer.json", &json);
    let found = load(directory, None).unwrap();
    assert_eq!((found.model.config.vocabulary, found.tokenizer.vocabulary()), (512, 512));
    assert_eq!(found.tokenizer.encode("the <last> <pad> <|im_end|>").unwrap(), [1, 3, 511, 0, 0]);
    assert_eq!((found.tokenizer.controls(), found.tokenizer.ends()), (vec![511], &[2][..]));
    // Tokens that texts are made of have rows.
    write_json(directory, "tokenizer.json", &words(513));
    assert!(refusal(directory).contains("513 tokens"), "{}", refusal(directory));
}

#[test]
fn ids_that_the_tokenizer_would_change_are_refused() {
    let model = stories().model;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_safetensors(directory, &model, &config_json(&model));
    let mut json = words(500);
    json["added_tokens"] = json!([added(505, "<|eot_id|>")]);
    write_json(directory, "tokenizer.json", &json);
    let refused = refusal(directory);
    assert!(refused.contains("\"<|eot_id|>\" with id 505") && refused.contains("500"), "{refused}");
    let mut json = words(500);
    json["model"]["vocab"].as_object_mut().unwrap().remove("word9");
    write_json(directory, "tokenizer.json", &json);
    assert!(refusal(directory).contains("no token with id 9"), "{}", refusal(directory));
}
