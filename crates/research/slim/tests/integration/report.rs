//! The command that reports a polynomial.

use std::process::{Command, Output};

use serde_json::Value;

#[test]
fn a_polynomial_is_reported_with_its_squares_and_its_work() {
    let polynomial =
        |rest: &[&str]| Command::new(env!("CARGO_BIN_EXE_unspoken-polynomial")).args(rest).output().unwrap();
    let text = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let complaint = |output: Output| {
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let inverse = ["--function", "inverse-sqrt", "--interval", "0.0333333", "1", "--degree", "32"];
    let line: Value = serde_json::from_str(&text(polynomial(&[&inverse[..], &["--json"]].concat()))).unwrap();
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
    let described = text(polynomial(&silu));
    for part in ["degree 32", "2^-15.7", "the function has a zero", "added", "4 leaves of degree 8", "baby steps"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let exponential = ["--function", "exp", "--interval", "-12", "0", "--degree", "16", "--json"];
    let line: Value = serde_json::from_str(&text(polynomial(&exponential))).unwrap();
    assert!(line["log2_error"].as_f64().unwrap() < -25.0, "{line}");

    for (change, part) in [
        (["--function", "inverse-sqrt", "--interval", "0", "1", "--degree", "32"], "positive numbers"),
        (["--function", "exp", "--interval", "1", "-1", "--degree", "32"], "the smaller first"),
    ] {
        let said = complaint(polynomial(&change));
        assert!(said.contains(part), "{said}");
    }
    let deep = complaint(polynomial(&[&inverse[..], &["--depth", "6"]].concat()));
    assert!(deep.contains("from 1 to 5"), "{deep}");
}
