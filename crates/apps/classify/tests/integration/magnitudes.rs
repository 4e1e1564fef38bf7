//! Score tables of any magnitude: encrypted labels are the model's, and what cannot be held is refused.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use unspoken_ckks::Preset;
use unspoken_classify::{Classified, ClassifyClient, ClassifyError, ClassifyOptions, ClassifyServer, Description};
use unspoken_fasttext::{Model, ScoreTables, TrainOptions, fit};
use unspoken_protocol::{Call, CkksClientHalf, CkksDescription, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_query::QueryForm;

const PRESET: &str = "insecure_n11_depth9_scale50";
const BOOT_PRESET: &str = "insecure_n11_boot_depth10_scale50";
const COLUMNS: usize = 16;
const CLASSES: usize = 3;
const SUBTABLES: usize = 2;
static GO: AtomicBool = AtomicBool::new(false);

/// Numbers from -1 to 1.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }
}

fn message(i: usize) -> String {
    let letter = |k: usize| char::from(b'a' + (k % 26) as u8);
    (0..1 + i % 7).map(|k| format!("{}{} ", letter(i * 5 + k * 3), letter(k + i / 4))).collect()
}

/// A model whose codes matter here, and not its scores.
fn model() -> Model {
    let texts: Vec<String> = (0..60).map(message).collect();
    let labels: Vec<String> = (0..60).map(|i| format!("class {}", i % CLASSES)).collect();
    let options = TrainOptions {
        columns: COLUMNS,
        subtables: SUBTABLES,
        dimension: 4,
        relaxed_epochs: 1,
        hard_epochs: 1,
        ..TrainOptions::default()
    };
    fit(&texts, &labels, &options, &mut |_| {}, &GO).unwrap()
}

/// The server's half of the model with these scores: a function of the subtable, the class and the column.
fn with_scores(model: &Model, mut score: impl FnMut(usize, usize, usize) -> f64) -> ScoreTables {
    let directory = tempfile::tempdir().unwrap();
    model.save(directory.path()).unwrap();
    let mut scores: Vec<f64> = (0..SUBTABLES * CLASSES * COLUMNS)
        .map(|i| score(i / COLUMNS / CLASSES, i / COLUMNS % CLASSES, i % COLUMNS))
        .collect();
    for row in scores.chunks_mut(COLUMNS) {
        for _ in 0..2 {
            let mean = row.iter().sum::<f64>() / COLUMNS as f64;
            row.iter_mut().for_each(|z| *z -= mean);
        }
    }
    let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F64, vec![SUBTABLES, CLASSES, COLUMNS], &bytes).unwrap();
    let file = safetensors::serialize([("scores", view)], None).unwrap();
    let path = directory.path().join("server.json");
    let mut content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    content["model"]["weights_blake3"] = json!(blake3::hash(&file).to_hex().to_string());
    fs::write(&path, serde_json::to_vec(&content).unwrap()).unwrap();
    fs::write(directory.path().join("server.safetensors"), file).unwrap();
    ScoreTables::load(directory.path()).unwrap()
}

fn server(tables: &ScoreTables, preset: &str, form: QueryForm) -> Result<ClassifyServer, ClassifyError> {
    // Compact queries are full ones here.
    let short_queries = form == QueryForm::Direct;
    let options = ClassifyOptions { query: form, short_queries, ..ClassifyOptions::default() };
    ClassifyServer::new(tables, &Preset::find(preset).unwrap().build().unwrap(), &options)
}

/// The client after a question, and the answers.
fn asked(model: &Model, server: &ClassifyServer, messages: &[String]) -> (ClassifyClient, Vec<Classified>) {
    let description = Description::insecure_from_bytes(&server.description().to_bytes()).unwrap();
    let mut client = ClassifyClient::open(description, Arc::new(model.encoder().clone()), None).unwrap();
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    let mut found = Vec::new();
    for batch in messages.chunks(client.batch()) {
        let encoded = client.encode(batch).unwrap();
        let query = client.query(&encoded).unwrap();
        let answer = server.answer(&Request::new(ClientId::new([1; 16]), &keys, &query), &Call::default()).unwrap();
        found.extend(client.read(&answer, &encoded).unwrap());
    }
    (client, found)
}

