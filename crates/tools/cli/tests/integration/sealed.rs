//! Sealed databases from the key to the opened record, at secure parameters.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::support::{Service, complaint, text, unspoken};

/// Files of an owner, a service and its clients.
struct Scene(tempfile::TempDir);

impl Scene {
    /// A database by key and one by index, sealed with one key.
    fn new() -> Self {
        let scene = Scene(tempfile::tempdir().unwrap());
        let lines: String = (0..200).map(|i| format!("C{i:03},meaning {i}\n")).collect();
        std::fs::write(scene.path("codes.csv"), format!("code,title\n{lines}")).unwrap();
        let (key, csv) = (scene.text("codes.key"), scene.text("codes.csv"));
        text(&unspoken(&["pir", "oprf-key", "--record-bytes", "60", &key]));
        let build = ["pir", "build", "--from", &csv, "--value", "title", "--oprf-key", &key];
        text(&unspoken(&[&build[..], &["--key", "code", &scene.text("codes")]].concat()));
        text(&unspoken(&[&build[..], &[&scene.text("numbers")]].concat()));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Serves both databases and their keys.
    fn serve(&self, evaluations: u32) -> Service {
        let [codes, numbers, key, data] = ["codes", "numbers", "codes.key", "data"].map(|name| self.text(name));
        let offer = format!("oprf={key},evaluations={evaluations},window=1000000");
        let arguments = ["--pir", &codes, "--pir", &numbers, "--offer", &offer, "--data-dir", &data, "--workers", "1"];
        Service::start(&arguments, Stdio::null())
    }

    /// What a client retrieves and opens.
    fn get(&self, service: &Service, application: &str, what: &[&str]) -> Output {
        let state = self.text("state");
        let target = ["pir", "get", "--url", &service.url, "--app", application, "--state-dir", &state];
        unspoken(&[&target[..], &["--oprf", "oprf/codes"], what].concat())
    }
}

#[test]
fn a_client_opens_what_it_asks_for() {
    let scene = Scene::new();
    let key = scene.path("codes.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = unspoken(&["pir", "oprf-key", "--record-bytes", "60", key.to_str().unwrap()]);
    assert!(complaint(&again).contains("exists; without it, the records that are sealed with it are lost"));
    // No record is in the cells as it is.
    let cells = std::fs::read(scene.path("codes/cells-1.bin")).unwrap();
    assert!(!cells.windows(7).any(|bytes| bytes == b"meaning"));

    let service = scene.serve(100);
    assert_eq!(text(&scene.get(&service, "pir/codes", &["C007", "C199"])), "meaning 7\nmeaning 199\n");
    let absent = scene.get(&service, "pir/codes", &["X99", "C001"]);
    assert_eq!(String::from_utf8_lossy(&absent.stdout), "(absent)\nmeaning 1\n");
    assert!(complaint(&absent).ends_with("error: no such key: X99\n"));
    assert_eq!(text(&scene.get(&service, "pir/numbers", &["--index", "7,0"])), "meaning 7\nmeaning 0\n");
    // Without the keys of records nothing is asked: sealed is not absent.
    let state = scene.text("state");
    for what in [&["--app", "pir/codes", "C007"][..], &["--app", "pir/numbers", "--index", "7"]] {
        let plain = unspoken(&[&["pir", "get", "--url", &service.url, "--state-dir", &state], what].concat());
        let said = complaint(&plain);
        assert!(said.contains("the records of the database are sealed") && said.contains("--oprf"), "{said}");
        assert!(plain.stdout.is_empty() && !said.contains("no such"), "{said}");
    }

    // Updates: one without the key, one with another, one too long.
    let (codes, numbers, key) = (scene.text("codes"), scene.text("numbers"), scene.text("codes.key"));
    let put = ["pir", "put", &codes, "C007", "unsealed"];
    assert!(complaint(&unspoken(&put)).contains("are sealed; name their key: --oprf-key"));
    let other = scene.text("other.key");
    text(&unspoken(&["pir", "oprf-key", "--record-bytes", "60", &other]));
    assert!(complaint(&unspoken(&[&put[..], &["--oprf-key", &other]].concat())).contains("sealed with another key"));
    assert!(text(&unspoken(&["pir", "info", &codes])).contains("sealed      yes"));
    text(&unspoken(&["pir", "put", &codes, "C007", "another meaning", "--oprf-key", &key]));
    text(&unspoken(&["pir", "delete", &codes, "C008", "--oprf-key", &key]));
    text(&unspoken(&["pir", "set", &numbers, "7", "another number", "--oprf-key", &key]));
    let long = unspoken(&["pir", "put", &codes, "C009", &"x".repeat(61), "--oprf-key", &key]);
    assert!(complaint(&long).contains("a record of 61 bytes does not fit: all records are padded to 60 bytes"));
    drop(service);
    let service = scene.serve(100);
    let changed = scene.get(&service, "pir/codes", &["C007", "C008"]);
    assert_eq!(String::from_utf8_lossy(&changed.stdout), "another meaning\n(absent)\n");
    assert_eq!(text(&scene.get(&service, "pir/numbers", &["--index", "7"])), "another number\n");
}

#[test]
fn a_service_counts_and_is_checked() {
    let scene = Scene::new();
    let service = scene.serve(3);
    text(&scene.get(&service, "pir/codes", &["C000", "C001"]));
    let refused = complaint(&scene.get(&service, "pir/codes", &["C002", "C003", "--timeout", "5"]));
    assert!(refused.contains("2 were asked for, more than this client has left of its 3 in 1000000 s"), "{refused}");
    text(&scene.get(&service, "pir/codes", &["C002"]));

    let other = complaint(&scene.get(&service, "pir/codes", &["C000", "--public-key", &"00".repeat(32)]));
    assert!(other.contains("public key of a sealed database: found another one, needed the one that this"), "{other}");
    drop(service);
    // With another key, labels are others and nothing opens. It is refused before anything is asked and counted.
    std::fs::remove_file(scene.path("codes.key")).unwrap();
    text(&unspoken(&["pir", "oprf-key", "--record-bytes", "60", &scene.text("codes.key")]));
    let service = scene.serve(3);
    for (application, what) in [("pir/codes", &["C000"][..]), ("pir/numbers", &["--index", "1"])] {
        let other = complaint(&scene.get(&service, application, what));
        assert!(other.contains("sealed with another key than that of the application that gives keys"), "{other}");
    }
}
