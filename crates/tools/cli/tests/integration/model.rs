//! Tests of `unspoken compile` and `unspoken ask` at secure parameters.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::support::{Service, complaint, npy, text, unspoken};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models").join(name)
}

/// A number of a row of flowers: like those of the model's training data, from 0.1 to 7.9.
fn number(row: usize, column: usize) -> f64 {
    let [low, high] = [[4.3, 7.9], [2.0, 4.4], [1.0, 6.9], [0.1, 2.5]][column];
    low + (high - low) * ((row * 37 + column * 11) as f64 * 0.618).fract()
}

/// An archive with one array, as numpy writes it.
fn npz(name: &str, array: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
    archive.write_all(array).unwrap();
    archive.finish().unwrap().into_inner()
}

#[test]
fn a_model_is_compiled_served_and_asked_in_all_formats() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let model = file("logistic-zipmap.onnx");
    let model = model.to_str().unwrap();
    let lines = |rows: std::ops::Range<usize>| {
        let row = |row: usize| (0..4).map(|column| number(row, column).to_string()).collect::<Vec<_>>().join(",");
        rows.map(row).fold("a,b,c,d".to_owned(), |text, row| text + "\n" + &row)
    };
    let (csv, out) = (path("rows.csv"), path("flowers"));
    std::fs::write(&csv, lines(0..200)).unwrap();
    let compile = ["compile", model, "--calibration", &csv, "--out", &out];
    let line: Value = serde_json::from_str(&text(&unspoken(&[&compile[..], &["--json"]].concat()))).unwrap();
    assert_eq!((&line["levels"], &line["functions"]), (&json!(1), &json!([])), "{line}");
    assert!(line["error_of_polynomials"].as_f64().unwrap() < 1e-9 && line["error_of_noise"].as_f64().unwrap() < 0.01);
    assert!(line["query_bytes"].as_u64().unwrap() < 500_000, "{line}");
    let again = complaint(&unspoken(&compile));
    assert!(again.contains("--out: ") && again.contains("exists; name a new directory"), "{again}");

    let service = Service::start(&["--model", &out, "--data-dir", &path("keys")], Stdio::null());
    let state = path("state");
    let ask = |input: &str, more: &[&str]| {
        let fixed = ["ask", "--url", &service.url, "--state-dir", &state, "--input", input];
        unspoken(&[&fixed[..], more].concat())
    };
    let asked = ask(&csv, &["--check", model]);
    let (said, taken) = (text(&asked), String::from_utf8_lossy(&asked.stderr).into_owned());
    assert!(taken.contains("the same labels for 200 of 200 rows") && taken.contains("query "), "{taken}");
    assert_eq!(said.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 200, "{said}");
    assert_eq!(said.lines().count(), 200);
    let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let label = first["output_label"].as_str().unwrap();
    let probabilities = first["output_probability"].as_object().unwrap();
    assert!(probabilities[label].as_f64().unwrap() >= 1.0 / 3.0 && probabilities.len() == 3, "{first}");
    // The same row from each kind of file.
    let row: Vec<f64> = (0..4).map(|column| number(0, column)).collect();
    let input = "X";
    for (name, bytes) in [
        ("row.json", json!([row]).to_string().into_bytes()),
        ("one.json", json!({ input: row }).to_string().into_bytes()),
        ("row.jsonl", format!("{}\n{}\n", json!({ input: row }), json!({ input: row })).into_bytes()),
        ("row.npy", npy("(1, 4)", row.iter().map(|number| *number as f32))),
        ("row.npz", npz(&format!("{input}.npy"), &npy("(1, 4)", row.iter().map(|number| *number as f32)))),
        // Columns are found by the names that they had in the calibration.
        ("row.csv", format!("d,id,c,b,a\n{},7,{},{},{}\n", row[3], row[2], row[1], row[0]).into_bytes()),
        ("only.npz", npz("arr_0.npy", &npy("(1, 4)", row.iter().map(|number| *number as f32)))),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        let said = text(&ask(&path(name), &[]));
        let found: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        assert_eq!(found["output_label"], label, "{name}: {said}");
    }
    // Names that are no names do not reach clients.
    let twice = path("twice.csv");
    std::fs::write(&twice, lines(0..200).replacen("a,b,c,d", "a,b,a,d", 1)).unwrap();
    let compiled = unspoken(&["compile", model, "--calibration", &twice, "--out", &path("twice")]);
    let warning = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(
        warning.contains("clients see no names of columns") && warning.contains("the same name twice"),
        "{warning}"
    );
    assert!(text(&compiled).contains("written"));
    // Mistakes that do not depend on numbers, before anything is sent.
    for (name, content, part) in [
        ("short.json", "[[1, 2]]", "found 2 numbers, needed 4"),
        ("other.json", "{\"Y\": [1, 2, 3, 4]}", "\"X\""),
        ("object.json", "[[{}, 2, 3, 4]]", "needed numbers"),
        ("misspelt.csv", "a,B,c,d\n5,3,4,1\n", "found the columns [\"a\", \"B\", \"c\", \"d\"] without [\"b\"]"),
        ("rows.txt", "1", "needed npz, npy, csv, json or jsonl"),
    ] {
        std::fs::write(path(name), content).unwrap();
        let said = complaint(&ask(&path(name), &[]));
        assert!(said.contains(part), "{name}: {said}");
    }
    // The service sees the same requests whether numbers are in their ranges or not.
    let sent = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines().find(|line| line.starts_with("query ")).unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    std::fs::write(path("good.json"), "[[5, 3, 4, 1], [6, 3, 4, 1], [7, 3, 4, 1]]").unwrap();
    let good = ask(&path("good.json"), &[]);
    assert!(text(&good).lines().count() == 3);
    let answers = |name: &str, content: &str| {
        std::fs::write(path(name), content).unwrap();
        let asked = ask(&path(name), &["--check", model]);
        assert_eq!(sent(&asked), sent(&good), "{name}");
        let lines = String::from_utf8_lossy(&asked.stdout).into_owned();
        (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>(), complaint(&asked))
    };
    let (lines, said) = answers("far.json", "[[5, 3, 4, 1], [99, 3, 4, 1], [\"x\", 3, 4, 1]]");
    assert_eq!(lines[0], serde_json::from_str::<Value>(text(&good).lines().next().unwrap()).unwrap());
    let errors = lines[1..].iter().map(|line| line["error"].as_str().unwrap()).collect::<Vec<_>>();
    assert!(errors[0].starts_with("input \"X\": found a number outside in element 0 (\"a\")"), "{errors:?}");
    assert!(errors[1].starts_with("input \"X\": found no number in element 0"), "{errors:?}");
    assert!(said.contains("found 2 of 3 rows without an answer") && said.contains("do not ask"), "{said}");
    assert!(said.contains("the same labels for 1 of 1 rows; numbers differ by"), "{said}");
    let (lines, said) = answers("gaps.csv", "a,b,c,d\n5,,4,1\n5,n/a,4,1\n5,3,4,1000\n");
    assert!(lines.iter().all(|line| line.get("error").is_some()) && said.contains("3 of 3 rows"), "{lines:?} {said}");
    // What is moved into the ranges is compared as it was asked.
    let clipped = ask(&path("far.json"), &["--clip", "--check", model]);
    let said = String::from_utf8_lossy(&clipped.stderr).into_owned();
    assert!(said.contains("1 numbers were moved") && said.contains("the same labels for 2 of 2 rows"), "{said}");
    // Printed numbers have no digits of the noise; labels are the same.
    let raw: Vec<Value> =
        text(&ask(&csv, &["--raw"])).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed: Vec<Value> = asked_lines(&asked);
    assert!(raw.iter().zip(&printed).all(|(raw, printed)| raw["output_label"] == printed["output_label"]));
    assert!(raw.iter().zip(&printed).any(|(raw, printed)| raw["output_probability"] != printed["output_probability"]));
}

