//! Tests of `unspoken serve --database` and `unspoken get` at secure parameters.

mod support;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Service, complaint, text, unspoken};
use unspoken_client::transport::{Cancel, Error, Transport, TransportConfig};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_database::{Builder, Record, Writer};
use unspoken_pir::{KEY_FORMAT, Mode, PirSecret, Preset};
use unspoken_retrieve::{Question, RetrieveClient, RetrieveOptions};
use unspoken_ring::SecretRng;

static GO: AtomicBool = AtomicBool::new(false);

/// The codes of a catalogue and their meanings: texts of 0 to 299 bytes.
fn codes() -> impl Iterator<Item = Record> {
    (0..300).map(|i| Record { key: Some(code(i).into()), value: meaning(i).into() })
}

fn code(i: usize) -> String {
    format!("C{i:03}")
}

fn meaning(i: usize) -> String {
    (0..i).map(|at| char::from(b'a' + ((at * at + i) % 26) as u8)).collect()
}

fn build(preset: Preset, directory: &Path, records: impl Iterator<Item = Record>) {
    Builder::new(preset).build(directory, records.map(Ok::<_, Infallible>), |_| {}, &GO).unwrap();
}

/// Two databases, one by key and one by index, and the state of a client that queries them.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { directory: tempfile::tempdir().unwrap() };
        build(Preset::N11, &scene.path("codes"), codes());
        let images = (0..20u8).map(|i| Record { key: None, value: vec![0xf0 ^ i; 700] });
        build(Preset::N11, &scene.path("images"), images);
        scene
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Serves both, the first under an explicit name.
    fn serve(&self, listen: &str) -> Service {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let (named, images, keys) =
            (format!("icd/codes={}", self.text("codes")), self.text("images"), self.text("keys"));
        let arguments = ["--database", &named, "--database", &images, "--data-dir", &keys, "--listen", listen];
        Service::start(&arguments, log)
    }

    fn get(&self, service: &Service, application: &str, what: &[&str]) -> Output {
        let state = self.text("state");
        let target = ["get", "--url", &service.url, "--app", application, "--state-dir", &state];
        unspoken(&[&target[..], what].concat())
    }
}

#[test]
fn records_are_found_by_key_and_by_index() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let get = |what: &[&str]| scene.get(&service, "icd/codes", what);

    // By key, an empty record included. The records are in the order of the arguments.
    let found = text(&get(&["C042", "C000", "C299", "--usage"]));
    assert_eq!(found, format!("{}\n\n{}\n", meaning(42), meaning(299)));
    let line: Value = serde_json::from_str(&text(&get(&["C007", "--json"]))).unwrap();
    assert_eq!((&line["key"], &line["found"]), (&"C007".into(), &true.into()), "{line}");
    assert_eq!(line["record"], meaning(7), "{line}");

    // Absent keys do not affect the other answers.
    let absent = get(&["C299", "X99", "C300"]);
    assert_eq!(String::from_utf8_lossy(&absent.stdout), format!("{}\n", meaning(299)));
    assert!(complaint(&absent).ends_with("error: no such key: X99, no such key: C300\n"));
    let absent = get(&["--json", "X99"]);
    let line: Value = serde_json::from_slice(&absent.stdout).unwrap();
    assert_eq!((&line["found"], line.get("record"), absent.status.code()), (&false.into(), None, Some(1)), "{line}");
    assert!(complaint(&get(&["--index", "1"])).contains("read by key"));

    // By index, as bytes.
    let get = |what: &[&str]| scene.get(&service, "pir/images", what);
    let out = scene.text("record");
    text(&get(&["--index", "3", "--out", &out]));
    assert_eq!(std::fs::read(&out).unwrap(), [0xf3; 700]);
    let lines = text(&get(&["--index", "19,0", "--json"]));
    let hex: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&hex[0]["record_hex"], &hex[1]["index"]), (&"e3".repeat(700).into(), &0.into()), "{lines}");
    let beyond = complaint(&get(&["--index", "20"]));
    assert!(beyond.contains("position 0 is out of range") && beyond.contains("20 records"), "{beyond}");

    // The log names databases and versions, but no queried key.
    let log = std::fs::read_to_string(scene.path("log")).unwrap();
    assert!(log.contains("icd/codes") && log.contains("pir/images") && log.contains("version"), "{log}");
    assert!(!log.contains("C299") && !log.contains("X99"), "{log}");
}

