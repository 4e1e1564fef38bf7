//! Sums of encrypted contributions from the collection to the decrypted sums, at secure parameters.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::support::{Service, complaint, text, unspoken};
use serde_json::Value;

/// Files of a collector, a service and its clients, and the fingerprint of the collection.
struct Scene(tempfile::TempDir, String);

impl Scene {
    /// A collection of at least 3 and at most 40 contributions.
    fn new() -> Self {
        let mut scene = Scene(tempfile::tempdir().unwrap(), String::new());
        let columns = ["--column", "visits=60", "--column", "change=-6..6"];
        let options = ["sums", "create", "--most", "40", "--least", "3"];
        let said = text(&unspoken(&[&options[..], &columns, &[&scene.text("survey")]].concat()));
        assert!(said.contains("preset      n12_exact17, ") && said.contains("--offer sums="), "{said}");
        let fingerprint = said.lines().find_map(|line| line.strip_prefix("fingerprint "));
        scene.1 = fingerprint.unwrap().trim().to_owned();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn serve(&self) -> Service {
        let (offer, data) = (format!("sums={}", self.text("survey.public")), self.text("data"));
        Service::start(&["--offer", &offer, "--data-dir", &data, "--workers", "1"], Stdio::null())
    }

    /// A command to the service, as a client with a state of this name.
    fn run(&self, service: &Service, command: &str, client: &str, rest: &[&str]) -> Output {
        let state = self.text(client);
        unspoken(&[&["sums", command, "--url", &service.url, "--state-dir", &state], rest].concat())
    }

    fn send(&self, service: &Service, client: &str, rest: &[&str]) -> Output {
        self.run(service, "send", client, &[&["--fingerprint", &self.1], rest].concat())
    }

    fn collect(&self, service: &Service, command: &str, rest: &[&str]) -> Output {
        let private = self.text("survey.private");
        self.run(service, command, "collector", &[&["--private", &private], rest].concat())
    }
}

#[test]
fn a_collector_gets_the_sums_of_what_clients_send() {
    let scene = Scene::new();
    let mode = |name: &str| scene.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("survey.private"), 0o600);
    let again = ["sums", "create", "--most", "9", "--least", "2", "--column", "a=1", &scene.text("survey")];
    assert!(complaint(&unspoken(&again)).contains("exists; without it, what was sent to its collection is lost"));

    let service = scene.serve();
    text(&scene.send(&service, "anna", &["visits=7", "change=-1"]));
    text(&scene.send(&service, "bert", &["change=2", "visits=0"]));
    let early = complaint(&scene.collect(&service, "fetch", &[]));
    assert!(early.contains("found 2 contributions, needed 3") && early.contains("wait for more"), "{early}");
    assert!(!early.contains("description"), "{early}");

    // Rows of a file, sent twice: with --resume each counts once. The pool is kept between runs.
    let rows: String = (0..20).map(|i| format!("{}, clinic {i}, {}\n", i % 5 - 2, 3 * i)).collect();
    std::fs::write(scene.path("rows.csv"), format!("change,name,visits\n{rows}")).unwrap();
    let [rows, pool, resume] = ["rows.csv", "pool", "resume"].map(|name| scene.text(name));
    let many = ["--csv", &rows, "--pool", &pool, "--pool-entries", "24", "--resume", &resume];
    let said = text(&scene.send(&service, "clinic", &many));
    assert!(said.contains("sent        20 contributions") && said.contains("pool        24 encryptions"), "{said}");
    assert_eq!((mode("pool"), mode("pool.key"), mode("resume")), (0o600, 0o600, 0o600));
    drop(service);
    // The state outlives the service.
    let service = scene.serve();
    let said = text(&scene.send(&service, "clinic", &many));
    assert!(said.contains("repeated    20 of them") && said.contains("pool        20 encryptions"), "{said}");
    // From memory, without --pool.
    std::fs::write(scene.path("more.csv"), "visits,change\n1,1\n2,1\n").unwrap();
    text(&scene.send(&service, "clinic", &["--csv", &scene.text("more.csv")]));

