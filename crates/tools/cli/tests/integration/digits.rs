//! Tests of `unspoken digits` at secure parameters, on strokes instead of handwriting.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Service, complaint, text, unspoken};
use serde_json::Value;

const IMAGES: usize = 200;

/// The ink of a pixel: digit `d` is a bar at the angle `d pi / 10`, shifted a little from image to image.
fn ink(image: usize, row: usize, column: usize) -> u8 {
    let (sin, cos) = (std::f64::consts::PI * (image % 10) as f64 / 10.0).sin_cos();
    let distance = (row as f64 - 13.5) * cos + (column as f64 - 13.5) * sin - (image / 10 % 5) as f64 + 2.0;
    if distance.abs() < 2.5 { 200 + (image % 50) as u8 } else { 0 }
}

/// Writes the two IDX files and returns their paths.
fn data(directory: &Path) -> (String, String) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let pixels = (0..IMAGES * 784).map(|i| ink(i / 784, i % 784 / 28, i % 28)).collect();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (images, labels) = (path("images"), path("labels"));
    std::fs::write(&images, [words(&[0x803, IMAGES as u32, 28, 28]), pixels].concat()).unwrap();
    let digits = (0..IMAGES).map(|i| (i % 10) as u8).collect();
    std::fs::write(&labels, [words(&[0x801, IMAGES as u32]), digits].concat()).unwrap();
    (images, labels)
}

#[test]
fn digits_are_trained_served_and_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (images, labels) = data(directory.path());
    let (model, keys, state) = (path("model"), path("keys"), path("state"));
    let labelled = ["--images", &images, "--labels", &labels];
    let train = ["digits", "train", "--out", &model, "--epochs", "30", "--validation", "40"];
    let said = text(&unspoken(&[&train[..], &labelled].concat()));
    assert!(said.contains("trained on 160 images") && said.contains("on 40 images set aside"), "{said}");

    let report = ["digits", "report", &model, "--json"];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&report[..], &labelled].concat()))).unwrap();
    assert_eq!((&line["channels"], &line["batch"], &line["levels"]), (&2.into(), &128.into(), &5.into()), "{line}");
    assert!(line["accuracy"].as_f64().unwrap() > 0.9, "{line}");
    for count in ["keys", "key_bytes", "query_bytes", "answer_bytes", "model_bytes", "working_bytes"] {
        assert!(line[count].as_u64().unwrap() > 0, "{count}: {line}");
    }

    let service = Service::start(&["--digits", &format!("{model},batch=32"), "--data-dir", &keys], Stdio::null());
    let ask = ["digits", "ask", "--url", &service.url, "--state-dir", &state];
    let asked = text(&unspoken(&[&ask[..], &labelled, &["--check", &model, "--count", "48"]].concat()));
    for part in ["accuracy", "32 images a query", "made and uploaded", "differ      0 of 48 digits"] {
        assert!(asked.contains(part), "{asked}");
    }
    // The service has the keys already; without --labels and --check the output is shorter.
    let lines = text(&unspoken(&[&ask[..], &["--images", &images, "--count", "3", "--json"]].concat()));
    let answers: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer["scores"].as_array().unwrap().len() == 10 && answer["label"].is_null()));
    assert_eq!(answers[1]["digit"], 1, "{lines}");

    // A network that the service does not use.
    let other = path("other");
    let train = ["digits", "train", "--out", &other, "--epochs", "1", "--validation", "0", "--seed", "1"];
    text(&unspoken(&[&train[..], &labelled].concat()));
    let refused = complaint(&unspoken(&[&ask[..], &labelled, &["--check", &other]].concat()));
    assert!(refused.contains("another network"), "{refused}");
}

#[test]
fn mistakes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (images, labels) = data(directory.path());
    let out = directory.path().join("model").to_str().unwrap().to_owned();
    let swapped = complaint(&unspoken(&["digits", "train", "--images", &labels, "--labels", &images, "--out", &out]));
    assert!(swapped.contains("magic number 0x801"), "{swapped}");
    let few = ["digits", "train", "--images", &images, "--labels", &labels, "--out", &out];
    let few = complaint(&unspoken(&few));
    assert!(few.contains("validation") && few.contains("200 images"), "{few}");
    let nowhere = complaint(&unspoken(&["serve", "--digits", "/nowhere"]));
    assert!(nowhere.contains("/nowhere"), "{nowhere}");
    let insecure = ["digits", "report", "/nowhere", "--preset", "insecure_n11_real_depth17_scale30"];
    assert!(!unspoken(&insecure).status.success());
}
