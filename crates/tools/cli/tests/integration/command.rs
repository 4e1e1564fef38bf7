//! Tests of the command line program, at secure parameters.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn unspoken(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspoken")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn params_say_what_the_contract_asks() {
    let lines = text(&unspoken(&["params", "--json"]));
    assert!(lines.lines().count() >= 8);
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(!row["name"].as_str().unwrap().starts_with("insecure_"));
        assert!(row.get("log2_failure").is_some());
        let objects = row["objects"].as_array().unwrap();
        assert!(!objects.is_empty());
        for object in objects {
            for field in ["what", "n", "log2_q", "secret", "sigma", "security_bits"] {
                assert!(object.get(field).is_some(), "{field} in {object}");
            }
            assert!(object["security_bits"].as_f64().unwrap() >= 128.0, "{object}");
        }
        let name = row["name"].as_str().unwrap();
        let count = |what: &str| objects.iter().filter(|object| object["what"] == what).count();
        assert_eq!(count("public key"), usize::from(!name.contains("pir")), "{name}");
        let boots = name.contains("_boot_") || name.contains("_query_");
        assert_eq!(count("key of the small ring"), usize::from(boots), "{name}");
    }
}

#[test]
fn params_of_retrieval_say_how_often_a_query_fails() {
    let lines = text(&unspoken(&["params", "--json"]));
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let retrieval: Vec<Value> = rows.filter(|row| row["name"].as_str().unwrap().contains("pir")).collect();
    assert_eq!(retrieval.len(), 1, "{retrieval:?}");
    assert!(retrieval[0]["log2_failure"].as_f64().unwrap() <= -40.0, "{retrieval:?}");
    let objects = retrieval[0]["objects"].as_array().unwrap();
    let shapes: Vec<_> = objects.iter().map(|object| (object["n"].as_u64(), object["log2_q"].as_f64())).collect();
    assert!(shapes.contains(&(Some(2048), Some(52.0))) && shapes.contains(&(Some(768), Some(32.0))), "{shapes:?}");
    let table = text(&unspoken(&["params"]));
    assert!(table.contains("pieces of 256 bytes fail at most once in:") && !table.contains("insecure_"), "{table}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_unspoken"));
    let child = child.args(["params", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn plans_are_explained() {
    let arguments = ["plan", "--explain", "--pairs", "--preset", "n14_depth8_scale30"];
    let table = text(&unspoken(&arguments));
    for plan in ["paper", "complex-first", "lazy-last", "baby-giant-16"] {
        assert!(table.contains(plan), "{table}");
    }
    let best = text(&unspoken(&["plan", "--pairs", "--preset", "n14_depth8_scale30"]));
    assert!(best.starts_with("baby-giant-"), "{best}");
}

#[test]
fn bootstraps_are_planned_from_the_bits_they_need() {
    let table = text(&unspoken(&["plan", "--bootstrap", "--bits", "20", "--slots", "4096"]));
    for preset in ["n16_boot_depth12_scale45", "n16_boot_depth10_scale50"] {
        assert!(table.contains(preset), "{table}");
    }
    assert!(!table.contains("n16_boot_depth15_scale40"), "{table}");
    let none = unspoken(&["plan", "--bootstrap", "--bits", "60", "--slots", "4096", "--search"]);
    let complaint = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(!none.status.success() && complaint.contains("no shape that was tried gives 60 bits"), "{complaint}");
}

#[test]
fn help_and_mistakes_speak_to_people() {
    let help = text(&unspoken(&["--help"]));
    for command in ["train", "serve", "classify", "pir", "embed", "digits", "matrix", "keys", "params", "plan", "demo"]
    {
        assert!(help.contains(command), "{command}");
    }
    assert!(!help.contains("audit") && !help.contains("bench"), "{help}");
    let mistake = unspoken(&["serve", "--classify", "/nowhere"]);
    assert!(!mistake.status.success());
    assert!(String::from_utf8_lossy(&mistake.stderr).contains("/nowhere"));
    let insecure = unspoken(&["serve", "--classify", "/nowhere,preset=insecure_n11_depth9_scale50"]);
    assert!(!insecure.status.success());
    let token = text(&unspoken(&["keys", "token", "alice"]));
    assert_eq!(token.lines().count(), 2);
    assert!(token.lines().nth(1).unwrap().starts_with("alice:"));
}

#[test]
fn old_spellings_are_read_with_a_notice() {
    let old = unspoken(&["pir", "seal-key", "--help"]);
    assert!(
        String::from_utf8_lossy(&old.stderr).contains("'unspoken pir seal-key' is spelled 'unspoken pir oprf-key' now")
    );
    assert_eq!(text(&old), text(&unspoken(&["pir", "oprf-key", "--help"])));
}

#[test]
fn a_table_is_compressed_and_reported_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    bytes.extend(format!("{:69}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 3), }").into_bytes());
    bytes.extend((0..120u32).flat_map(|i| ((i * i % 11) as f32).to_le_bytes()));
    std::fs::write(path("table.npy"), &bytes).unwrap();
    let tokens: Vec<String> = (0..40).map(|i| format!("t{i}")).collect();
    std::fs::write(path("tokens.txt"), tokens.join("\n")).unwrap();
    let reviews: Vec<String> = (0..40).map(|i| format!("t{i} t{},{}", i * 7 % 40, i % 2)).collect();
    std::fs::write(path("reviews.csv"), format!("text,label\n{}\n", reviews.join("\n"))).unwrap();
    let (table, tokens, out) = (path("table.npy"), path("tokens.txt"), path("model"));
    let source = ["--table", &table, "--tokens", &tokens];
    let compress = ["embed", "compress", "--replace", "--out", &out, "--columns", "6", "--add-unknown"];
    let said = text(&unspoken(&[&compress[..], &source].concat()));
    assert!(said.contains("compressed 41 embeddings of 3 numbers"), "{said}");
    let reviews = path("reviews.csv");
    let report = ["embed", "report", &out, "--reviews", &reviews, "--json"];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&report[..], &source].concat()))).unwrap();
    assert_eq!((&line["columns"], &line["tokens"]), (&6.into(), &41.into()));
    let (error, cosine) = (line["relative_error"].as_f64().unwrap(), line["mean_cosine"].as_f64().unwrap());
    assert!(error > 0.0 && error < 0.1 && cosine > 0.9, "{line}");
    assert!(line["accuracy"].as_f64().is_some() && line["accuracy_uncompressed"].as_f64().is_some(), "{line}");

    let recurrent = ["--classifier", "recurrent", "--hidden", "4", "--epochs", "2", "--train-reviews", "20"];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&report[..], &source, &recurrent].concat()))).unwrap();
    assert!(line["accuracy"].as_f64().is_some() && line["accuracy_uncompressed"].as_f64().is_some(), "{line}");
    let said = text(&unspoken(&[&["embed", "report", &out, "--reviews", &reviews], &source[..], &recurrent].concat()));
    assert!(said.contains("LSTM with 4 hidden numbers on 100 tokens at most, 20 reviews to train"), "{said}");

    let gumbel = ["--method", "gumbel", "--epochs", "20", "--batch", "8", "--rate", "0.02", "--rows", "30"];
    let said = text(&unspoken(&[&compress[..], &source, &gumbel].concat()));
    assert!(said.contains("compressed 31 embeddings of 3 numbers"), "{said}");
    let report = ["embed", "report", &out, "--json", "--rows", "30"];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&report[..], &source].concat()))).unwrap();
    assert!(line["relative_error"].as_f64().unwrap() < 0.5 && line["accuracy"].is_null(), "{line}");
    let odd = unspoken(&[&compress[..], &source, &["--epochs", "20"]].concat());
    let message = String::from_utf8_lossy(&odd.stderr).into_owned();
    assert!(message.contains("found --epochs, an option of --method gumbel"), "{message}");

    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&table, &bytes).unwrap();
    let refused = unspoken(&[&compress[..], &source].concat());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("NaN in row 39 (token \"t39\"), column 1"), "{message}");
}