    assert_eq!(text(&scene.collect(&service, "count", &[])), "24\n");
    let fetched = text(&scene.collect(&service, "fetch", &["--json"]));
    let sums: Value = serde_json::from_str(&fetched).unwrap();
    let visits = (0..20).map(|i| 3 * i).sum::<i64>() + 7 + 1 + 2;
    assert_eq!((&sums["contributions"], &sums["columns"][0]["sum"]), (&24.into(), &visits.into()));
    assert_eq!((&sums["columns"][1]["name"], &sums["columns"][1]["sum"]), (&"change".into(), &3.into()));
    let table = text(&scene.collect(&service, "fetch", &[]));
    assert!(table.starts_with("contributions  24\n") && table.contains("change"), "{table}");
    let late = complaint(&scene.send(&service, "anna", &["visits=1", "change=0"]));
    assert!(late.contains("found a closed collection") && late.contains("0 of 1 rows were added"), "{late}");
    assert!(late.contains("ask the collector for another collection") && !late.contains("description"), "{late}");
    // More rows than there is room for.
    std::fs::write(scene.path("late.csv"), "visits,change\n1,1\n2,1\n").unwrap();
    let late = complaint(&scene.send(&service, "clinic", &["--csv", &scene.text("late.csv")]));
    assert!(late.contains("0 of 2 rows were added, and no other") && !late.contains("may have been"), "{late}");
    // What the service stored has no secret, and nobody else may read it.
    assert_eq!((mode("survey.state"), mode("survey.state/ids")), (0o700, 0o600));
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_sent() {
    let scene = Scene::new();
    let service = scene.serve();
    let refused = |rest: &[&str]| complaint(&scene.send(&service, "anna", rest));
    for (values, part) in [
        (&["visits=61", "change=0"][..], "the value of 'visits' is out of range, needed 0 to 60; nothing was sent"),
        (&["visits=1"], "change is missing; give each of visits, change"),
        (&["visits=1", "falls=2"], "the collection has no column falls"),
        (&["visits=1", "visits=2", "change=0"], "visits is given twice"),
    ] {
        let error = refused(values);
        assert!(error.contains(part), "{error}");
    }
    for (rows, part) in [
        ("visits\n1\n", "has no column change; its first line must name visits, change"),
        ("visits,change,visits\n1,1,2\n", "columns 1 and 3 are both called visits"),
        ("visits,change\n1,1\n1,x\n", "row 2 has no integer in column change"),
        ("visits,change\n1,1\n1,7\n", "row 2: encrypt a contribution: the value of 'change' is out of range"),
        ("visits,change\n", "has no rows below its first line"),
    ] {
        std::fs::write(scene.path("rows.csv"), rows).unwrap();
        let error = refused(&["--csv", &scene.text("rows.csv")]);
        assert!(error.contains(part), "{error}");
    }
    // Whom a contributor trusts is never the default.
    let values = ["visits=1", "change=0"];
    let error = complaint(&scene.run(&service, "send", "anna", &values));
    assert!(error.contains("found no --fingerprint; needed the one that the collector tells"), "{error}");
    let both = scene.send(&service, "anna", &["visits=1", "change=0", "--trust-first"]);
    let error = String::from_utf8_lossy(&both.stderr);
    assert!(both.status.code() == Some(2) && error.contains("cannot be used with"), "{error}");
    let other = ["visits=1", "change=0", "--fingerprint", &"00".repeat(32)];
    let error = complaint(&scene.run(&service, "send", "anna", &other));
    assert!(error.contains("which this client was given; do not send anything to this service"), "{error}");
    assert_eq!(text(&scene.collect(&service, "count", &[])), "0\n");
    // The first collection is trusted only on request, and named before anything is sent.
    let first = scene.run(&service, "send", "berta", &["visits=1", "change=0", "--trust-first"]);
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains(&format!("collection  {}, on the word of the service", scene.1)), "{said}");
    text(&first);

    // The private file of another collection.
    let other = Scene::new();
    let private = other.text("survey.private");
    let error = complaint(&scene.run(&service, "count", "other", &["--private", &private]));
    assert!(error.contains("to which this private file belongs"), "{error}");
    // The wrong half of a collection.
    let error = complaint(&scene.run(&service, "count", "other", &["--private", &scene.text("survey.public")]));
    assert!(error.contains("found a public file, needed the private one of the collection"), "{error}");
    let offer = format!("sums={}", scene.text("survey.private"));
    let error = complaint(&unspoken(&["serve", "--listen", "127.0.0.1:0", "--offer", &offer]));
    assert!(error.contains("found a private file, needed the public one"), "{error}");
    // The state of another collection.
    drop(service);
    let offer = format!("sums={},state={}", other.text("survey.public"), scene.text("survey.state"));
    let error = complaint(&unspoken(&["serve", "--listen", "127.0.0.1:0", "--offer", &offer]));
    assert!(error.contains("found the state of another collection"), "{error}");
}
