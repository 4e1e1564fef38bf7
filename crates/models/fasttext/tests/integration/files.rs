//! Tests of model files: lossless, separate halves, malicious bytes are refused.

#[allow(missing_docs, dead_code)]
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{model, quick, separable};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use unspoken_fasttext::{Encoder, FastTextError, Model, ScoreTables, Tokeniser, TrainOptions, WordRule};
use unspoken_store::{ModelFiles, StoreError};

fn saved() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    model(&quick()).save(directory.path()).expect("saves");
    directory
}

/// Changes one JSON file in place.
fn edit(directory: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let path = directory.join(name);
    let mut value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    change(&mut value);
    fs::write(path, serde_json::to_vec(&value).expect("JSON")).expect("writes");
}

/// Replaces a half's tensor and updates its checksum.
fn replace_weights(directory: &Path, half: &str, name: &str, dtype: Dtype, shape: &[usize], data: &[u8]) {
    let view = TensorView::new(dtype, shape.to_vec(), data).expect("a tensor");
    let bytes = safetensors::serialize([(name, view)], None).expect("serialises");
    let sum = blake3::hash(&bytes).to_hex().to_string();
    fs::write(directory.join(format!("{half}.safetensors")), bytes).expect("writes");
    edit(directory, &format!("{half}.json"), |v| v["model"]["weights_blake3"] = json!(sum));
}

#[test]
fn a_saved_model_is_the_same_model() {
    let model = model(&quick());
    let directory = tempfile::tempdir().expect("a directory");
    let nested = directory.path().join("models/sms");
    model.save(&nested).expect("saves");
    let loaded = Model::load(&nested).expect("loads");
    assert_eq!(loaded, model);
    for text in separable(30).texts() {
        assert_eq!(loaded.scores(text), model.scores(text));
    }
    let names = ["client.json", "client.safetensors"];
    let mut files: BTreeMap<_, _> = names.map(|name| (name.into(), fs::read(nested.join(name)).expect("reads"))).into();
    assert_eq!(&Encoder::read(ModelFiles::Memory(&files)).expect("is read"), model.encoder());
    files.get_mut(names[1]).expect("is there").pop();
    let refused = Encoder::read(ModelFiles::Memory(&files));
    assert!(matches!(refused, Err(FastTextError::Store(StoreError::Checksum { .. }))), "{refused:?}");
    files.remove(names[1]);
    let absent = Encoder::read(ModelFiles::Memory(&files));
    assert!(matches!(absent, Err(FastTextError::Store(StoreError::Io { .. }))), "{absent:?}");
    let again = directory.path().join("again");
    loaded.save(&again).expect("saves");
    for file in ["client.json", "client.safetensors", "server.json", "server.safetensors"] {
        let read = |folder: &Path| fs::read(folder.join(file)).expect("reads");
        assert_eq!(read(&nested), read(&again), "{file}");
    }
}

#[test]
fn each_half_loads_without_the_other_and_says_nothing_of_it() {
    let directory = saved();
    let path = directory.path();
    let server = fs::read_to_string(path.join("server.json")).expect("reads");
    assert!(!server.contains("prize"), "the server's half names a word");
    let client = saved();
    for file in ["server.json", "server.safetensors"] {
        fs::remove_file(client.path().join(file)).expect("removes");
    }
    for file in ["client.json", "client.safetensors"] {
        fs::remove_file(path.join(file)).expect("removes");
    }
    let tables = ScoreTables::load(path).expect("loads");
    let encoder = Encoder::load(client.path()).expect("loads");
    assert_eq!(tables.id(), encoder.id());
    let scores = tables.scores(&encoder.encode("claim your prize")).expect("same shape");
    assert_eq!(encoder.label(&scores).expect("two scores"), "spam");
    assert!(matches!(Model::load(path), Err(FastTextError::Store(StoreError::Io { .. }))));
}