#[test]
fn labels_are_the_models_at_every_magnitude() {
    let model = model();
    let messages: Vec<String> = (0..40).map(|i| message(i * 3 + 1)).collect();
    for (seed, magnitude) in [(1, 1e-40), (2, 1e-8), (3, 1.0), (4, 1e6), (5, 1e11)] {
        let mut next = random(seed);
        let tables = with_scores(&model, |_, _, _| magnitude * next());
        let server = server(&tables, PRESET, QueryForm::Direct).unwrap();
        let (client, found) = asked(&model, &server, &messages);
        let bound = client.description().header().error_bound().unwrap();
        assert!(bound < 3e-2 * magnitude, "{magnitude:e}: {bound:e}");
        for (message, classified) in messages.iter().zip(&found) {
            let clear = tables.scores(&model.encoder().encode(message)).unwrap();
            assert_eq!(classified.label, model.encoder().label(&clear).unwrap(), "{magnitude:e}");
            for (score, clear) in classified.scores.iter().zip(&clear) {
                assert!((score - clear).abs() < bound, "{magnitude:e}: {score:e} {clear:e} {bound:e}");
            }
        }
        // Noise for others is in the model's units too.
        let deviation = client.sharing_noise(4).unwrap().deviation();
        assert!((deviation / bound - 16.0).abs() < 1e-9);
        for (shared, own) in client.share(&found, 4).unwrap().iter().zip(&found) {
            let moved = shared.scores.iter().zip(&own.scores).map(|(a, b)| (a - b).abs());
            assert!(moved.fold(0.0, f64::max) < 9.0 * deviation, "{magnitude:e}");
        }
        let precision = server.precision().unwrap();
        assert_eq!((precision.error_bound, precision.is_low()), (bound, false), "{precision}");
        assert!((0.5..2.0).contains(&(precision.largest / magnitude)), "{precision}");
    }
}

#[test]
fn compact_queries_have_the_models_units_too() {
    let (model, mut next) = (model(), random(6));
    let messages: Vec<String> = (0..8).map(message).collect();
    let tables = with_scores(&model, |_, _, _| 1e-8 * next());
    let server = server(&tables, BOOT_PRESET, QueryForm::Compact).unwrap();
    assert!(server.precision().is_none());
    let (_, found) = asked(&model, &server, &messages);
    for (message, classified) in messages.iter().zip(&found) {
        let clear = tables.scores(&model.encoder().encode(message)).unwrap();
        for (score, clear) in classified.scores.iter().zip(&clear) {
            assert!((score - clear).abs() < 1e-10, "{score:e} {clear:e}");
        }
    }
}

#[test]
fn tables_without_a_difference_are_refused() {
    let tables = with_scores(&model(), |_, _, _| 0.0);
    for (preset, form) in [(PRESET, QueryForm::Direct), (PRESET, QueryForm::OneHot), (BOOT_PRESET, QueryForm::Compact)]
    {
        let error = server(&tables, preset, form).err().unwrap().to_string();
        assert!(error.contains("every entry is 0") && error.contains("train it again"), "{error}");
    }
    let tiny = with_scores(&model(), |_, _, j| if j == 0 { 1e-300 } else { 0.0 });
    let error = server(&tiny, PRESET, QueryForm::Direct).err().unwrap().to_string();
    assert!(error.contains("multiply all entries by a constant"), "{error}");
}

#[test]
fn differences_below_the_error_are_reported() {
    let mut next = random(7);
    let tables = with_scores(&model(), |t, c, j| 1e-9 * next() + if (t, c, j) == (0, 0, 3) { 1e6 } else { 0.0 });
    let precision = server(&tables, PRESET, QueryForm::Direct).unwrap().precision().unwrap();
    assert!(precision.is_low() && precision.lost > 8 && precision.largest > 9e5, "{precision}");
}
