//! Preparing a language model without a text, the report at the end, and calibrations that are shared.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{complaint, text, unspoken};

const SIZES: [&str; 10] =
    ["--public", "16", "--private", "16", "--chunk", "8", "--tokens", "128", "--draft-tokens", "2000"];
const PRESET: [&str; 2] = ["--preset", "insecure_n11_boot_depth15_scale40"];
const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";

fn model() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_model_is_prepared_without_a_text_and_its_fitness_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let prepare = |out: &str, more: &[&str]| {
        unspoken(&[&["llama", "prepare", &model(), "--out", out], &SIZES[..], more].concat())
    };
    let output = prepare(&path("a"), &[&PRESET[..], &["--json"]].concat());
    let line: Value = serde_json::from_str(&text(&output)).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("memory      ") && said.contains("GB more"), "{said}");
    assert_eq!(line["windows"], json!({ "general text": 4, "told by the model": 4 }), "{line}");
    let serving = &line["serving"];
    assert!(["fit", "fit with limits", "not fit"].contains(&serving["verdict"].as_str().unwrap()), "{serving}");
    assert_eq!(serving["preset"], PRESET[1]);
    assert!(serving["unseen_text"]["tokens"].as_u64().unwrap() > 0, "{serving}");
    assert!(serving["unseen_text"]["same_top_token"].as_f64().unwrap() > 0.5, "{serving}");
    let lengths = serving["lengths"].as_array().unwrap();
    assert_eq!(lengths.iter().map(|one| one["private"].as_u64().unwrap()).collect::<Vec<_>>(), [8, 16]);
    assert!(lengths.iter().all(|one| one["seconds_per_pass"].as_f64().unwrap() > 0.0), "{serving}");

    // A model with a template of conversations talks, and the report is in words.
    std::fs::write(path("template.jinja"), TEMPLATE).unwrap();
    let template = ["--chat-template", &path("template.jinja")];
    let tables = text(&prepare(&path("b"), &[&PRESET[..], &template].concat()));
    for part in [
        "windows     4 of general text, 4 of conversations",
        "lengths     public texts of 0 tokens or more, with private ones at most 32",
        "simulated   on ",
        "predicted   0 public tokens and 8 private",
        "guesses     ",
        "verdict     ",
        "calibration.safetensors, for --calibration",
    ] {
        assert!(tables.contains(part), "{part}: {tables}");
    }
    let refused = complaint(&prepare(&path("c"), &["--preset", "n0"]));
    assert!(refused.contains("--preset") && !Path::new(&path("c")).exists(), "{refused}");
}

#[test]
fn a_calibration_is_used_again_with_the_same_weights_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let prepare = |model: &str, out: &str, more: &[&str]| {
        unspoken(&[&["llama", "prepare", "--model", model, "--out", out], more].concat())
    };
    let measured = text(&prepare(&model(), &path("a"), &[&SIZES[..], &["--skip-report", "--json"]].concat()));
    let file = path("a/calibration.safetensors");
    let shared = text(&prepare(&model(), &path("b"), &["--calibration", &file, "--draft-tokens", "0", "--json"]));
    assert_eq!(shared, measured, "what was found is in the file");
    // The id of both halves is in the record of the client's.
    for name in [
        "preparation.json",
        "ranges.safetensors",
        "calibration.safetensors",
        "client/client.json",
        "client/coverage.json",
    ] {
        let [a, b] = ["a", "b"].map(|out| std::fs::read(path(&format!("{out}/{name}"))).unwrap());
        assert!(a == b, "{name}");
    }
    let words = text(&prepare(&model(), &path("c"), &["--calibration", &file]));
    assert!(words.contains("by the file; no text was run") && words.contains("512 of 512 tokens ran"), "{words}");

    // The sizes are those of the file.
    for size in [["--public", "8"], ["--seed", "2"], ["--tokens", "64"], ["--bits", "12"]] {
        let output = prepare(&model(), &path("d"), &[&["--calibration", &file], &size[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot be used with") && said.contains(size[0]), "{said}");
    }

    // One weight of the embedding is another one, by its last bit.
    let mut other = std::fs::read(model()).unwrap();
    other[1_000] ^= 1;
    std::fs::write(path("other.bin"), other).unwrap();
    let tokenizer = Path::new(&model()).with_file_name("tok512.bin");
    let tokenizer = ["--tokenizer", tokenizer.to_str().unwrap(), "--calibration", &file];
    let refused = complaint(&prepare(&path("other.bin"), &path("d"), &tokenizer));
    assert!(refused.contains("belongs to other weights") && refused.contains("BLAKE3"), "{refused}");
    assert!(!Path::new(&path("d")).exists());
    let cut = std::fs::read(&file).unwrap();
    std::fs::write(path("cut"), &cut[..cut.len() / 2]).unwrap();
    for (wrong, part) in [(path("cut"), "needed the file calibration.safetensors"), (path("none"), "cannot read")] {
        let refused = complaint(&prepare(&model(), &path("d"), &["--calibration", &wrong]));
        assert!(refused.contains(part) && !Path::new(&path("d")).exists(), "{part}: {refused}");
    }
}
