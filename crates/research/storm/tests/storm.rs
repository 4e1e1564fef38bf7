//! The short forms of the storms that need no service.

use std::io::Write;
use std::process::{Command, Output};

use serde_json::Value;

fn storm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspoken-storm")).args(arguments).output().unwrap()
}

/// The line of JSON and the exit status.
fn verdict(output: &Output) -> (Value, Option<i32>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no verdict: {text}{errors}"));
    (line, output.status.code())
}

/// Whether valgrind can be run. Says so where it cannot, past the capture of the test's output.
fn has_valgrind() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        let output = storm(&["constant-time"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("install"), "says what to do");
        let _ = writeln!(std::io::stderr(), "SKIPPED: the constant-time checks: valgrind is not installed");
    }
    there
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn a_leak_is_reported_with_its_function_and_clean_code_is_not() {
    if !has_valgrind() {
        return;
    }
    for (case, status) in [("deliberate-leak", 1), ("sampling", 0)] {
        let output = storm(&["constant-time", "--case", case, "--kernels", "portable", "--json"]);
        let (line, found) = verdict(&output);
        assert_eq!(found, Some(status), "{line}");
        let findings = line["findings"].as_array().unwrap();
        let named = |finding: &Value| finding.as_str().unwrap().contains("count_odd_with_branches");
        assert!(findings.iter().all(named) && findings.is_empty() == (status == 0), "{line}");
    }
}

#[test]
fn killed_owners_of_a_pool_hand_out_no_entry_twice() {
    let (line, status) = verdict(&storm(&["kill", "pool", "--count", "5", "--json"]));
    assert_eq!(status, Some(0), "{line}");
    assert!(line["kills"].as_u64().unwrap() >= 5, "{line}");
}

#[test]
fn killed_writers_of_a_database_lose_nothing() {
    let (line, status) = verdict(&storm(&["kill", "database", "--count", "5", "--json"]));
    assert_eq!(status, Some(0), "{line}");
    assert!(line["kills"].as_u64().unwrap() >= 4, "{line}");
}

#[test]
fn commands_without_their_programs_say_what_to_do() {
    let output = storm(&["mutate", "--unspoken", "no-such-program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cargo build --release -p unspoken-cli"));
    let output = storm(&["constant-time", "--case", "no-such-case"]);
    assert_eq!(output.status.code(), Some(2));
}