#[test]
fn changes_are_served_while_the_service_runs_and_keys_outlive_it() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let ask = |service: &Service, key: &str| -> Value {
        serde_json::from_slice(&scene.get(service, "icd/codes", &[key, "--json"]).stdout).unwrap()
    };
    let before = ask(&service, "C001");
    assert_eq!(before["record"], meaning(1));
    let mut writer = Writer::open(scene.path("codes")).unwrap();
    writer.put(b"C001", b"changed").unwrap();
    writer.put(b"new", b"added").unwrap();
    writer.delete(b"C002").unwrap();
    writer.commit().unwrap();
    let start = Instant::now();
    let after = loop {
        let answer = ask(&service, "C001");
        if answer["version"] != before["version"] {
            break answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the change is not served: {answer}");
    };
    assert_eq!(after["record"], "changed");
    assert_eq!(ask(&service, "new")["record"], "added");
    assert_eq!(ask(&service, "C002")["found"], false);
    assert_eq!(ask(&service, "C003")["record"], meaning(3));

    // A restarted service still has the client's keys, also after a compaction.
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    drop(service);
    writer.compact(|_| {}, &GO).unwrap();
    let service = scene.serve(&address);
    let again = scene.get(&service, "icd/codes", &["new", "--usage"]);
    assert_eq!(text(&again), "added\n");
    let usage = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(usage.contains("keys        at the service already"), "{usage}");
}

/// A client in this process that stays connected.
fn client(scene: &Scene, service: &Service, application: &str, mode: Mode) -> ServiceClient<RetrieveClient> {
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let state = StateDir::open(&scene.path("state"), &service.url, application).unwrap();
    let options = RetrieveOptions::new(mode, state.clone());
    ServiceClient::connect(transport, application, options, &state, &mut |_| {}, &Cancel::new()).unwrap()
}

fn get(client: &mut ServiceClient<RetrieveClient>, key: &str) -> Option<Vec<u8>> {
    let answers = client.ask(&[Question::Key(key.into())], &mut |_| {}, &Cancel::new()).unwrap();
    answers[0].record.as_ref().map(|record| record.to_vec())
}

#[test]
fn every_answer_is_of_one_version() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let mut client = client(&scene, &service, "icd/codes", Mode::Packed);
    let stop = AtomicBool::new(false);
    let versions = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each version writes its number to two records.
            let mut writer = Writer::open(scene.path("codes")).unwrap();
            for _ in (0..3000).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let number = (writer.version() + 1).to_string();
                writer.put(b"C010", number.as_bytes()).unwrap();
                writer.put(b"C290", number.as_bytes()).unwrap();
                assert_eq!(writer.commit().unwrap().to_string(), number);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let questions = ["C010", "C290"].map(|key| Question::Key(key.into()));
        let (start, mut versions) = (Instant::now(), BTreeSet::new());
        while versions.len() < 4 && start.elapsed() < Duration::from_secs(60) {
            let answers = client.ask(&questions, &mut |_| {}, &Cancel::new()).unwrap();
            let [first, second] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!(first.version, second.version);
            if first.version > 1 {
                let number = first.version.to_string();
                for answer in [first, second] {
                    assert_eq!(answer.record.as_deref().map(Vec::as_slice), Some(number.as_bytes()));
                }
            }
            versions.insert(first.version);
        }
        stop.store(true, Ordering::Relaxed);
        versions
    });
    assert!(versions.len() >= 4, "{versions:?}");
}

#[test]
fn a_client_outlives_a_rebuilt_database() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let mut clients = [Mode::Packed, Mode::Bits].map(|mode| client(&scene, &service, "icd/codes", mode));
    for client in &mut clients {
        assert_eq!(get(client, "C005"), Some(meaning(5).into()));
    }
    // Ten times as many records, in another layout; the service is restarted.
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    drop(service);
    let records = (0..3000).map(|i| Record { key: Some(code(i).into()), value: format!("rebuilt {i}").into() });
    let rebuilt = Builder { replace: true, ..Builder::new(Preset::N11) };
    rebuilt.build(scene.path("codes"), records.map(Ok::<_, Infallible>), |_| {}, &GO).unwrap();
    let _service = scene.serve(&address);
    for client in &mut clients {
        let before = client.usage().key_bytes;
        assert_eq!(get(client, "C2718"), Some(b"rebuilt 2718".into()));
        assert_eq!(client.usage().key_bytes, before, "keys do not depend on the database");
    }
}