#[test]
fn halves_of_two_runs_do_not_join() {
    let (one, two) = (saved(), tempfile::tempdir().expect("a directory"));
    let options = TrainOptions { seed: 9, ..quick() };
    model(&options).save(two.path()).expect("saves");
    for file in ["server.json", "server.safetensors"] {
        fs::copy(two.path().join(file), one.path().join(file)).expect("copies");
    }
    let error = Model::load(one.path()).expect_err("refused");
    assert!(matches!(error, FastTextError::Halves { what: "model id", .. }), "{error}");
}

#[test]
fn other_versions_and_kinds_are_refused_first() {
    let directory = saved();
    edit(directory.path(), "client.json", |v| {
        v["version"] = json!(3);
        v["model"] = json!("of another form");
    });
    let error = Encoder::load(directory.path()).expect_err("refused");
    assert!(matches!(error, FastTextError::Store(StoreError::Format { .. })), "{error}");
    assert!(error.to_string().contains("version 3\", needed \"unspoken-fasttext-client version 1 to 2\""), "{error}");

    let directory = saved();
    edit(directory.path(), "server.json", |v| v["format"] = json!("unspoken-fasttext-client"));
    assert!(matches!(ScoreTables::load(directory.path()), Err(FastTextError::Store(StoreError::Format { .. }))));
}

/// A model of a release before there was a choice of words.
#[test]
fn earlier_files_keep_their_words_and_their_version() {
    let tokeniser = Tokeniser { words: WordRule::AsciiLetters, ..Tokeniser::default() };
    let model = model(&TrainOptions { tokeniser, ..quick() });
    let directory = tempfile::tempdir().expect("a directory");
    model.save(directory.path()).expect("saves");
    let text = fs::read_to_string(directory.path().join("client.json")).expect("reads");
    let client: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(client["version"], json!(1));
    assert_eq!(client["model"]["tokeniser"], json!({ "bigrams": false, "max_tokens": 128 }));
    let loaded = Model::load(directory.path()).expect("loads");
    assert_eq!(loaded, model);
    // `priz` and `e` are words of these models, and unknown ones.
    assert_eq!(loaded.scores("priz\u{e9}e free"), loaded.scores("zebra zebra free"));
    assert_eq!(loaded.encoder().encode("приз").len(), 1);

    let newer = saved();
    let client = fs::read_to_string(newer.path().join("client.json")).expect("reads");
    let client: Value = serde_json::from_str(&client).expect("JSON");
    assert_eq!((&client["version"], &client["model"]["tokeniser"]["words"]), (&json!(2), &json!("unicode")));
    edit(newer.path(), "client.json", |v| v["model"]["tokeniser"]["words"] = json!("syllables"));
    assert!(matches!(Encoder::load(newer.path()), Err(FastTextError::Store(StoreError::Json { .. }))));
}

#[test]
fn bad_fields_are_refused() {
    let edits: [fn(&mut Value); 14] = [
        |m| m["shape"]["columns"] = json!(15),
        |m| m["shape"]["columns"] = json!(1u64 << 40),
        |m| m["shape"]["columns"] = json!(-16),
        |m| m["shape"]["subtables"] = json!(3),
        |m| m["shape"]["classes"] = json!(3),
        |m| m["shape"]["max_tokens"] = json!(0),
        |m| m["shape"]["extra"] = json!(1),
        |m| m["tokeniser"]["max_tokens"] = json!(64),
        |m| m["labels"] = json!(["ham", "ham"]),
        |m| m["labels"] = json!(["ham"]),
        |m| m["vocabulary"] = json!([]),
        |m| m["vocabulary"][1] = m["vocabulary"][2].clone(),
        |m| m["model_id"] = json!("zz"),
        |m| m["unknown"] = json!(true),
    ];
    for (index, change) in edits.iter().enumerate() {
        let directory = saved();
        edit(directory.path(), "client.json", |v| change(&mut v["model"]));
        assert!(Encoder::load(directory.path()).is_err(), "edit {index} was accepted");
    }
}

