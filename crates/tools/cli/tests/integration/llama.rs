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

/// Standard error of a command whose arguments were refused.
fn complaint_of_usage(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
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
fn the_report_has_both_tables_and_rotated_logits_that_agree() {
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
    assert!(wide.contains("--window: found 600, needed at most 508") && wide.contains("context"), "{wide}");
}

/// Stories that the model tells.
fn stories(directory: &Path) -> String {
    let mut told = String::new();
    for name in ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna", "Max", "Sue"] {
        let prompt = format!("One day, {name} and a dog went to the park. They saw");
        let run = ["llama", "run", "--model", &model(), "--max-tokens", "150", "--json", "--prompt", &prompt];
        let line: Value = serde_json::from_str(&text(&unspoken(&run))).unwrap();
        told += &(prompt + line["text"].as_str().unwrap() + "\n\n");
    }
    let path = directory.join("stories.txt");
    std::fs::write(&path, told).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_prepared_model_is_simulated_with_polynomials_and_noise() {
    let directory = tempfile::tempdir().unwrap();
    let (stories, out) = (stories(directory.path()), directory.path().join("prepared"));
    let (model, out) = (model(), out.to_str().unwrap());
    let texts = ["--model", &model, "--text", &stories, "--public", "24", "--private", "24", "--chunk", "8"];
    let prepare =
        [&["llama", "prepare", "--skip-report", "--draft-tokens", "500", "--tokens", "600", "--out", out], &texts[..]]
            .concat();
    let line: Value = serde_json::from_str(&text(&unspoken(&[&prepare[..], &["--json"]].concat()))).unwrap();
    for margin in ["norm", "softmax", "score", "gate"] {
        let row = &line["margins"][margin];
        let (needed, taken) = (row["needed"].as_f64().unwrap(), row["taken"].as_f64().unwrap());
        assert!(needed >= 1.0 && taken > needed, "{margin}: {line}");
    }
    assert_eq!(line["held_out"]["escaped"], 0, "{line}");
    assert!((line["held_out"]["perplexity_ratio"].as_f64().unwrap() - 1.0).abs() < 5e-3, "{line}");
    assert!(line["tokens"].as_u64().unwrap() > 2 * line["held_out_tokens"].as_u64().unwrap());
    let ranges = std::fs::read(Path::new(out).join("ranges.safetensors")).unwrap();
    let length = u64::from_le_bytes(ranges[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&ranges[8..8 + length]).unwrap();
    assert_eq!(header["4.gate"]["shape"], serde_json::json!([2, 172]));
    assert_eq!(header["2.score"]["shape"], serde_json::json!([2, 8]));
    assert_eq!(header["5.last-norm-square"]["shape"], serde_json::json!([2, 1]));

    let simulate = [&["llama", "simulate", "--preparation", out, "--tokens", "96"], &texts[..]].concat();
    let noises = ["--bits", "16,12", "--scale", "40", "--preset", "insecure_n11_depth9_scale50"];
    let noises = [&noises[..], &["--weight-bits", "14"]].concat();
    let line: Value =
        serde_json::from_str(&text(&unspoken(&[&simulate[..], &noises[..], &["--json"]].concat()))).unwrap();
    assert_eq!(line["tokens"], 4 * 23);
    let ratio = |name: &str| line["precisions"][name]["perplexity_ratio"].as_f64().unwrap();
    for name in ["polynomials alone", "2^-16", "2^-12", "scale 40, boot 16"] {
        assert!((ratio(name) - 1.0).abs() < 2e-2, "{name}: {line}");
    }
    let divergence = |name: &str| line["precisions"][name]["divergence"].as_f64().unwrap();
    assert!(divergence("polynomials alone") < divergence("2^-16") && divergence("2^-16") < divergence("2^-12"));
    let degrees = line["polynomials"]["silu"]["degrees"].as_object().unwrap();
    assert_eq!(degrees.values().map(|layers| layers.as_u64().unwrap()).sum::<u64>(), 5, "{line}");
    assert!(line["choices"].is_null());
    let noises = [&noises[..], &["--temperature", "0.7", "--seed", "3"]].concat();
    let line: Value =
        serde_json::from_str(&text(&unspoken(&[&simulate[..], &noises[..], &["--json"]].concat()))).unwrap();
    let same = |name: &str| line["choices"]["same"][name].as_u64().unwrap();
    assert_eq!(line["choices"]["tokens"], 4 * 23, "{line}");
    assert!(same("2^-16") >= 90 && same("polynomials alone") >= 90 && same("2^-12") >= 80, "{line}");
    let tables = text(&unspoken(&[&simulate[..], &noises[..]].concat()));
    for part in [
        "The same choices as in the clear, of 92 at temperature 0.7",
        "Table 3",
        "model in the clear",
        "2^-12",
        "Table 4",
        "softmax-factor-2",
        "exponential",
    ] {
        assert!(tables.contains(part), "{part}: {tables}");
    }

    // Mistakes.
    let odd =
        complaint_of_usage(&unspoken(&[&["llama", "prepare", "--out", out, "--chunk", "12"], &texts[..4]].concat()));
    assert!(odd.contains("found 12, needed a power of two from 8"), "{odd}");
    let again = complaint(&unspoken(&prepare));
    assert!(again.contains("--out: ") && again.contains("exists; name a new directory"), "{again}");
    let other = directory.path().join("other");
    let elsewhere = [&["llama", "prepare", "--out", other.to_str().unwrap()], &texts[..]].concat();
    let refused = |more: &[&str]| complaint(&unspoken(&[&elsewhere[..], more].concat()));
    assert!(refused(&["--margin", "0.5"]).contains("--margin: found 0.5, needed a number of at least 1"));
    let imprecise = refused(&["--tokens", "96", "--rounds", "1"]);
    assert!(
        imprecise.contains("layer 0, softmax-factor-1") && imprecise.contains("more rounds of softmax"),
        "{imprecise}"
    );
    assert!(!other.exists());
    let nowhere = complaint(&unspoken(&[
        "llama",
        "simulate",
        "--preparation",
        "/nowhere",
        "--model",
        &model,
        "--text",
        &stories,
    ]));
    assert!(nowhere.contains("/nowhere"), "{nowhere}");
    let long = complaint(&unspoken(&[&simulate[..6], &texts[..4], &["--public", "5000"]].concat()));
    assert!(long.contains("sessions of 49 tokens") && long.contains("--public and --private: found 5000"), "{long}");
    // The same dimensions, but a weight in the middle differs in its last bit.
    let mut bytes = std::fs::read(&model).unwrap();
    let place = bytes.len() / 8 * 4;
    bytes[place] ^= 1;
    let (trained, tokenizer) = (directory.path().join("trained.bin"), model.replace("stories260K.bin", "tok512.bin"));
    std::fs::write(&trained, bytes).unwrap();
    let trained = ["--model", trained.to_str().unwrap(), "--tokenizer", &tokenizer, "--text", &stories];
    let trained = complaint(&unspoken(&[&simulate[..6], &trained[..]].concat()));
    assert!(trained.contains("--preparation") && trained.contains("found weights with the BLAKE3 sum"), "{trained}");
}

/// Characters that no story has, at every length of the public text.
const ODD: &str =
    " # ball b {3} \u{1f600} $5.99 (50%) <html> zzzz AAAA 0x7f|&^~` 你好 \"{x}\" ;;;; \t é !!!! 12345 \\ [4] @#_=+ ";

#[test]
fn a_model_is_prepared_without_a_text_for_every_length_of_the_public_one_and_every_character() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (model, out) = (model(), path("prepared"));
    let sizes = ["--public", "48", "--private", "48"];
    let prepare = [
        "llama",
        "prepare",
        &model,
        "--skip-report",
        "--draft-tokens",
        "0",
        "--tokens",
        "3000",
        "--out",
        &out,
        "--json",
    ];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&prepare[..], &sizes].concat()))).unwrap();
    assert_eq!((&line["covered"]["all"], &line["covered"]["vocabulary"]), (&512.into(), &512.into()), "{line}");
    assert!(line["covered"]["text"].as_u64().unwrap() < 512, "{line}");
    assert_eq!(line["public_tokens"], serde_json::json!([0, 80]));
    assert_eq!(line["vocabulary"]["escaped"], 0, "{line}");

    std::fs::write(path("odd.txt"), ODD.repeat(3)).unwrap();
    std::fs::write(path("story.txt"), " One day, she went to the park and saw a big dog. ".repeat(6)).unwrap();
    for file in ["odd.txt", "story.txt"] {
        for public in ["0", "1", "2", "14", "60"] {
            let simulate = ["llama", "simulate", "--model", &model, "--preparation", &out, "--text", &path(file)];
            let sizes = ["--public", public, "--private", "16", "--tokens", "64", "--scale", "40", "--bits", "16"];
            let preset = ["--preset", "insecure_n11_depth9_scale50", "--json"];
            let line: Value =
                serde_json::from_str(&text(&unspoken(&[&simulate[..], &sizes, &preset].concat()))).unwrap();
            for precision in ["polynomials alone", "scale 40, boot 16"] {
                let found = &line["precisions"][precision];
                assert_eq!(found["escaped"], 0, "{file} {public}: {found}");
                assert!(found["logit_error"].as_f64().unwrap() < 0.2, "{file} {public}: {found}");
            }
        }
    }
}