#[test]
fn all_kinds_of_queries_find_the_records() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    // A key has two candidates, hence two queries.
    let kinds =
        [("packed", 26_000..32_000), ("bits", 64..200), ("compact", 72..73), ("session", 12..13), ("session", 12..13)];
    for (query, bytes) in kinds {
        let found = scene.get(&service, "icd/codes", &["C123", "--query", query, "--usage"]);
        assert_eq!(text(&found), format!("{}\n", meaning(123)), "{query}");
        let usage = String::from_utf8_lossy(&found.stderr).into_owned();
        let sent = usage.lines().find_map(|line| line.strip_prefix("query")?.trim().strip_suffix(" bytes"));
        assert!(bytes.contains(&sent.unwrap().parse().unwrap()), "{query}: {usage}");
    }
    let nothing = complaint(&scene.get(&service, "icd/codes", &[]));
    assert!(nothing.contains("give keys"), "{nothing}");
    let unknown = unspoken(&["get", "--url", &service.url, "--query", "fast", "C1"]);
    let unknown = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.contains("compact, session, bits or packed"), "{unknown}");
}

#[test]
fn a_service_goes_on_when_the_database_is_damaged() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let manifest = scene.path("codes").join("manifest.json");
    let sound = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &sound[..sound.len() / 2]).unwrap();
    let start = Instant::now();
    while !std::fs::read_to_string(scene.path("log")).unwrap().contains("cannot take up the database's changes") {
        assert!(start.elapsed() < Duration::from_secs(60), "the damage was not noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(text(&scene.get(&service, "icd/codes", &["C021"])), format!("{}\n", meaning(21)));
    std::fs::write(&manifest, sound).unwrap();
    let mut writer = Writer::open(scene.path("codes")).unwrap();
    writer.put(b"C021", b"mended").unwrap();
    writer.commit().unwrap();
    let start = Instant::now();
    while text(&scene.get(&service, "icd/codes", &["C021"])) != "mended\n" {
        assert!(start.elapsed() < Duration::from_secs(60), "the change is not served");
    }
}

#[test]
fn keys_of_another_preset_and_damaged_databases_are_refused() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let other = Preset::InsecureN11.build().unwrap();
    let mut rng = SecretRng::insecure_from_seed(5);
    let mut keys = Vec::new();
    let secret = PirSecret::generate(&other, &mut rng).unwrap();
    secret.keys(Mode::Packed, &mut rng).unwrap().write(&mut keys).unwrap();
    let mut keys = std::io::Cursor::new(keys);
    let refused = transport.upload_keys("icd/codes", KEY_FORMAT, &mut keys, |_| {}, &Cancel::new()).unwrap_err();
    assert!(matches!(&refused, Error::Refused(_)) && refused.to_string().contains("other parameters"), "{refused}");

    let directory = scene.text("codes");
    let twice = complaint(&unspoken(&["serve", "--database", &directory, "--database", &directory]));
    assert!(twice.contains("two offers are called pir/codes"), "{twice}");
    let name = complaint(&unspoken(&["serve", "--database", &format!("Big Codes={directory}")]));
    assert!(name.contains("NAME=DIR"), "{name}");
    let nowhere = complaint(&unspoken(&["serve", "--database", "/nowhere"]));
    assert!(nowhere.contains("no database in /nowhere"), "{nowhere}");
    build(Preset::InsecureN11, &scene.path("weak"), codes());
    let weak = complaint(&unspoken(&["serve", "--database", &scene.text("weak")]));
    assert!(weak.contains("is for tests"), "{weak}");

    let table = std::fs::read_dir(scene.path("images")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.to_str().unwrap().contains("table-")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    drop(service);
    std::fs::write(&table, bytes).unwrap();
    let damaged = complaint(&unspoken(&["serve", "--database", &scene.text("images")]));
    assert!(damaged.contains("corrupted: table-"), "{damaged}");
}