#[test]
fn codes_beyond_the_columns_are_refused() {
    let directory = saved();
    let encoder = Encoder::load(directory.path()).expect("loads");
    let shape = [encoder.vocabulary().len(), 4];
    let mut codes = vec![0u8; shape[0] * shape[1] * 2];
    replace_weights(directory.path(), "client", "codes", Dtype::U16, &shape, &codes);
    assert!(Encoder::load(directory.path()).is_ok());
    codes[10] = 16;
    replace_weights(directory.path(), "client", "codes", Dtype::U16, &shape, &codes);
    let error = Encoder::load(directory.path()).expect_err("refused");
    assert!(error.to_string().contains("16, needed below 16 columns"), "{error}");
}

#[test]
fn scores_that_are_not_finite_or_not_centred_are_refused() {
    let directory = saved();
    let shape = [4, 2, 16];
    let attempt = |first: f64, second: f64| {
        let mut scores = vec![0.0f64; 4 * 2 * 16];
        (scores[0], scores[1]) = (first, second);
        let bytes: Vec<u8> = scores.iter().flat_map(|s| s.to_le_bytes()).collect();
        replace_weights(directory.path(), "server", "scores", Dtype::F64, &shape, &bytes);
        ScoreTables::load(directory.path())
    };
    assert!(attempt(1.0, -1.0).is_ok());
    for (first, second) in [(1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, f64::NEG_INFINITY), (f64::MAX, f64::MAX)] {
        assert!(matches!(attempt(first, second), Err(FastTextError::Field { .. })));
    }
}

#[test]
fn tensors_of_another_name_type_or_shape_are_refused() {
    let directory = saved();
    let data = [0u8; 4 * 2 * 16 * 8];
    for (name, dtype, shape) in [
        ("codes", Dtype::F64, &[4usize, 2, 16][..]),
        ("scores", Dtype::I64, &[4, 2, 16]),
        ("scores", Dtype::F64, &[4, 32]),
        ("scores", Dtype::F32, &[4, 2, 32]),
    ] {
        replace_weights(directory.path(), "server", name, dtype, shape, &data);
        let error = ScoreTables::load(directory.path()).expect_err("refused");
        assert!(matches!(error, FastTextError::Store(StoreError::Tensor { .. })), "{error}");
    }
}

#[test]
fn every_truncation_and_bit_flip_of_weights_is_refused() {
    let directory = saved();
    let path = directory.path().join("client.safetensors");
    let good = fs::read(&path).expect("reads");
    for length in (0..good.len()).step_by(7) {
        fs::write(&path, &good[..length]).expect("writes");
        assert!(matches!(Encoder::load(directory.path()), Err(FastTextError::Store(StoreError::Checksum { .. }))));
    }
    for position in (0..good.len()).step_by(5) {
        let mut bad = good.clone();
        bad[position] ^= 1 << (position % 8);
        fs::write(&path, bad).expect("writes");
        assert!(matches!(Encoder::load(directory.path()), Err(FastTextError::Store(StoreError::Checksum { .. }))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random weights with a correct checksum, and truncated JSON, give an error and never a panic.
    #[test]
    fn noise_is_an_error_and_no_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), cut in 0.0f64..1.0) {
        thread_local! {
            static DIRECTORY: tempfile::TempDir = saved();
        }
        DIRECTORY.with(|directory| {
            let directory = directory.path();
            let json = fs::read(directory.join("server.json")).expect("reads");
            let sum = blake3::hash(&noise).to_hex().to_string();
            fs::write(directory.join("server.safetensors"), &noise).expect("writes");
            edit(directory, "server.json", |v| v["model"]["weights_blake3"] = json!(sum));
            let noise_refused = ScoreTables::load(directory).is_err();
            // The last byte is the newline after the document.
            let end = ((json.len() - 1) as f64 * cut) as usize;
            fs::write(directory.join("server.json"), &json[..end]).expect("writes");
            let cut = ScoreTables::load(directory);
            let cut_refused = matches!(cut, Err(FastTextError::Store(StoreError::Json { .. })));
            fs::write(directory.join("server.json"), &json).expect("writes");
            assert!(noise_refused && cut_refused);
        });
    }
}
