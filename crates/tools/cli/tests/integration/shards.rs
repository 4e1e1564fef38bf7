//! Tests of `unspoken pir shard`, `unspoken serve --pir-shard` and `unspoken serve --pir-router` at secure parameters.

use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::support::{Service, complaint, text, unspoken};
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_database::{Builder, Record, Writer};
use unspoken_pir_scheme::{Preset, TableKind};

static GO: AtomicBool = AtomicBool::new(false);

/// Records that fill three blocks of rows.
const RECORDS: usize = 4200;

fn record(i: usize) -> Vec<u8> {
    (0..2048).map(|at| (at * at + i * 7 + (i >> 8)) as u8).collect()
}

/// A database, its shards, and the state of a client.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { directory: tempfile::tempdir().unwrap() };
        let builder = Builder { tables: TableKind::Dense, ..Builder::new(Preset::N11) };
        let records = (0..RECORDS).map(|i| Ok::<_, Infallible>(Record { key: None, value: record(i) }));
        builder.build(scene.path("whole"), records, |_| {}, &GO).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn cut(&self, out: &str, more: &[&str]) -> String {
        let (whole, out) = (self.text("whole"), self.text(out));
        text(&unspoken(&[&["pir", "shard", &whole, "--of", "3", &out], more].concat()))
    }

    fn start(&self, arguments: &[&str], keys: &str, listen: &str) -> Service {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        Service::start(&[arguments, &["--data-dir", &self.text(keys), "--listen", listen]].concat(), log)
    }

    /// Serves a shard, with the keys of clients in a directory.
    fn shard(&self, directory: &str, keys: &str, listen: &str) -> Service {
        self.start(&["--pir-shard", &self.text(directory)], keys, listen)
    }

    /// Serves the database of some shards.
    fn router(&self, shards: &[Service]) -> Service {
        let entries = shards.iter().map(|shard| format!("[[shard]]\nurl = {:?}\n", shard.url));
        std::fs::write(self.path("shards.toml"), entries.collect::<String>()).unwrap();
        let offer = format!("pir-router:pir/codes={},patience=1", self.text("shards.toml"));
        self.start(&["--offer", &offer], "router keys", "127.0.0.1:0")
    }

    /// Asks the router for a record.
    fn get(&self, router: &Service, index: usize, more: &[&str]) -> std::process::Output {
        let (state, index, out) = (self.text("state"), index.to_string(), self.text("record"));
        let target =
            ["pir", "get", "--url", &router.url, "--state-dir", &state, "--index", &index, "--out", &out, "--force"];
        unspoken(&[&target[..], more].concat())
    }

    /// Asks until the record comes: a router takes up shards of a new version within seconds.
    fn comes(&self, router: &Service, index: usize, expected: &[u8]) {
        let started = Instant::now();
        loop {
            text(&self.get(router, index, &[]));
            if std::fs::read(self.path("record")).unwrap() == expected {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "record {index} does not come");
        }
    }
}

/// Address of a service that is stopped.
fn stopped(service: Service) -> String {
    service.url.strip_prefix("http://").unwrap().to_owned()
}