#[test]
fn printed_results_are_rounded_to_the_noise() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let rows =
        (0..200).map(|row| (0..10).map(|column| number(row, column % 4).to_string()).collect::<Vec<_>>().join(","));
    let (csv, out) = (path("rows.csv"), path("out"));
    std::fs::write(&csv, format!("a,b,c,d,e,f,g,h,i,j\n{}\n", rows.collect::<Vec<_>>().join("\n"))).unwrap();
    let model = file("linear-regression.onnx");
    let model = model.to_str().unwrap();
    text(&unspoken(&["compile", model, "--calibration", &csv, "--out", &out]));
    let service = Service::start(&["--model", &out, "--data-dir", &path("keys")], Stdio::null());
    let state = path("state");
    let ask = |more: &[&str]| {
        let fixed = ["ask", "--url", &service.url, "--state-dir", &state, "--input", &csv];
        let output = unspoken(&[&fixed[..], more].concat());
        let digits =
            |line: Value| line.as_object().unwrap().values().map(|number| number.to_string().len()).max().unwrap();
        (
            asked_lines(&output).into_iter().map(digits).max().unwrap(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let ((rounded, said), (raw, _)) = (ask(&["--check", model]), ask(&["--raw"]));
    assert!(rounded < raw, "{rounded} {raw}");
    // A model without labels has none to compare.
    assert!(said.contains("in clear    numbers differ by"), "{said}");
}

/// The lines of `unspoken ask`.
fn asked_lines(output: &Output) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_cannot_be_served_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (csv, out) = (path("rows.csv"), path("out"));
    std::fs::write(&csv, "a,b,c,d\n1,2,3,NaN\n").unwrap();
    let logistic = file("logistic-zipmap.onnx");
    let compile = |model: &str, more: &[&str]| {
        let fixed = ["compile", model, "--calibration", &csv, "--out", &out];
        complaint(&unspoken(&[&fixed[..], more].concat()))
    };
    let logistic = logistic.to_str().unwrap();
    assert!(compile(logistic, &[]).contains("NaN in row 0, column 3"), "{}", compile(logistic, &[]));
    assert!(compile(logistic, &["--preset", "insecure_n11_depth9_scale50"]).contains("needed one of 128 bits"));
    assert!(compile("/nowhere.onnx", &[]).contains("/nowhere.onnx"));
    assert!(!directory.path().join("out").exists());
}
