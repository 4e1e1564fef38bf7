//! Tests of the `unspoken-bench` command.

use std::process::{Command, Output};

use serde_json::Value;

fn unspoken_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspoken-bench")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_audit_breaks_what_is_broken_and_nothing_else() {
    let lines = text(&unspoken_bench(&["audit", "cached-encryption", "--quick", "--json"]));
    // Caches of Zinc and Rache at all pivot counts, in three schemes, and the sound modes.
    assert_eq!(lines.lines().count(), 46);
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["broken"], !row["claimed_sound"].as_bool().unwrap(), "{row}");
        assert!(row["broken"] == false || row["advantage"] == 1.0, "{row}");
    }
    let table = text(&unspoken_bench(&["audit", "cached-encryption", "--quick", "--trials", "32"]));
    assert_eq!(table.matches("BROKEN").count(), 22, "{table}");
    let few = unspoken_bench(&["audit", "cached-encryption", "--quick", "--trials", "5"]);
    assert!(!few.status.success());
}

#[test]
fn a_part_of_a_suite_prints_rows_with_the_fields_of_the_contract() {
    let lines = text(&unspoken_bench(&["engine", "--quick", "--no-peers", "--only", "matrix", "--json"]));
    assert!(lines.lines().count() > 1, "{lines}");
    for line in lines.lines() {
        let row: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        let fields: Vec<&str> = row.keys().map(String::as_str).collect();
        let expected = ["suite", "case", "metric", "unit", "ours", "baseline", "baseline_name", "ratio", "params"];
        assert_eq!(fields, expected, "{line}");
        assert!(row["suite"] == "engine" && row["ours"].as_f64() > Some(0.0), "{line}");
    }
    let table = text(&unspoken_bench(&["engine", "--quick", "--no-peers", "--only", "matrix"]));
    assert!(table.contains("PCMM 64 x 256") && !table.contains('{'), "{table}");
}

#[test]
fn help_lists_suites_and_parts_and_mistakes_are_refused() {
    let help = text(&unspoken_bench(&["--help"]));
    let names =
        ["engine", "lookup", "matrix", "encrypt", "pir", "llama", "search", "model", "audit", "bootstrap", "lenet-5"];
    for name in names.into_iter().chain(["table6", "updates"]) {
        assert!(help.contains(name), "{name}: {help}");
    }
    let alone = &["llama", "--only", "prefill"];
    for mistake in [&["engines"][..], &[], &["engine", "--only", "table3"], &["audit"], alone] {
        let output = unspoken_bench(mistake);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{mistake:?}");
    }
}