#[test]
fn a_router_serves_its_shards_as_one_database_through_restarts_and_new_versions() {
    let scene = Scene::new();
    let said = scene.cut("shards", &[]);
    assert!(said.contains("shard 3 of 3") && said.contains("cut         version 1 into 3 shards"), "{said}");
    let keys = |number: usize| format!("keys {number}");
    let directory = |of: &str, number: usize| format!("{of}/shard-{number}");
    let start = |number| scene.shard(&directory("shards", number), &keys(number), "127.0.0.1:0");
    let mut shards: Vec<Service> = (1..=3).map(start).collect();
    let router = scene.router(&shards);
    for index in [0, 2047, 2048, 4096, RECORDS - 1] {
        scene.comes(&router, index, &record(index));
    }
    let usage = scene.get(&router, 5, &["--usage"]);
    let usage = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.contains("keys        at the service already"), "{usage}");
    assert_eq!(router.ready(), (200, "ready\n".into()));
    // Clients see what the service of a whole database would describe.
    let whole = scene.start(&["--pir", &format!("pir/codes={}", scene.text("whole"))], "keys", "127.0.0.1:0");
    let describe = |service: &Service| {
        let transport = Transport::new(TransportConfig::new(&service.url)).unwrap();
        transport.describe("pir/codes", &Cancel::new()).unwrap().description
    };
    assert_eq!(describe(&router), describe(&whole));
    drop(whole);

    // A shard that is gone is named, whatever record is asked for.
    let address = stopped(shards.remove(1));
    for index in [0, 3000] {
        let error = complaint(&scene.get(&router, index, &["--timeout", "2"]));
        assert!(error.contains("shard 2 of 3 does not answer") && !error.contains(&address), "{error}");
    }
    let (status, reason) = router.ready();
    assert_eq!(status, 503);
    assert!(reason.starts_with("pir/codes: shard 2 of 3 does not answer"), "{reason}");
    // It comes back while a client waits, and has lost the keys of clients.
    let back = std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            scene.shard(&directory("shards", 2), "other keys", &address)
        });
        scene.comes(&router, 3000, &record(3000));
        back.join().unwrap()
    });
    shards.insert(1, back);

    // It is lost for good, written again, and served elsewhere: by a router that is restarted.
    std::fs::remove_dir_all(scene.path(&directory("shards", 2))).unwrap();
    drop(shards.remove(1));
    assert!(scene.cut("shards", &["--only", "2"]).contains("shard 2 of 3"));
    shards.insert(1, start(2));
    drop(router);
    let router = scene.router(&shards);
    scene.comes(&router, 2100, &record(2100));

    // A later version: nothing is answered until all shards have it.
    let mut writer = Writer::open(scene.path("whole")).unwrap();
    writer.set(7, &record(1000)).unwrap();
    writer.commit().unwrap();
    scene.cut("later", &[]);
    let mut later = Vec::new();
    for (number, shard) in (1..).zip(shards) {
        let address = stopped(shard);
        later.push(scene.shard(&directory("later", number), &keys(number), &address));
        if number == 2 {
            let error = complaint(&scene.get(&router, 7, &["--timeout", "2"]));
            assert!(error.contains("shard ") && error.contains("another version of the database"), "{error}");
            let (status, reason) = router.ready();
            assert!(status == 503 && reason.contains("of 3: found version 1 of the database"), "{reason}");
        }
    }
    scene.comes(&router, 7, &record(1000));
    let log = std::fs::read_to_string(scene.path("log")).unwrap();
    assert!(log.contains(&address) && log.contains("later shards found"), "{log}");
}

#[test]
fn what_cannot_be_cut_or_routed_is_refused_with_the_reason() {
    let scene = Scene::new();
    let whole = scene.text("whole");
    let out = scene.text("out");
    let refused = |arguments: &[&str]| complaint(&unspoken(arguments));
    let error = refused(&["pir", "shard", &whole, "--of", "4", &out]);
    assert!(
        error.contains("cut a dense table: shards: found 4") && error.contains("at most 3 ranges of rows"),
        "{error}"
    );
    let error = refused(&["pir", "shard", &whole, "--of", "3", "--only", "4", &out]);
    assert!(error.contains("there is no shard 4; shards are numbered from 1 to 3"), "{error}");
    scene.cut("out", &["--only", "1"]);
    let shard = scene.text("out/shard-1");
    let error = refused(&["pir", "shard", &whole, "--of", "3", "--only", "1", &out]);
    assert!(error.contains("is there already"), "{error}");
    let error = refused(&["pir", "set", &shard, "3", "a record"]);
    assert!(error.contains("shard 1 of 3 of a database, needed a whole database"), "{error}");
    let serve = |arguments: &[&str]| {
        let (keys, always) = (scene.text("keys"), ["--listen", "127.0.0.1:0", "--data-dir"]);
        refused(&[&["serve"], arguments, &always[..], &[&keys]].concat())
    };
    assert!(serve(&["--pir", &shard]).contains("shard 1 of 3 of a database, needed a whole database"));
    assert!(serve(&["--pir-shard", &whole]).contains("is a whole database, needed a shard"));
    let file = scene.text("shards.toml");
    std::fs::write(&file, "[[shard]]\nurl = \"http://127.0.0.1:1\"\n").unwrap();
    let error = serve(&["--pir-router", &file, "--pir-shard", &shard]);
    assert!(error.contains("is a router and pir-shard/shard-1 has data"), "{error}");
    let error = serve(&["--offer", &format!("pir-router={file},patience=0.2")]);
    assert!(error.contains("cannot use the shard at http://127.0.0.1:1") && error.contains("refused"), "{error}");
    std::fs::write(&file, "[[shard]]\naddress = \"http://127.0.0.1:1\"\n").unwrap();
    assert!(serve(&["--pir-router", &file]).contains("unknown field"));
    assert!(serve(&["--offer", &format!("pir-router={file},patience=0")]).contains("option patience is 0"));
}