/// What the model never ran is known to the client, and the window fits the context of this model.
#[test]
fn the_defaults_of_preparation_and_report_fit_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (model, out, stories) = (model(), path("prepared"), stories(directory.path()));
    let prepare = [
        "llama",
        "prepare",
        "--model",
        &model,
        "--text",
        &stories,
        "--skip-vocabulary",
        "--skip-report",
        "--draft-tokens",
        "0",
        "--out",
        &out,
    ];
    let tables = text(&unspoken(&prepare));
    assert!(tables.contains("public      texts of 0 to 492 tokens"), "{tables}");
    assert!(tables.contains("never ran, such as") && tables.contains("clients warn of them"), "{tables}");
    let warned = |more: &[&str]| {
        let client = format!("{out}/client");
        let chat = ["chat", "--url", "127.0.0.1:9", "--timeout", "0.3", "--model", &client, "--private", " \u{2}"];
        complaint(&unspoken(&[&chat[..], more].concat()))
    };
    let said = warned(&[]);
    assert!(said.contains("never ran some tokens of the text: "), "{said}");
    assert!(said.contains("127.0.0.1:9"), "{said}");
    let said = warned(&["--covered-only"]);
    assert!(said.contains("because of --covered-only; nothing was sent") && !said.contains("127.0.0.1:9"), "{said}");
    text(&unspoken(&["llama", "report", "--model", &model, "--text", &stories]));
    let narrow = ["--least-public", "40", "--public", "20", "--private", "20"];
    let narrow = complaint(&unspoken(&[&prepare[..7], &["--out", &path("other")], &narrow[..]].concat()));
    assert!(narrow.contains("--least-public: found 40, needed at most the 20 of --public"), "{narrow}");
}

