//! Halves of a language model, and mistakes in the commands that serve and ask it. Encrypted passes are tested in
//! `unspoken-chat`: commands accept no insecure parameters.

use std::path::{Path, PathBuf};

use crate::support::{complaint, text, unspoken};
use serde_json::Value;

fn model() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    path.to_str().unwrap().to_owned()
}

/// Prepares stories260K in a directory, and returns what the command printed.
fn prepare(directory: &Path, seed: &str) -> (PathBuf, Value) {
    let (sample, out) = (directory.join("text.txt"), directory.join(format!("prepared-{seed}")));
    let story = "Tom and Mia went to the park. They saw a dog with a long tail, and the dog wanted to play ball. ";
    std::fs::write(&sample, story.repeat(12)).unwrap();
    let sizes = ["--public", "16", "--private", "16", "--chunk", "8", "--tokens", "128", "--seed", seed];
    let files = ["--model", &model(), "--text", sample.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"];
    let printed = text(&unspoken(
        &[&["llama", "prepare", "--skip-report", "--draft-tokens", "500"], &sizes[..], &files[..]].concat(),
    ));
    (out, serde_json::from_str(&printed).unwrap())
}

/// A file where a directory is needed.
fn out_file(directory: &Path) -> String {
    let file = directory.join("text.txt");
    assert!(file.exists());
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_preparation_has_two_halves_and_mistakes_with_them_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (out, line) = prepare(directory.path(), "1");
    let id = line["id"].as_str().unwrap();
    let client = out.join("client");
    let record: Value = serde_json::from_slice(&std::fs::read(client.join("client.json")).unwrap()).unwrap();
    assert_eq!((record["format"].as_str(), record["model"]["id"].as_str()), (Some("llama client"), Some(id)));
    for file in ["preparation.json", "ranges.safetensors", "tamed.safetensors"] {
        assert!(out.join(file).exists() && !client.join(file).exists(), "{file}");
    }
    let header = std::fs::read(out.join("tamed.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&header[..4000]).contains(id));

    let (out, client) = (out.to_str().unwrap(), client.to_str().unwrap());
    let chat = |more: &[&str]| complaint(&unspoken(&[&["chat", "--url", "127.0.0.1:9", "--model"], more].concat()));
    for (more, part) in [
        (&["/nowhere", "--private", "a"][..], "/nowhere"),
        (&[out, "--private", "a"], "client.json"),
        (&[client, "--private", ""], "needed one token or more"),
        (&[client, "--private", "a", "--max-tokens", "0"], "--max-tokens"),
        (&[client, "--private", "a", "--public-file", "/nowhere"], "--public-file"),
        (&[client, "--private", "a", "--choices", "2"], "--choices: found 2 without --temperature"),
        (&[client, "--private", "a", "--logit-bias", "7=1", "--logit-bias", "7=2"], "found 1 and 2 for token 7"),
        (&[client, "--private", "a", "--check", client], "tamed.safetensors"),
    ] {
        let said = chat(more);
        assert!(said.contains(part), "{part}: {said}");
    }
    let (other, _) = prepare(directory.path(), "2");
    let said = chat(&[client, "--private", "a", "--check", other.to_str().unwrap()]);
    assert!(said.contains("half of another model"), "{said}");
    // All is in order, but nothing listens there.
    let said = chat(&[client, "--private", "a", "--check", out, "--timeout", "0.3"]);
    assert!(said.contains("127.0.0.1:9"), "{said}");

    // The object comes also where there is no answer.
    let failed =
        unspoken(&["chat", "--url", "127.0.0.1:9", "--timeout", "0.3", "--model", client, "--private", "a", "--json"]);
    complaint(&failed);
    let object: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert!(object["error"].as_str().unwrap().contains("127.0.0.1:9"), "{object}");
    assert_eq!((&object["tokens"], &object["end"]), (&serde_json::json!([]), &Value::Null));

    let serve = |more: &[&str]| complaint(&unspoken(&[&["serve", "--listen", "127.0.0.1:0"], more].concat()));
    let offer = |options: &str| format!("chat:chat/a={out},{options}");
    for (options, part) in [
        ("preset=insecure_n11_boot_depth15_scale40", "is for tests"),
        ("preset=n15_depth8_scale50", "n15_depth8_scale50"),
        ("batch=3", "offers of kind chat have no option \"batch\""),
        ("chunk=many", "option chunk is \"many\""),
        ("age=tomorrow", "option age is \"tomorrow\""),
        ("keys=none", "expanded or seeded"),
        ("chunk=12", "a power of two from 8 upwards"),
    ] {
        let said = serve(&["--offer", &offer(options)]);
        assert!(said.contains(part), "{part}: {said}");
    }
    let keep = serve(&["--offer", &offer(&format!("keep={}", out_file(directory.path())))]);
    assert!(keep.contains("option keep: cannot use"), "{keep}");
    // Halves of two preparations.
    std::fs::copy(other.join("tamed.safetensors"), Path::new(out).join("tamed.safetensors")).unwrap();
    std::fs::remove_file(Path::new(out).join("ranges.safetensors")).unwrap();
    let said = serve(&["--chat", &format!("chat/b={out}")]);
    assert!(said.contains("ranges.safetensors"), "{said}");
    let said = serve(&["--chat", client]);
    assert!(said.contains("preparation.json"), "{said}");
}

#[test]
fn the_pass_of_a_preparation_is_planned_as_it_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let (out, _) = prepare(directory.path(), "1");
    let preset = ["--preset", "insecure_n11_boot_depth15_scale40"];
    let plan = |more: &[&str]| {
        let place = ["llama", "plan", "--preparation", out.to_str().unwrap()];
        unspoken(&[&place[..], &preset, more].concat())
    };
    let line: Value =
        serde_json::from_str(&text(&plan(&["--public", "9", "--private", "16", "--chunks", "2", "--json"]))).unwrap();
    assert_eq!((line["tokens"].as_u64(), line["chunks"].as_u64()), (Some(8), Some(2)), "{line}");
    assert!(line["public"].as_u64().unwrap() >= 9, "{line}");
    let steps = line["steps"].as_array().unwrap();
    let sum = |what: &str| steps.iter().map(|step| step[what].as_f64().unwrap()).sum::<f64>();
    for what in ["bootstraps", "key_switches", "seconds", "bootstrap_seconds"] {
        let (found, needed) = (sum(what), line[what].as_f64().unwrap());
        assert!(found > 0.0 && (found / needed - 1.0).abs() < 1e-9, "{what}: {found} {needed}");
    }
    // Five layers with a bootstrap for each of their linear maps at least, and the logits.
    assert_eq!(steps.last().unwrap()["results"], "logits");
    assert!(steps.iter().filter(|step| step["work"] == "coefficients").count() >= 10, "{line}");
    let bytes: u64 = line["memory"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(line["total_bytes"].as_u64(), Some(bytes));

    let short = text(&plan(&["--public", "9", "--private", "8", "--memory", "0.001"]));
    for part in [
        "8 tokens after",
        "1 of 8 places for 8 tokens",
        "the only one",
        "predictions were",
        "working memory",
        "memory: found 0.00 GB, needed ",
        "--explain",
    ] {
        assert!(short.contains(part), "{part}: {short}");
    }
    let long = text(&plan(&["--public", "9", "--private", "8", "--explain"]));
    for part in ["layer 4", "gate+up", "softmax-factor-2", "coefficients", "cache", "sum"] {
        assert!(long.contains(part), "{part}: {long}");
    }
    for (more, part) in [
        (&["--public", "20", "--private", "24", "--chunks", "3"][..], "the preparation is for these"),
        (&["--public", "5", "--private", "0"], "found 0 private tokens in 1 chunks"),
    ] {
        let said = complaint(&plan(more));
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn mistakes_with_passages_are_named_before_anything_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let (out, _) = prepare(directory.path(), "1");
    let client = out.join("client").to_str().unwrap().to_owned();
    let table = directory.path().join("words.vec");
    std::fs::write(&table, "what 1 0\ndog 0 1\n").unwrap();
    let words = ["--words", table.to_str().unwrap()];
    let chat = |more: &[&str]| {
        unspoken(&[&["chat", "--url", "127.0.0.1:9", "--timeout", "0.3", "--model", &client], more].concat())
    };
    let search = ["--search", "127.0.0.1:9", "--passages", "2"];
    for (more, part) in [
        (&["--private", "a"][..], "found no --search"),
        (&["--search", "127.0.0.1:9", "--private", "a", "--passage-tokens", "3"], "needed 16 or more"),
        (&["--search", "127.0.0.1:9", "--private", " "], "needed a question"),
        (&["--search", "127.0.0.1:9", "--private", "a", "--public-system", "b"], "without a template"),
        (&["--search", "127.0.0.1:9", "--private", "a", "--covered-only"], "cannot be used with"),
        // All is in order, but nothing listens there.
        (&["--search", "127.0.0.1:9", "--private", "what dog"], "127.0.0.1:9"),
    ] {
        let output = chat(&[&words[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{part}: {said}");
    }
    let output = chat(&[&search[..], &["--private", "a"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--words"), "{said}");
    let said = complaint(&chat(&["--private", "a", "--public-system", "b"]));
    assert!(said.contains("found neither --interactive nor --search"), "{said}");
}

#[test]
fn questions_with_passages_are_answered_in_the_clear_as_they_are_asked() {
    let directory = tempfile::tempdir().unwrap();
    let passages = directory.path().join("passages.txt");
    let run = |question: &str, more: &[&str]| {
        let place = ["llama", "run", "--model", &model(), "--question", question, "--max-tokens", "4", "--json"];
        unspoken(&[&place[..], more].concat())
    };
    let lengths = ["", "Tom has a cat.\nMia has a dog.\n", &"Tom has a cat. ".repeat(40)].map(|found| {
        std::fs::write(&passages, found).unwrap();
        let options = ["--passages", passages.to_str().unwrap(), "--passage-tokens", "64", "--chunk", "8"];
        let line: Value = serde_json::from_str(&text(&run("What has Tom?", &options))).unwrap();
        line["prompt_tokens"].as_array().unwrap().len()
    });
    assert!(lengths[0] > 64 && lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    // The token for the begin, and whole chunks.
    assert_eq!(lengths[0] % 8, 1, "{lengths:?}");
    let said = complaint(&run("What?", &["--passage-tokens", "2"]));
    assert!(said.contains("16 or more"), "{said}");
}
