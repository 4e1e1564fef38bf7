//! Tests of `unspoken serve --pir` and `unspoken pir get` at secure parameters.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Service, complaint, text, unspoken};
use serde_json::Value;
use unspoken_client::transport::{Cancel, Error, Transport, TransportConfig};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_database::{Builder, Record, Writer};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::{KEY_FORMAT, Mode, PirSecret, Preset, TableKind};
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
        let arguments = ["--pir", &named, "--pir", &images, "--data-dir", &keys, "--listen", listen];
        Service::start(&arguments, log)
    }

    fn get(&self, service: &Service, application: &str, what: &[&str]) -> Output {
        let state = self.text("state");
        let target = ["pir", "get", "--url", &service.url, "--app", application, "--state-dir", &state];
        unspoken(&[&target[..], what].concat())
    }
}

#[test]
fn records_are_found_in_dense_tables_by_many_clients() {
    let scene = Scene { directory: tempfile::tempdir().unwrap() };
    let dense = |directory: &Path| {
        let builder = Builder { tables: TableKind::Dense, replace: true, ..Builder::new(Preset::N11) };
        builder.build(directory, codes().map(Ok::<_, Infallible>), |_| {}, &GO).unwrap();
    };
    dense(&scene.path("codes"));
    build(Preset::N11, &scene.path("images"), (0..20u8).map(|i| Record { key: None, value: vec![i; 700] }));
    let service = scene.serve("127.0.0.1:0");
    let said = text(&scene.get(&service, "icd/codes", &["C042", "C299", "--usage"]));
    assert_eq!(said, format!("{}\n{}\n", meaning(42), meaning(299)));
    // The keys of packed queries serve the other database too.
    let usage = scene.get(&service, "pir/images", &["--index", "3", "--out", &scene.text("image"), "--usage"]);
    let usage = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.contains("keys") && !usage.contains("2703936"), "{usage}");
    assert_eq!(std::fs::read(scene.path("image")).unwrap(), [3; 700]);
    let refused = complaint(&scene.get(&service, "icd/codes", &["C042", "--query", "compact"]));
    assert!(refused.contains("packed: the database has dense tables"), "{refused}");
    // Clients of their own, at the same time, while the database changes.
    let mut writer = Writer::open(scene.path("codes")).unwrap();
    std::thread::scope(|scope| {
        let client = |number: usize| {
            let (scene, service) = (&scene, &service);
            move || {
                let state = scene.text(&format!("state {number}"));
                let target = ["pir", "get", "--url", &service.url, "--app", "icd/codes", "--state-dir", &state];
                for i in [number, number + 10] {
                    assert_eq!(text(&unspoken(&[&target[..], &[&code(i)]].concat())), format!("{}\n", meaning(i)));
                }
            }
        };
        (0..6).for_each(|number| _ = scope.spawn(client(number)));
        writer.put(b"C200", b"changed").unwrap();
        writer.commit().unwrap();
    });
    let started = Instant::now();
    while text(&scene.get(&service, "icd/codes", &["C200"])) != "changed\n" {
        assert!(started.elapsed() < Duration::from_secs(30), "the change is not served");
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

    // Absent keys have lines too, so that the lines match the keys.
    let absent = get(&["X99", "C299", "C000", "C300"]);
    assert_eq!(String::from_utf8_lossy(&absent.stdout), format!("(absent)\n{}\n\n(absent)\n", meaning(299)));
    assert!(complaint(&absent).ends_with("error: no such key: X99, no such key: C300\n"));
    let absent = get(&["X99", "C002", "--absent", "-"]);
    assert_eq!((absent.stdout.as_slice(), absent.status.code()), (format!("-\n{}\n", meaning(2)).as_bytes(), Some(1)));
    let absent = get(&["--json", "X99", "C000"]);
    let said = String::from_utf8_lossy(&absent.stdout).into_owned();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: Vec<_> = lines.iter().map(|line| (&line["key"], &line["found"], line.get("record"))).collect();
    let (x99, c000) = ("X99".into(), "C000".into());
    let expected = [(&x99, &false.into(), Some(&Value::Null)), (&c000, &true.into(), Some(&"".into()))];
    assert_eq!((records.as_slice(), absent.status.code()), (&expected[..], Some(1)), "{said}");
    assert!(complaint(&get(&["--index", "1"])).contains("read by key"));

    // By index, as bytes.
    let get = |what: &[&str]| scene.get(&service, "pir/images", what);
    let out = scene.text("record");
    text(&get(&["--index", "3", "--out", &out]));
    assert_eq!(std::fs::read(&out).unwrap(), [0xf3; 700]);
    // The file is checked before anything is sent.
    let exists = complaint(&get(&["--index", "4", "--out", &out, "--usage"]));
    assert!(exists.contains("exists") && exists.contains("--force") && !exists.contains("query "), "{exists}");
    assert_eq!(std::fs::read(&out).unwrap(), [0xf3; 700]);
    text(&get(&["--index", "4", "--out", &out, "--force"]));
    assert_eq!(std::fs::read(&out).unwrap(), [0xf4; 700]);
    let nowhere = complaint(&get(&["--index", "4", "--out", "/nowhere/record", "--usage"]));
    assert!(nowhere.contains("--out: cannot write /nowhere/record") && !nowhere.contains("query "), "{nowhere}");
    let missing = scene.text("missing");
    complaint(&scene.get(&service, "icd/codes", &["X99", "--out", &missing]));
    assert!(!Path::new(&missing).exists());
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
fn client(scene: &Scene, service: &Service, application: &str, mode: Mode) -> ServiceClient<PirClient> {
    let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
    let state = StateDir::open(&scene.path("state"), &service.url, application).unwrap();
    let options = PirOptions::new(mode, state.clone());
    ServiceClient::connect(transport, application, options, &state, &mut |_| {}, &Cancel::new()).unwrap()
}

fn get(client: &mut ServiceClient<PirClient>, key: &str) -> Option<Vec<u8>> {
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
    // Ten times the number of records, in another layout; the service is restarted.
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
fn a_running_service_takes_up_a_replaced_database() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    let mut codes = client(&scene, &service, "icd/codes", Mode::Packed);
    let mut images = client(&scene, &service, "pir/images", Mode::Packed);
    assert_eq!(get(&mut codes, "C005"), Some(meaning(5).into()));
    let replace = |name: &str, records: Vec<Record>| {
        let builder = Builder { replace: true, ..Builder::new(Preset::N11) };
        builder.build(scene.path(name), records.into_iter().map(Ok::<_, Infallible>), |_| {}, &GO).unwrap()
    };
    let until = |what: &str, mut done: Box<dyn FnMut() -> bool + '_>| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what} is not served");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let index = |client: &mut ServiceClient<PirClient>, index: u64| {
        let answers = client.ask(&[Question::Index(index)], &mut |_| {}, &Cancel::new()).unwrap();
        answers[0].record.as_ref().map(|record| record.to_vec())
    };

    // The same layout.
    replace("images", (0..20u8).map(|i| Record { key: None, value: vec![i; 700] }).collect());
    until("the replacement", Box::new(|| index(&mut images, 3) == Some(vec![3; 700])));
    // More and longer records, by index: a connected client reads the new layout, with its keys of before.
    let before = images.usage().key_bytes;
    replace("images", (0..2000u32).map(|i| Record { key: None, value: vec![i as u8; 900] }).collect());
    until("the new layout", Box::new(|| index(&mut images, 3) == Some(vec![3; 900])));
    assert_eq!((index(&mut images, 1999), images.usage().key_bytes), (Some(vec![207; 900]), before));
    // By key the layout is always another one.
    let rebuilt = (0..3000).map(|i| Record { key: Some(code(i).into()), value: format!("rebuilt {i}").into() });
    let version = replace("codes", rebuilt.collect()).version;
    until("the new layout", Box::new(|| get(&mut codes, "C2718") == Some(b"rebuilt 2718".into())));
    assert_eq!(service.ready(), (200, "ready\n".into()));

    // Later changes are served too, to connected clients and to new ones.
    let codes_text = scene.text("codes");
    text(&unspoken(&["pir", "put", &codes_text, "C0001", "after"]));
    until("the change", Box::new(|| get(&mut codes, "C0001") == Some(b"after".into())));
    let line: Value = serde_json::from_str(&text(&scene.get(&service, "icd/codes", &["C0001", "--json"]))).unwrap();
    assert_eq!((&line["record"], &line["version"]), (&"after".into(), &(version + 1).into()));
    // A smaller database by index is refused by a client that knows the larger one.
    replace("images", (0..10u8).map(|i| Record { key: None, value: vec![i; 900] }).collect());
    until(
        "the smaller database",
        Box::new(|| {
            let asked = images.ask(&[Question::Index(3)], &mut |_| {}, &Cancel::new());
            asked.is_err_and(|error| error.to_string().contains("do not trust this service"))
        }),
    );
}

