//! The programs of `examples/rust`, which cargo builds beside the command.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Service, text, unspoken};

/// What an example prints in a directory.
fn printed(name: &str, directory: &Path, words: &[&str]) -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_unspoken")).with_file_name("examples").join(name);
    let output = Command::new(&built).args(words).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text(&output)
}

#[test]
fn a_record_is_looked_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("codes.csv"), "code,title\nA00.1,Cholera\nB05,Measles\n").unwrap();
    let records = path("codes.csv");
    text(&unspoken(&["pir", "build", "--from", &records, "--key", "code", "--value", "title", &path("db")]));
    let offer = format!("pir/codes={}", path("db"));
    let service = Service::start(&["--pir", &offer, "--data-dir", &path("keys")], Stdio::null());
    for (key, record) in [("B05", "Measles\n"), ("X99", "no such key\n")] {
        assert_eq!(printed("lookup", directory.path(), &[&service.url, "pir/codes", key]), record);
    }
}

#[test]
fn a_row_is_predicted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models/logistic-zipmap.onnx");
    let row = |row: usize| (0..4).map(move |column| ((row * 7 + column * 3) % 80) as f64 / 10.0);
    let rows = (0..200).map(|at| row(at).map(|x| x.to_string()).collect::<Vec<_>>().join(",") + "\n");
    std::fs::write(path("rows.csv"), std::iter::once("a,b,c,d\n".to_owned()).chain(rows).collect::<String>()).unwrap();
    let compile = ["compile", model.to_str().unwrap(), "--calibration", &path("rows.csv"), "--out", &path("flowers")];
    text(&unspoken(&compile));
    let service = Service::start(&["--model", &path("flowers"), "--data-dir", &path("keys")], Stdio::null());
    let words = [&service.url, "model", "5.1", "3.5", "1.4", "0.2"];
    let said = printed("predict", directory.path(), &words);
    assert!(said.contains("label") && said.contains("probabilit") && said.lines().count() == 2, "{said}");
}