#[test]
fn a_pass_is_planned_for_a_model_or_for_its_dimensions() {
    let plan = |more: &[&str]| {
        let preset = ["--preset", "insecure_n11_boot_depth15_scale40"];
        let command = ["llama", "plan", "--public", "40", "--private", "14", "--chunks", "2"];
        text(&unspoken(&[&command[..], &preset, more].concat()))
    };
    let planned = |more: &[&str]| -> Value { serde_json::from_str(&plan(&[more, &["--json"]].concat())).unwrap() };
    let line = planned(&["--shape", "stories260k"]);
    assert_eq!(line["preset"], "insecure_n11_boot_depth15_scale40");
    let number = |field: &str| line[field].as_u64().unwrap_or_else(|| panic!("{field}: {line}"));
    assert_eq!(["layers", "slots", "tokens", "public", "chunks", "places"].map(number), [5, 1024, 8, 40, 2, 16]);
    assert!(number("keys") > 10 && number("key_wire_bytes") > 1 << 20 && line["fits"] == true, "{line}");
    assert_eq!(line["degrees"]["softmax"], serde_json::json!([31, 127]));
    let steps = line["steps"].as_array().unwrap();
    let sum = |field: &str| steps.iter().map(|step| step[field].as_f64().unwrap()).sum::<f64>();
    for field in ["bootstraps", "key_switches", "seconds", "bootstrap_seconds"] {
        let whole = line[field].as_f64().unwrap();
        assert!(whole > 0.0 && (sum(field) - whole).abs() < 1e-6 * whole, "{field}: {} {whole}", sum(field));
    }
    assert_eq!(steps.iter().filter(|step| step["results"] == "query+key+value").count(), 5);
    assert_eq!(steps.last().unwrap()["results"], "logits");
    // Of a model only the dimensions matter.
    let model = planned(&["--model", &model()]);
    for field in ["bootstraps", "key_switches", "memory", "degrees", "keys"] {
        assert_eq!(model[field], line[field], "{field}");
    }

    let short = plan(&["--shape", "stories260k", "--memory", "0.001"]);
    let parts =
        ["layers               5", "assumed: exponential 15", "keys as they are sent", "memory: found 0.00 GB, needed"];
    for part in parts {
        assert!(short.contains(part), "{part}: {short}");
    }
    let long = plan(&["--shape", "stories260k", "--explain"]);
    for part in ["layer 4", "query+key+value", "softmax-factor-2", "coefficients"] {
        assert!(long.contains(part), "{part}: {long}");
    }
}

#[test]
fn prompts_that_cannot_be_planned_are_refused() {
    let plan = |more: &[&str]| complaint(&unspoken(&[&["llama", "plan", "--shape", "stories260k"], more].concat()));
    let long = plan(&["--public", "500", "--private", "13"]);
    assert!(long.contains("500 public tokens, and 1 chunks of 16 places") && long.contains("at most 512"), "{long}");
    let none = plan(&["--public", "5", "--private", "0"]);
    assert!(none.contains("found 0 private tokens in 1 chunks"), "{none}");
    let wide = plan(&["--public", "5", "--private", "4", "--scale", "60"]);
    assert!(wide.contains("--scale: found 60 bits"), "{wide}");
    let flat = plan(&["--public", "5", "--private", "4", "--preset", "insecure_n11_depth9_scale50"]);
    assert!(flat.contains("take a preset with 'boot' in its name"), "{flat}");
    let memory = plan(&["--public", "5", "--private", "4", "--memory", "0"]);
    assert!(memory.contains("--memory: found 0 GB, needed a positive number"), "{memory}");
}
