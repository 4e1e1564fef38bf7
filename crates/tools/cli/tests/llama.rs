//! Tests of `unspoken llama` with the model stories260K.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The begin of what the model tells without a prompt, as its author published it.
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";

fn unspoken(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspoken")).args(arguments).output().unwrap()
}

/// Standard output of a command that succeeded.
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a command that failed.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn model() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    path.to_str().unwrap().to_owned()
}

/// A text of the kind that the model has learned.
fn sample(directory: &Path) -> String {
    let path = directory.join("text.txt");
    let story = "Tom and Mia went to the park. They saw a dog with a long tail, and the dog wanted to play ball. ";
    std::fs::write(&path, story.repeat(16)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_story_is_told_as_it_comes() {
    let output = unspoken(&["llama", "run", "--model", &model(), "--max-tokens", "60"]);
    let story = text(&output);
    assert!(story.starts_with(STORY), "{story}");
    let said = String::from_utf8(output.stderr).unwrap();
    for part in ["prompt      1 tokens", "60 tokens, ", "tokens per second, ended by the maximum"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_continuation_is_reported_as_json() {
    let run = ["llama", "run", "--model", &model(), "--prompt", "Once upon a time", "--max-tokens", "40", "--json"];
    let line: Value = serde_json::from_str(&text(&unspoken(&run))).unwrap();
    let told = line["text"].as_str().unwrap();
    assert!(told.starts_with(", there was a little girl named Lily."), "{told}");
    assert_eq!((line["tokens"].as_array().unwrap().len(), line["end"].as_str().unwrap()), (40, "maximum"));
    assert_eq!(line["prompt_tokens"][0], 1);
    assert!(line["tokens_per_second"].as_f64().unwrap() > 0.0, "{line}");
    // The context has 512 places.
    let run = ["llama", "run", "--model", &model(), "--max-tokens", "100000", "--json"];
    let line: Value = serde_json::from_str(&text(&unspoken(&run))).unwrap();
    let (tokens, end) = (line["tokens"].as_array().unwrap().len(), line["end"].as_str().unwrap());
    assert!((tokens, end) == (512, "context") || (tokens < 512 && end == "end token"), "{tokens} {end}");
}

#[test]
fn a_reader_that_stops_early_ends_the_story() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_unspoken"));
    let child = child.args(["llama", "run", "--model", &model()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_report_has_both_tables_and_tamed_logits_that_agree() {
    let directory = tempfile::tempdir().unwrap();
    let (sample, picture) = (sample(directory.path()), directory.path().join("residual.svg"));
    let report = ["llama", "report", "--model", &model(), "--text", &sample, "--tokens", "160", "--window", "80"];
    let picture = picture.to_str().unwrap();
    let line: Value =
        serde_json::from_str(&text(&unspoken(&[&report[..], &["--json", "--out", picture]].concat()))).unwrap();
    assert_eq!(line["tokens"], 160);
    assert_eq!(line["prefix"][0]["id"], 1, "the token for the begin of a text: {line}");
    for (table, rows) in [("inputs", ["softmax", "silu", "rmsnorm"]), ("outputs", ["down-proj", "o-proj", "v-proj"])] {
        for row in rows {
            for variant in ["original", "prefix", "rotation", "prefix_and_rotation"] {
                assert!(line[table][row][variant].as_f64().unwrap() > 0.0, "{table} {row} {variant}: {line}");
            }
        }
    }
    let number = |table: &str, row: &str, variant: &str| line[table][row][variant].as_f64().unwrap();
    // The search makes residuals smaller or leaves them; a rotation changes no gate and no score.
    assert!(number("inputs", "rmsnorm", "prefix") <= number("inputs", "rmsnorm", "original"));
    for row in ["softmax", "silu"] {
        let (before, after) = (number("inputs", row, "prefix"), number("inputs", row, "prefix_and_rotation"));
        assert!((before / after - 1.0).abs() < 1e-3, "{row}: {before} {after}");
    }
    assert!(line["logit_error"].as_f64().unwrap() < 1e-5, "{line}");
    assert_eq!(line["same_top_token"], 1.0);
    let perplexity = |variant: &str| line["perplexity"][variant].as_f64().unwrap();
    assert!((perplexity("rotation") / perplexity("original") - 1.0).abs() < 1e-4, "{line}");
    assert!((perplexity("prefix_and_rotation") / perplexity("prefix") - 1.0).abs() < 1e-4, "{line}");

    let drawn = std::fs::read_to_string(picture).unwrap();
    for part in ["<svg", "stories260K.bin", "layer", "largest |residual|", "original", "prefix and rotation"] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    let again = complaint(&unspoken(&[&report[..], &["--out", picture]].concat()));
    assert!(again.contains("--force"), "{again}");
    let tables = text(&unspoken(&[&report[..], &["--out", picture, "--force"]].concat()));
    for part in ["Table 1", "Table 2", "rmsnorm", "v-proj", "prefix      \"\\n<s>\\n\" (1)", "perplexity"] {
        assert!(tables.contains(part), "{part}: {tables}");
    }
}

#[test]
fn mistakes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let run = |model: &str, more: &[&str]| complaint(&unspoken(&[&["llama", "run", "--model", model], more].concat()));
    let nowhere = run("/nowhere", &[]);
    assert!(nowhere.contains("/nowhere"), "{nowhere}");
    let cut = std::fs::read(model()).unwrap()[..5000].to_vec();
    std::fs::write(path("cut.bin"), cut).unwrap();
    let cut = run(&path("cut.bin"), &[]);
    assert!(cut.contains("cut.bin") && cut.contains("5000 bytes") && cut.contains("needed"), "{cut}");
    let long = run(&model(), &["--prompt", &"word ".repeat(600)]);
    assert!(long.contains("--prompt") && long.contains("512") && long.contains("shorten the text"), "{long}");
    std::fs::copy(model(), path("alone.bin")).unwrap();
    let alone = run(&path("alone.bin"), &[]);
    assert!(alone.contains("tok*.bin") && alone.contains("--tokenizer"), "{alone}");

    let report = |more: &[&str]| complaint(&unspoken(&[&["llama", "report", "--model", &model()], more].concat()));
    std::fs::write(path("short.txt"), "").unwrap();
    let short = report(&["--text", &path("short.txt")]);
    assert!(short.contains("short.txt") && short.contains("at least 2"), "{short}");
    std::fs::write(path("latin.txt"), b"caf\xe9").unwrap();
    let latin = report(&["--text", &path("latin.txt")]);
    assert!(latin.contains("latin.txt") && latin.contains("UTF-8"), "{latin}");
    let sample = sample(directory.path());
    let wide = report(&["--text", &sample, "--window", "600", "--tokens", "600"]);
    assert!(wide.contains("512") && wide.contains("context"), "{wide}");
}

#[test]
fn a_preparation_has_the_ranges_of_calibration_text_and_a_margin_that_holds_held_out_text() {
    let directory = tempfile::tempdir().unwrap();
    let (text_file, out) = (sample(directory.path()), directory.path().join("prepared"));
    let out_name = out.to_str().unwrap();
    let run = ["llama", "prepare", "--model", &model(), "--text", &text_file, "--window", "64", "--out", out_name];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&run[..], &["--json"]].concat()))).unwrap();
    let margin = line["margin"].as_f64().unwrap();
    let margins: Vec<f64> = line["margins"].as_array().unwrap().iter().map(|margin| margin.as_f64().unwrap()).collect();
    let place = margins.iter().position(|other| *other == margin).unwrap();
    let steps = line["held_out"]["by_coordinate"].as_object().unwrap();
    assert!(steps.len() >= 15, "{line}");
    for (step, count) in steps {
        assert_eq!(count["beyond"][place], 0, "{step}");
        assert!(count["margin_needed"].as_f64().unwrap() <= margin && count["values"].as_u64().unwrap() > 0, "{step}");
    }
    if place > 0 {
        assert!(
            steps.values().any(|count| count["beyond"][place - 1].as_u64().unwrap() > 0),
            "a smaller one holds all"
        );
    }
    let record: Value = serde_json::from_slice(&std::fs::read(out.join("preparation.json")).unwrap()).unwrap();
    assert_eq!((record["margin"].as_f64(), record["config"]["width"].as_u64()), (Some(margin), Some(64)));
    assert_eq!(record["prefix"].as_array().unwrap().len(), line["prefix"].as_array().unwrap().len());
    // 5 layers of 64 coordinates: smallest and largest values of 4 bytes each.
    let ranges = std::fs::read(out.join("ranges.safetensors")).unwrap();
    let length = u64::from_le_bytes(ranges[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&ranges[8..8 + length]).unwrap();
    assert_eq!(header["4.gate"]["shape"][0], 2);
    assert_eq!(header["0.residual"]["shape"], serde_json::json!([2, 64]));
    assert_eq!(header["2.score"]["shape"], serde_json::json!([2, 8]));
    // Again, and with a margin that is none.
    let again = complaint(&unspoken(&run));
    assert!(again.contains("--out: ") && again.contains("exists; name a new directory"), "{again}");
    let other = directory.path().join("other");
    let bad = [&run[..8], &["--out", other.to_str().unwrap(), "--margin", "0.5"]].concat();
    let refused = complaint(&unspoken(&bad));
    assert!(refused.contains("--margin: found 0.5, needed a number of at least 1"), "{refused}");
}

#[test]
fn a_polynomial_is_reported_with_its_squares_and_its_work() {
    let polynomial = |rest: &[&str]| unspoken(&[&["llama", "polynomial"], rest].concat());
    let inverse = ["--function", "inverse-sqrt", "--interval", "0.0333333", "1", "--degree", "32"];
    let line: Value = serde_json::from_str(&text(&polynomial(&[&inverse[..], &["--json"]].concat()))).unwrap();
    let number = |path: &str| line.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {line}"));
    assert_eq!(
        (line["degree"].as_u64(), line["depth"].as_u64(), line["added"].as_f64()),
        (Some(32), Some(3), Some(0.0))
    );
    assert!((-20.5..-18.5).contains(&number("/log2_relative_error")), "{line}");
    assert!(number("/log2_exactness") < -40.0, "{line}");
    let levels = line["decomposition"].as_array().unwrap();
    assert_eq!(levels.len(), 3);
    for level in levels {
        let (sum, lost) = (level["largest_sum"].as_f64().unwrap(), level["bits_lost"].as_f64().unwrap());
        assert!(sum > 0.5 && (lost - 1.0 - sum.log2()).abs() < 1e-9, "{level}");
    }
    for (count, slim, beside) in [("products", 5.0, 10.0), ("key_switches", 8.0, 10.0), ("levels", 6.0, 7.0)] {
        assert_eq!(number(&format!("/slim/{count}")), slim, "{line}");
        assert!(number(&format!("/baby_giant/{count}")) >= beside, "{line}");
    }

    let silu = ["--function", "silu", "--interval", "-8", "8", "--degree", "31", "--depth", "2"];
    let described = text(&polynomial(&silu));
    for part in ["degree 32", "2^-15.7", "the function has a zero", "added", "4 leaves of degree 8", "baby steps"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let exponential = ["--function", "exp", "--interval", "-12", "0", "--degree", "16", "--json"];
    let line: Value = serde_json::from_str(&text(&polynomial(&exponential))).unwrap();
    assert!(line["log2_error"].as_f64().unwrap() < -25.0, "{line}");

    for (change, part) in [
        (["--function", "inverse-sqrt", "--interval", "0", "1", "--degree", "32"], "positive numbers"),
        (["--function", "exp", "--interval", "1", "-1", "--degree", "32"], "the smaller first"),
    ] {
        let complaint = complaint(&polynomial(&change));
        assert!(complaint.contains(part), "{complaint}");
    }
    let deep = complaint(&polynomial(&[&inverse[..], &["--depth", "6"]].concat()));
    assert!(deep.contains("from 1 to 5"), "{deep}");
}
