//! Tests of `unspoken train`, and of what `unspoken classify` says about messages that a model reads only in part.

use std::fs::File;

use crate::support::{Service, complaint, text, unspoken};
use serde_json::{Value, json};

/// Messages in Russian, every tenth of six words and the others of two.
fn messages() -> String {
    let words = [["обед", "ужин", "дома"], ["приз", "выигрыш", "деньги"]];
    let line = |i: usize| {
        let (label, words) = (["ham", "spam"][i % 2], words[i % 2]);
        let count = if i.is_multiple_of(10) { 6 } else { 2 };
        let message: Vec<&str> = (0..count).map(|k| words[(i / 2 + k) % 3]).collect();
        format!("{label}\t{}\n", message.join(" "))
    };
    (0..100).map(line).collect()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        std::fs::write(files.path("messages.tsv"), messages()).unwrap();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Trains with these options; returns the report and standard error.
    fn train(&self, options: &[&str]) -> (String, String) {
        let (data, out) = (self.path("messages.tsv"), self.path("model"));
        let base = ["train", "--data", &data, "--out", &out, "--replace", "--columns", "8"];
        let output = unspoken(&[&base[..], options].concat());
        (text(&output), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn the_report_says_what_the_model_reads() {
    let files = Files::new();
    let (report, warnings) = files.train(&["--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(warnings, "");
    assert_eq!(
        (&report["accuracy"], &report["vocabulary"], &report["max_tokens"]),
        (&json!(1.0), &json!(6), &json!(128))
    );
    for part in ["training", "held_out"] {
        assert_eq!((&report[part]["coverage"], &report[part]["cut"]), (&json!(1.0), &json!(0)), "{report}");
    }
    assert_eq!((&report["training"]["messages"], &report["held_out"]["messages"]), (&json!(90), &json!(10)));

    // Each class has its messages, in training and held out.
    let class = |label| json!({ "label": label, "training": 45, "held_out": 5 });
    assert_eq!(report["classes"], json!([class("ham"), class("spam")]));

    let (report, warnings) = files.train(&["--max-tokens", "4"]);
    assert!(report.contains("class  messages  held out\nham          45         5\nspam         45"), "{report}");
    assert!(report.contains("cut after 4 words: 10 of 100 messages"), "{report}");
    assert!(report.contains("vocabulary: 6 words, which are 100.0 % of the words of the training messages, 100.0 %"));
    assert!(warnings.starts_with("warning: 10 of 100 texts (10.0 %) have more than 4 tokens"), "{warnings}");

    // Words that are too rare are unknown.
    let (report, warnings) = files.train(&["--min-count", "1000", "--test-share", "0"]);
    assert!(report.contains("vocabulary: 0 words, which are 0.0 % of"), "{report}");
    assert!(warnings.contains("(100.0 %) are not in the model's vocabulary"), "{warnings}");
}

#[test]
fn options_of_the_python_estimator_are_flags() {
    let files = Files::new();
    let flags = "--max-tokens 16 --bigrams --min-count 2 --max-vocabulary 10 --subtables 2 --dimension 4 --seed 3 \
                 --relaxed-epochs 2 --hard-epochs 3 --batch 10 --rate 0.01 --code-rate 0.1 --weight-decay 0 \
                 --final-temperature 0.5 --entropy-weight 0.002 --confidence-weight 0.01 \
                 --unknown-share 0.1 --validation-share 0.2 --json";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let (report, _) = files.train(&flags);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["vocabulary"], &report["max_tokens"]), (&json!(10), &json!(16)));
    let read = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(files.path(name)).unwrap()).unwrap() };
    let (client, server) = (read("model/client.json"), read("model/server.json"));
    assert_eq!(client["model"]["tokeniser"], json!({ "bigrams": true, "max_tokens": 16, "words": "unicode" }));
    let training = &server["model"]["training"];
    let expected = [("seed", 3), ("dimension", 4), ("relaxed_epochs", 2), ("hard_epochs", 3)];
    assert!(expected.iter().all(|&(name, value)| training[name] == json!(value)), "{training}");
    assert_eq!(server["model"]["shape"]["subtables"], json!(2));

    let (data, out) = (files.path("messages.tsv"), files.path("model"));
    // A model is replaced only on request, and nothing is trained before that is known.
    let taken = complaint(&unspoken(&["train", "--data", "/nowhere", "--out", &out]));
    assert!(taken.contains("exists; name another place, or replace what is there with --replace"), "{taken}");
    let refused = |option: &str, value: &str| {
        let output = unspoken(&["train", "--data", &data, "--out", &out, "--replace", option, value]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (option, value, part) in [
        ("--max-tokens", "100", "a service needs a power of two, such as 128"),
        ("--rate", "2", "found rate = 2, needed above 0, at most 1"),
        ("--columns", "255", "found columns = 255, needed an even number; change the option"),
        ("--seed", "-1", "needed a whole number from 0 to 18446744073709551615"),
        ("--class-weights", "spam", "needed balanced, or LABEL=WEIGHT"),
        ("--class-weights", "spam=2,spam=3", "found the weights 2 and 3 of class \"spam\", needed one"),
        ("--class-weights", "egg=2", "found the weight 2 of class \"egg\""),
    ] {
        let error = refused(option, value);
        assert!(error.contains(part), "{option} {value}: {error}");
    }
    files.train(&["--class-weights", "balanced"]);
    files.train(&["--class-weights", "spam=2,ham=0.5"]);
}

#[test]
fn published_data_sets_are_read() {
    let files = Files::new();
    for (label, words) in [("ham", "see you at home"), ("spam", "win a free prize")] {
        let folder = format!("enron1/{label}");
        std::fs::create_dir_all(files.path(&folder)).unwrap();
        for i in 0..30 {
            let mail = format!("Subject: {words}\r\nnumber {i}, caf");
            std::fs::write(files.path(&format!("{folder}/{i:04}.txt")), [mail.as_bytes(), b"\xe9\r\n"].concat())
                .unwrap();
        }
    }
    let head = "\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n";
    let review = |i: usize| {
        let (words, rating) = [("It didn&#039;t help", "2.0"), ("works well &amp; fast", "9.0")][i % 2];
        format!("{i}\tA\tPain\t\"\"\"{words}\"\"\"\t{rating}\tMay 1, 2017\t0\n")
    };
    let reviews = |count: usize| format!("{head}{}", (0..count).map(review).collect::<String>());
    std::fs::write(files.path("train.tsv"), reviews(40)).unwrap();
    std::fs::write(files.path("test.tsv"), reviews(6)).unwrap();

    let out = files.path("model");
    let train = |name: &str, more: &[&str]| {
        let data = files.path(name);
        let output = unspoken(
            &[&["train", "--data", &data, "--out", &out, "--replace", "--columns", "8", "--json"], more].concat(),
        );
        serde_json::from_str::<Value>(&text(&output)).unwrap()
    };
    let enron = train(".", &["--format", "enron-spam"]);
    assert_eq!((&enron["training"]["messages"], &enron["held_out"]["messages"]), (&json!(54), &json!(6)));
    let test = files.path("test.tsv");
    let drugs = train("train.tsv", &["--format", "drug-reviews", "--bigrams", "--test-data", &test]);
    assert_eq!((&drugs["training"]["messages"], &drugs["held_out"]["messages"]), (&json!(40), &json!(6)));
    assert_eq!((&enron["accuracy"], &drugs["accuracy"]), (&json!(1.0), &json!(1.0)));

    let bad = files.path("bad.tsv");
    std::fs::write(&bad, reviews(2) + "3\tA\tPain\tx\t12\tMay 2\t0\n").unwrap();
    let error =
        complaint(&unspoken(&["train", "--data", &bad, "--out", &files.path("other"), "--format", "drug-reviews"]));
    assert!(error.contains("bad.tsv, line 4: found the rating \"12\", needed a whole number from 1 to 10"), "{error}");
}

#[test]
fn classify_tells_of_messages_that_are_cut_or_unknown() {
    let files = Files::new();
    files.train(&["--max-tokens", "4"]);
    let (model, keys, state) = (files.path("model"), files.path("keys"), files.path("state"));
    let log = files.path("log");
    let offer = ["--classify", &format!("{model},preset=n13_depth3_scale30"), "--data-dir", &keys];
    let service = Service::start(&offer, File::create(&log).unwrap());
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("the error bound is") && logged.contains("and the largest entry"), "{logged}");
    let ask = |messages: &[&str]| {
        let target = ["classify", "--url", &service.url, "--state-dir", &state, "--model", &model];
        let output = unspoken(&[&target[..], messages].concat());
        (text(&output), String::from_utf8(output.stderr).unwrap())
    };
    let (labels, said) = ask(&["Деньги", "обед"]);
    assert_eq!(labels, "spam\tДеньги\nham\tобед\n");
    assert!(!said.contains("warning"), "{said}");
    let (_, warning) = ask(&["приз приз приз приз приз", "обед"]);
    assert!(warning.contains("warning: 1 of 2 texts (50.0 %) have more than 4 tokens"), "{warning}");
    let (_, warning) = ask(&["hello world", "обед"]);
    assert!(warning.contains("warning: 2 of 3 tokens (66.7 %) are not in the model's vocabulary"), "{warning}");
}