#[test]
fn a_database_that_was_built_anew_elsewhere_is_not_served_as_the_old_one() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    assert_eq!(text(&scene.get(&service, "icd/codes", &["C021"])), format!("{}\n", meaning(21)));
    std::fs::rename(scene.path("codes"), scene.path("old")).unwrap();
    build(Preset::N11, &scene.path("codes"), codes().take(100));
    let start = Instant::now();
    let reason = loop {
        let (status, text) = service.ready();
        if status == 503 && text.contains("replaced") {
            break text;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{status} {text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(reason.starts_with("icd/codes: ") && reason.contains("restart of the service"), "{reason}");
    let refused = complaint(&scene.get(&service, "icd/codes", &["C021"]));
    assert!(refused.contains("does_not_fit") && refused.contains("restart of the service"), "{refused}");
    // The other application is not affected, and the old database is served again once it is back.
    text(&scene.get(&service, "pir/images", &["--index", "3", "--json"]));
    std::fs::remove_dir_all(scene.path("codes")).unwrap();
    std::fs::rename(scene.path("old"), scene.path("codes")).unwrap();
    let start = Instant::now();
    while service.ready().0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(text(&scene.get(&service, "icd/codes", &["C021"])), format!("{}\n", meaning(21)));
}

#[test]
fn all_kinds_of_queries_find_the_records() {
    let scene = Scene::new();
    let service = scene.serve("127.0.0.1:0");
    // A key has two candidates, hence two queries.
    let kinds =
        [("packed", 300..400), ("bits", 64..200), ("compact", 80..81), ("session", 20..21), ("session", 20..21)];
    for (query, bytes) in kinds {
        let found = scene.get(&service, "icd/codes", &["C123", "--query", query, "--usage"]);
        assert_eq!(text(&found), format!("{}\n", meaning(123)), "{query}");
        let usage = String::from_utf8_lossy(&found.stderr).into_owned();
        let sent = usage.lines().find_map(|line| line.strip_prefix("query")?.trim().strip_suffix(" bytes"));
        assert!(bytes.contains(&sent.unwrap().parse().unwrap()), "{query}: {usage}");
    }
    let nothing = complaint(&scene.get(&service, "icd/codes", &[]));
    assert!(nothing.contains("give keys"), "{nothing}");
    let unknown = unspoken(&["pir", "get", "--url", &service.url, "--query", "fast", "C1"]);
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
    while !std::fs::read_to_string(scene.path("log")).unwrap().contains("cannot take up changes") {
        assert!(start.elapsed() < Duration::from_secs(60), "the damage was not noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, reason) = service.ready();
    assert!(
        status == 503 && reason.starts_with("icd/codes: version of the database: found an earlier one"),
        "{reason}"
    );
    assert_eq!(text(&scene.get(&service, "icd/codes", &["C021"])), format!("{}\n", meaning(21)));
    std::fs::write(&manifest, sound).unwrap();
    let mut writer = Writer::open(scene.path("codes")).unwrap();
    writer.put(b"C021", b"mended").unwrap();
    writer.commit().unwrap();
    let start = Instant::now();
    while text(&scene.get(&service, "icd/codes", &["C021"])) != "mended\n" {
        assert!(start.elapsed() < Duration::from_secs(60), "the change is not served");
    }
    assert_eq!(service.ready().0, 200);
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
    let twice = complaint(&unspoken(&["serve", "--pir", &directory, "--pir", &directory]));
    assert!(twice.contains("two offers are called pir/codes"), "{twice}");
    let name = complaint(&unspoken(&["serve", "--pir", &format!("Big Codes={directory}")]));
    assert!(name.contains("NAME=DIR"), "{name}");
    let nowhere = complaint(&unspoken(&["serve", "--pir", "/nowhere"]));
    assert!(nowhere.contains("no database in /nowhere"), "{nowhere}");
    build(Preset::InsecureN11, &scene.path("weak"), codes());
    let weak = complaint(&unspoken(&["serve", "--pir", &scene.text("weak")]));
    assert!(weak.contains("is for tests"), "{weak}");

    let table = std::fs::read_dir(scene.path("images")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.to_str().unwrap().contains("table-")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    drop(service);
    std::fs::write(&table, bytes).unwrap();
    let damaged = complaint(&unspoken(&["serve", "--pir", &scene.text("images")]));
    assert!(damaged.contains("corrupted: table-"), "{damaged}");
}

/// The owner of encrypted records, who uploads and reads them, and the service that stores them.
struct EncryptedScene {
    scene: Scene,
}

impl EncryptedScene {
    /// A database at home, which is not uploaded yet.
    fn new() -> Self {
        let scene = Scene { directory: tempfile::tempdir().unwrap() };
        let home = Builder { tables: TableKind::Encrypted, ..Builder::new(Preset::N11) };
        home.build(scene.path("home"), codes().map(Ok::<_, Infallible>), |_| {}, &GO).unwrap();
        EncryptedScene { scene }
    }

    /// Declares the database to a service at an address, which does not need to run, and accepts it.
    fn declare(&self, url: &str) {
        let (home, state) = (self.scene.text("home"), self.scene.text("state"));
        let (declaration, store) = (self.scene.text("declaration"), self.scene.text("store"));
        let target = ["--url", url, "--application", "pir/codes", "--state-dir", &state];
        text(&unspoken(&[&["pir", "declare", &home, "--out", &declaration][..], &target].concat()));
        let small = complaint(&unspoken(&["pir", "accept", &declaration, &store, "--most", "1"]));
        assert!(small.contains("--most MB"), "{small}");
        text(&unspoken(&["pir", "accept", &declaration, &store]));
        assert!(complaint(&unspoken(&["pir", "accept", &declaration, &store])).contains("is there already"));
    }

    fn serve(&self, listen: &str) -> Service {
        let log = File::options().create(true).append(true).open(self.scene.path("log")).unwrap();
        let (offer, keys) = (format!("pir-encrypted:pir/codes={}", self.scene.text("store")), self.scene.text("keys"));
        Service::start(&["--offer", &offer, "--data-dir", &keys, "--listen", listen], log)
    }

    fn upload(&self, url: &str, state: &str, what: &[&str]) -> Output {
        let (home, state) = (self.scene.text("home"), self.scene.text(state));
        let target = ["pir", "upload", &home, "--url", url, "--state-dir", &state];
        unspoken(&[&target[..], what].concat())
    }
}

#[test]
fn records_that_the_service_cannot_read_are_uploaded_changed_and_read() {
    let encrypted = EncryptedScene::new();
    let scene = &encrypted.scene;
    // A port that is free now, so that the declaration is for the address of the service.
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let url = format!("http://{listen}");
    encrypted.declare(&url);
    let service = encrypted.serve(&listen);
    let get = |what: &[&str]| scene.get(&service, "pir/codes", what);

    assert!(complaint(&get(&["C042"])).contains("not uploaded yet"));
    let said = text(&encrypted.upload(&url, "state", &[]));
    assert!(said.contains("version     2"), "{said}");
    assert_eq!(text(&get(&["C042", "C299"])), format!("{}\n{}\n", meaning(42), meaning(299)));
    assert_eq!(text(&get(&["C007", "--query", "compact"])), format!("{}\n", meaning(7)));
    assert!(complaint(&get(&["X99"])).contains("no such key: X99"));
    let said = text(&encrypted.upload(&url, "state", &[]));
    assert!(said.contains("version     2 still: no entry differs"), "{said}");

    // A change uploads few entries; other commands that change a database at home do as well.
    text(&unspoken(&["pir", "put", &scene.text("home"), "C042", "changed"]));
    let said = text(&encrypted.upload(&url, "state", &[]));
    assert!(said.contains("uploaded    1 entries") || said.contains("uploaded    2 entries"), "{said}");
    let line: Value = serde_json::from_str(&text(&get(&["C042", "--json"]))).unwrap();
    assert_eq!((&line["record"], &line["version"]), (&"changed".into(), &3.into()));

    // Others can neither read nor write.
    let target = ["pir", "get", "--url", &service.url, "--app", "pir/codes", "--state-dir", &scene.text("stranger")];
    let unreadable = complaint(&unspoken(&[&target[..], &["C042"]].concat()));
    assert!(unreadable.contains("unreadable"), "{unreadable}");
    let refused = complaint(&encrypted.upload(&url, "stranger", &[]));
    assert!(refused.contains("write key of an upload"), "{refused}");

    // The files have no record, and the log no key.
    drop(service);
    for file in std::fs::read_dir(scene.path("store")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(20).any(|window| window == &meaning(299).as_bytes()[..20]));
    }
    assert!(!std::fs::read_to_string(scene.path("log")).unwrap().contains("C042"));

    // After a restart, everything is there; an upload of all entries makes a version again.
    let service = encrypted.serve(&listen);
    let get = |what: &[&str]| scene.get(&service, "pir/codes", what);
    assert_eq!(text(&get(&["C042"])), "changed\n");
    assert!(text(&encrypted.upload(&url, "state", &["--all"])).contains("version     4"));
    assert_eq!(text(&get(&["C042", "C100"])), format!("changed\n{}\n", meaning(100)));
    // A service does not offer the owner's database, which is in plaintext.
    let plain = unspoken(&["serve", "--offer", &format!("pir:pir/codes={}", scene.text("home"))]);
    assert!(complaint(&plain).contains("in plaintext"));
}