/// The whole pipeline at its real parameters: services in their own processes, keys, 64 messages with equal labels, and
/// records of codes, where one code does not exist.
#[test]
fn the_demo_classifies_and_looks_up_privately() {
    let data = root().join("data/sms/spam_collection.tsv");
    if !data.exists() {
        println!("skipped: {} is absent; `make data` downloads it", data.display());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let codes = directory.path().join("codes.csv");
    let names = ["E11.9", "I10", "J45.909", "S82.401A", "A00.0"].map(|code| format!("{code},\"what, {code} is\"\n"));
    std::fs::write(&codes, format!("code,long_name\n{}", names.concat())).unwrap();
    let paths = [&data, &codes].map(|path| path.to_str().unwrap());
    // The story needs more memory and time than a test should take.
    let scenes = ["demo", "--scene", "messages", "--scene", "codes"];
    let output = unspoken(&[&scenes[..], &["--messages", "64", "--data", paths[0], "--codes", paths[1]]].concat());
    let table = text(&output);
    assert!(table.contains("messages classified                      64"), "{table}");
    assert!(table.contains("messages whose labels differ             0"), "{table}");
    assert!(table.contains("J45.909   what, J45.909 is") && table.contains("X99.99    no such code"), "{table}");
    let lengths = table.lines().find_map(|line| line.strip_prefix("what the service saw: lengths")).unwrap();
    let lengths: Vec<&str> = lengths.split(", ").map(str::trim).collect();
    assert!(lengths.len() == 5 && lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
}
