//! Tests of `unspoken doctor`.

use std::convert::Infallible;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use crate::support::{Service, complaint, text, unspoken};
use serde_json::Value;
use unspoken_database::{Builder, Record};
use unspoken_pir_scheme::Preset;

/// A small database in a directory.
fn database(directory: &Path) -> String {
    let path = directory.join("codes");
    let records = (0..50).map(|i| Record { key: Some(format!("K{i}").into()), value: format!("value {i}").into() });
    Builder::new(Preset::N11).build(&path, records.map(Ok::<_, Infallible>), |_| {}, &AtomicBool::new(false)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The states and texts of one check.
fn said(report: &Value, check: &str) -> Vec<(String, String)> {
    let lines = report["checks"].as_array().unwrap().iter().filter(|line| line["check"] == check);
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    lines.map(|line| (text(line, "state"), text(line, "found"))).collect()
}

#[test]
fn a_service_that_can_start_has_no_problem_and_is_not_loaded_twice() {
    let directory = tempfile::tempdir().unwrap();
    let codes = database(directory.path());
    let [data, state] = ["data", "state"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    let service = ["--data-dir", &data, "--pir", &codes];
    let doctor = |more: &[&str]| {
        let words = [&["doctor", "--json", "--state-dir", &state], &service[..], more].concat();
        serde_json::from_str::<Value>(&text(&unspoken(&words))).unwrap()
    };

    let report = doctor(&["--listen", "127.0.0.1:0"]);
    assert_eq!(report["problems"], 0, "{report}");
    assert!(said(&report, "offers").iter().any(|(_, found)| found.starts_with("1 loaded in")), "{report}");
    assert_eq!(said(&report, "capacity").len(), 1, "{report}");
    // Looking at it made nothing.
    assert!(!Path::new(&data).exists() && !Path::new(&state).exists());
    let report = doctor(&["--listen", "127.0.0.1:0", "--no-load"]);
    assert!(said(&report, "offers")[0].1.starts_with("not loaded"), "{report}");

    let running = Service::start(&service, Stdio::null());
    let address = running.url.strip_prefix("http://").unwrap();
    let report = doctor(&["--listen", address]);
    assert_eq!(report["problems"], 0, "{report}");
    assert!(said(&report, "port")[0].1.contains("in use"), "{report}");
    assert!(said(&report, "offers")[0].1.contains("a service uses"), "{report}");

    let url = running.url.clone();
    let health = || unspoken(&["health", "--url", &url, "--timeout", "1"]);
    assert_eq!(text(&health()), "ready\n");
    drop(running);
    let said = complaint(&health());
    assert!(said.contains(&url), "{said}");
}

#[test]
fn each_mistake_has_a_line_that_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let codes = database(directory.path());
    let mut parameters = rcgen::CertificateParams::new(["ask.example".to_owned()]).unwrap();
    (parameters.not_before, parameters.not_after) =
        (rcgen::date_time_ymd(2024, 1, 1), rcgen::date_time_ymd(2025, 1, 1));
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(path("cert.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    fs::write(path("tokens"), "no token\n").unwrap();
    let set_mode = |name: &str, mode| fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    set_mode("key.pem", 0o644);
    fs::create_dir(path("data")).unwrap();
    set_mode("data", 0o777);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let config = format!(
        "listen = '{listen}'\ndata_dir = '{}'\ntokens = '{}'\n[tls]\ncertificate = '{}'\nkey = '{}'\n\
         [limits]\nmemory_bytes = 100_000\n[[offer]]\nkind = 'pir'\npath = '{codes}'\n",
        path("data"),
        path("tokens"),
        path("cert.pem"),
        path("key.pem")
    );
    fs::write(path("service.toml"), config).unwrap();
    let doctor = ["doctor", "--config", &path("service.toml"), "--state-dir", &path("state")];

    let output = unspoken(&doctor);
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    for (check, part) in [
        ("certificate", "it has expired"),
        ("private key", "chmod 600"),
        ("tokens", "unspoken keys token"),
        ("state", "every user may write to"),
        ("port", "ss -ltnp"),
        ("capacity", "--memory-mib"),
    ] {
        let found = report.lines().any(|line| line.starts_with(&format!("problem  {check} ")) && line.contains(part));
        assert!(found, "{check}: {report}");
    }
    assert_eq!(complaint(&output).trim(), "error: found 6 problems", "{report}");

    // What cannot be read at all is a problem, too.
    fs::write(path("service.toml"), "listn = '127.0.0.1:1'").unwrap();
    let output = unspoken(&[&doctor[..], &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (state, found) = &said(&report, "configuration")[0];
    assert!(state == "problem" && found.contains("listn") && !found.contains('\n'), "{report}");
    complaint(&output);
    let service = ["--data-dir", &path("other"), "--pir", &codes, "--no-load", "--log-filter", "unspoken=dbug"];
    let output = unspoken(&[&["doctor"], &service[..]].concat());
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(report.lines().any(|line| line.starts_with("problem  log ") && line.contains("--log-filter")), "{report}");
    complaint(&output);
}
