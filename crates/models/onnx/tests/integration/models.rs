//! Every model of `tests/models`, compared with what onnxruntime computes from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use serde::Deserialize;
use unspoken_onnx::{Answer, Labels, Network};

/// Distance to onnxruntime, relative to the greatest number of an output.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
pub struct Expected {
    inputs: Vec<Listed>,
    outputs: BTreeMap<String, Listed>,
}

#[derive(Deserialize)]
struct Listed {
    shape: Vec<usize>,
    values: Vec<serde_json::Value>,
    labels: Option<Vec<serde_json::Value>>,
}

impl Listed {
    fn numbers(&self) -> ArrayD<f32> {
        let values = self.values.iter().map(|value| value.as_f64().expect("a number") as f32).collect();
        ArrayD::from_shape_vec(IxDyn(&self.shape), values).expect("as many values")
    }
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

pub fn expected() -> BTreeMap<String, Expected> {
    let text = std::fs::read(folder().join("expected.json")).expect("a file");
    serde_json::from_slice(&text).expect("JSON")
}

pub fn inputs_of(expected: &Expected) -> Vec<ArrayD<f32>> {
    expected.inputs.iter().map(Listed::numbers).collect()
}

#[track_caller]
fn assert_near(name: &str, found: &ArrayD<f32>, expected: &Listed) {
    let expected = expected.numbers();
    assert_eq!(found.shape(), expected.shape(), "{name}");
    let greatest = expected.iter().fold(1e-6_f32, |greatest, number| greatest.max(number.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= TOLERANCE * greatest, "{name}: {found}, expected {expected}");
    }
}

fn check(name: &str, answer: &Answer, expected: &Listed) {
    match answer {
        Answer::Numbers(numbers) => assert_near(name, numbers, expected),
        Answer::Integers(integers) => {
            assert_eq!(integers.shape(), expected.shape, "{name}");
            let expected: Vec<i64> = expected.values.iter().map(|value| value.as_i64().expect("an integer")).collect();
            assert!(integers.iter().eq(&expected), "{name}: {integers:?}, expected {expected:?}");
        }
        Answer::Texts(texts) => {
            assert_eq!(texts.shape(), expected.shape, "{name}");
            let expected: Vec<&str> = expected.values.iter().map(|value| value.as_str().expect("a text")).collect();
            assert!(texts.iter().eq(&expected), "{name}: {texts:?}, expected {expected:?}");
        }
        Answer::Scores { labels, numbers } => {
            let found: Vec<serde_json::Value> = match labels {
                Labels::Integers(labels) => labels.iter().map(|&label| label.into()).collect(),
                Labels::Texts(labels) => labels.iter().map(|label| label.as_str().into()).collect(),
            };
            assert_eq!(Some(found), expected.labels, "{name}");
            assert_near(name, numbers, expected);
        }
    }
}

#[test]
fn every_model_gives_what_onnxruntime_gives() {
    let expected = expected();
    let files = std::fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let models = files.filter(|path| path.extension().is_some_and(|extension| extension == "onnx")).count();
    assert_eq!(models, expected.len(), "each model has expected outputs");
    let mut wrong = Vec::new();
    for (name, expected) in &expected {
        let checked = std::panic::catch_unwind(|| {
            let network =
                Network::load(&folder().join(format!("{name}.onnx"))).unwrap_or_else(|error| panic!("{error}"));
            let answers = network.answer(&inputs_of(expected)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(answers.len(), expected.outputs.len(), "{name}");
            for (output, answer) in network.outputs().iter().zip(&answers) {
                check(&format!("{name}, {}", output.name), answer, &expected.outputs[&output.name]);
            }
        });
        if let Err(cause) = checked {
            let text = cause.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.push(format!("{name}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
