//! Tests of `unspoken pir` at secure parameters.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use unspoken_database::Database;

const RECORDS: usize = 300;

fn unspoken(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unspoken")).args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = unspoken(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn complaint(arguments: &[&str]) -> String {
    let output = unspoken(arguments);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn info(database: &str) -> Value {
    serde_json::from_str(&text(&["pir", "info", database, "--json"])).unwrap()
}

/// Codes with titles of different lengths.
fn codes() -> String {
    let line = |i: usize| format!("C{i:03},title {}\n", "x".repeat(i % 50));
    format!("code,title\n{}", (0..RECORDS).map(line).collect::<String>())
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

fn get(database: &str, key: &str) -> Option<String> {
    let record = Database::open(database).unwrap().snapshot().get(key.as_bytes()).unwrap();
    record.map(|record| String::from_utf8(record).unwrap())
}

#[test]
fn a_database_by_key_is_built_and_changed() {
    let files = Files::new();
    let (csv, database) = (files.write("codes.csv", &codes()), files.path("codes.pir"));
    let said = text(&["pir", "build", "--from", &csv, "--key", "code", &database]);
    for part in ["records     300\n", "by     key, in 2", "planes      1,", "per byte of data", "serve --pir"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let built = info(&database);
    assert_eq!(
        (&built["records"], &built["version"], &built["planes"]),
        (&300.into(), &1.into(), &1.into()),
        "{built}"
    );
    assert_eq!((&built["layout"]["keys"]["candidates"], &built["preset"]), (&2.into(), &"n11_pir256".into()));
    let questions = &built["questions"];
    assert_eq!(questions["compact"]["query_bytes"], 2 * 36, "{questions}");
    for mode in ["compact", "session", "bits", "packed"] {
        assert!(questions[mode]["key_bytes"].as_u64().unwrap() > 1 << 20, "{questions}");
        assert!(questions[mode]["answer_bytes"].as_u64().unwrap() <= 2 * 2048, "{questions}");
        assert!(questions[mode]["log2_failure"].as_f64().unwrap() < -39.0, "{questions}");
    }
    let table = text(&["pir", "info", &database]);
    assert!(table.contains("table-") && table.contains("packed") && table.contains("2 for a key"), "{table}");
    assert_eq!(get(&database, "C299"), Some(format!("title {}", "x".repeat(49))));
    assert_eq!(get(&database, "C300"), None);

    let said = text(&["pir", "put", &database, "C299", "new"]);
    assert!(said.contains("changed     1\n") && said.contains("version     2"), "{said}");
    assert!(text(&["pir", "put", &database, "C299", "new"]).contains("version     2 still"));
    let lines = "{\"k\":\"C300\",\"v\":\"\"}\n{\"k\":\"C000\",\"v\":\"zero\"}\n";
    let changes = files.write("changes.jsonl", lines);
    let said = text(&["pir", "put", &database, "--from", &changes, "--key", "k", "--value", "v"]);
    assert!(said.contains("added       1\nchanged     1\n") && said.contains("version     3"), "{said}");
    assert!(text(&["pir", "delete", &database, "C001", "C002"]).contains("version     4"));
    let expected = [("C299", Some("new")), ("C300", Some("")), ("C000", Some("zero")), ("C001", None), ("C003", None)];
    for (key, value) in &expected[..4] {
        assert_eq!(get(&database, key).as_deref(), *value, "{key}");
    }
    let changed = info(&database);
    assert_eq!((&changed["records"], &changed["version"]), (&299.into(), &4.into()), "{changed}");
    assert!(changed["changed_entries"].as_u64().unwrap() > 0);
    text(&["pir", "verify", &database]);

    assert!(text(&["pir", "compact", &database]).contains("version 4, 299 records"));
    let compacted = info(&database);
    assert_eq!((&compacted["version"], &compacted["changed_entries"]), (&4.into(), &0.into()), "{compacted}");
    assert!(compacted["generation"].as_u64() > changed["generation"].as_u64());
    assert_eq!(get(&database, "C300").as_deref(), Some(""));

    // A refused change leaves the database as it is.
    assert!(complaint(&["pir", "delete", &database, "C003", "C999"]).contains("no such key: \"C999\""));
    assert!(complaint(&["pir", "set", &database, "3", "x"]).contains("read by key"));
    assert!(complaint(&["pir", "put", &database, "C003", &"x".repeat(5000)]).contains("does not fit"));
    assert!(complaint(&["pir", "put", &database, "C003"]).contains("VALUE"));
    let bad = files.write("bad.jsonl", "{\"k\":\"C003\",\"v\":\"y\"}\n{\"k\":\"C004\"}\n");
    let said = complaint(&["pir", "put", &database, "--from", &bad, "--key", "k", "--value", "v"]);
    assert!(said.contains("line 2: found the members \"k\", needed \"v\""), "{said}");
    assert!(complaint(&["pir", "put", &database, "--from", &bad]).contains("--key"));
    assert_eq!(info(&database)["version"], 4);
    assert_eq!(get(&database, "C003"), Some("title xxx".into()));
}

#[test]
fn a_database_by_index_is_built_and_changed() {
    let files = Files::new();
    let (csv, database) = (files.write("codes.csv", &codes()), files.path("by-index"));
    let build = ["pir", "build", "--from", &csv, "--value", "title", "--capacity", "400", &database];
    assert!(text(&build).contains("read by     index"));
    let built = info(&database);
    assert_eq!(
        built["layout"]["index"],
        serde_json::json!({ "records": 400, "length": { "variable": { "max": 55 } } })
    );
    assert_eq!(built["questions"]["compact"]["query_bytes"], 36, "{built}");
    assert!(text(&["pir", "set", &database, "7", "seven"]).contains("version     2"));
    assert!(text(&["pir", "delete", &database, "8"]).contains("version     3"));
    let more = files.write("more.tsv", "t\nlast\n");
    assert!(text(&["pir", "put", &database, "--from", &more]).contains("added       1\n"));
    let snapshot = Database::open(&database).unwrap().snapshot();
    let record = |index| snapshot.record(index).unwrap().map(|record| String::from_utf8(record).unwrap());
    assert_eq!((record(7), record(8), record(9)), (Some("seven".into()), None, Some("title xxxxxxxxx".into())));
    assert_eq!((snapshot.records(), record(300), record(301)), (301, Some("last".into()), None));
    assert!(complaint(&["pir", "set", &database, "400", "x"]).contains("out of range"));
    assert!(complaint(&["pir", "put", &database, "k", "v"]).contains("read by index"));
    assert!(complaint(&["pir", "delete", &database, "C001"]).contains("\"C001\" is none"));
    assert!(complaint(&["pir", "put", &database, "--from", &csv, "--key", "code"]).contains("leave out --key"));
    text(&["pir", "verify", &database]);
}

#[test]
fn kinds_of_tables_are_explained_and_built() {
    let files = Files::new();
    let (csv, database) = (files.write("codes.csv", &codes()), files.path("dense"));
    let explain = ["pir", "build", "--from", &csv, "--key", "code", "--explain"];
    let said = text(&explain);
    assert!(said.contains("dense") && said.contains("recommended  --tables transformed"), "{said}");
    let json: Value = serde_json::from_str(&text(&[&explain[..], &["--json", "--link", "1"]].concat())).unwrap();
    assert_eq!(json["choices"].as_array().unwrap().len(), 6, "{json}");
    assert!(complaint(&[&explain[..], &["--link", "0"]].concat()).contains("Mbit/s"));
    assert!(complaint(&["pir", "build", "--from", &csv]).contains("<DATABASE>"));

    let build = ["pir", "build", "--from", &csv, "--key", "code", "--value", "title", "--tables", "dense", &database];
    assert!(text(&build).contains("tables      dense"));
    let built = info(&database);
    assert_eq!((&built["tables"], built["questions"].as_object().unwrap().len()), (&"dense".into(), 1), "{built}");
    assert!(text(&["pir", "put", &database, "C007", "seven"]).contains("version     2"));
    text(&["pir", "compact", &database]);
    assert_eq!(get(&database, "C007"), Some("seven".into()));
    text(&["pir", "verify", &database]);
}

#[test]
fn a_folder_of_files_becomes_a_database() {
    let files = Files::new();
    let (folder, database) = (files.path("folder"), files.path("database"));
    std::fs::create_dir_all(Path::new(&folder).join("a")).unwrap();
    std::fs::write(Path::new(&folder).join("a/long.txt"), "y".repeat(100_000)).unwrap();
    std::fs::write(Path::new(&folder).join("empty"), "").unwrap();
    let said = text(&["pir", "build", "--from", &folder, "--candidates", "1", "--longest", "150000", &database]);
    assert!(said.contains("records     2\n") && said.contains("100000 bytes"), "{said}");
    assert_eq!(get(&database, "a/long.txt").map(|record| record.len()), Some(100_000));
    assert_eq!(get(&database, "empty").as_deref(), Some(""));
    // There is room for it whether or not both records share a bucket.
    text(&["pir", "put", &database, "a/long.txt", &"z".repeat(120_000)]);
    assert_eq!(get(&database, "a/long.txt").map(|record| record.len()), Some(120_000));
    assert_eq!(get(&database, "empty").as_deref(), Some(""));
}

#[test]
fn hidden_files_are_listed_and_taken_on_request_only() {
    let files = Files::new();
    let folder = files.path("folder");
    std::fs::create_dir_all(Path::new(&folder).join(".git")).unwrap();
    for name in ["index.html", ".env", ".git/config"] {
        std::fs::write(Path::new(&folder).join(name), name).unwrap();
    }
    let (shown, everything) = (files.path("shown"), files.path("everything"));
    let said = text(&["pir", "build", "--from", &folder, "--longest", "100", "--capacity", "9", &shown]);
    assert!(said.contains("files       1: index.html\n"), "{said}");
    assert!(said.contains("left out    2 hidden: .env, .git (--hidden takes hidden files)\n"), "{said}");
    assert_eq!((get(&shown, "index.html").as_deref(), get(&shown, ".env")), (Some("index.html"), None));
    let said = text(&["pir", "put", &shown, "--from", &folder]);
    assert!(said.contains("left out    2 hidden: .env, .git"), "{said}");
    let said = text(&["pir", "build", "--from", &folder, "--hidden", &everything]);
    assert!(said.contains("files       3: .env, .git/config, index.html\n") && !said.contains("left out"), "{said}");
    assert_eq!(get(&everything, ".git/config").as_deref(), Some(".git/config"));
}

#[test]
fn records_that_are_too_long_are_named() {
    let files = Files::new();
    let long = files.write("long.csv", &format!("code,title\nA,short\nB,{}\n", "x".repeat(1 << 20)));
    let said = complaint(&["pir", "build", "--from", &long, "--key", "code", &files.path("database")]);
    assert!(said.contains("record 1 with the key 'B' has 1048576 bytes, needed at most 10485"), "{said}");
    let key = files.path("secret.key");
    text(&["pir", "oprf-key", "--record-bytes", "60", &key]);
    let said =
        complaint(&["pir", "build", "--from", &long, "--key", "code", "--oprf-key", &key, &files.path("sealed")]);
    assert!(said.contains("record 1 of ") && said.contains("long.csv, key 'B'"), "{said}");
    assert!(said.contains("a record of 1048576 bytes does not fit: all records are padded to 60 bytes"), "{said}");

    let (short, database) = (files.write("short.csv", "code,title\nA,short\nB,other\n"), files.path("small"));
    text(&["pir", "build", "--from", &short, "--key", "code", &database]);
    let said = complaint(&["pir", "put", &database, "--from", &long, "--key", "code"]);
    assert!(said.contains("record 1 of ") && said.contains("long.csv, key 'B'; nothing was changed"), "{said}");
    assert!(said.contains("a record of 1048576 bytes does not fit"), "{said}");
}

#[test]
fn tables_of_another_encoding_are_refused_or_decoded() {
    let files = Files::new();
    let codes = files.path("codes.csv");
    std::fs::write(&codes, b"code,title\ncaf\xe9,a caf\xe9\n").unwrap();
    let (build, database) = (["pir", "build", "--from", &codes, "--key", "code"], files.path("database"));
    let said = complaint(&[&build[..], &[&database]].concat());
    assert!(said.contains("line 2: found bytes that are not UTF-8 in column \"code\""), "{said}");
    text(&[&build[..], &["--encoding", "windows-1252", &database]].concat());
    assert_eq!(get(&database, "café").as_deref(), Some("a café"));
}

#[test]
fn mistakes_and_damage_are_named() {
    let files = Files::new();
    let (csv, database) = (files.write("codes.csv", &codes()), files.path("database"));
    let build = ["pir", "build", "--from", &csv, &database];
    let wrong = complaint(&[&build[..], &["--key", "id"]].concat());
    assert!(wrong.contains(r#"found the columns "code", "title", needed "id""#), "{wrong}");
    assert!(complaint(&[&build[..], &["--candidates", "4"]].concat()).contains("1..=3"));
    assert!(complaint(&["pir", "info", &database]).contains("no database"));
    let nowhere = complaint(&["pir", "build", "--from", "/nowhere.csv", &database]);
    assert!(nowhere.contains("/nowhere.csv") && nowhere.matches("os error 2").count() == 1, "{nowhere}");

    let twice = files.write("twice.csv", &format!("{}C000,again\n", codes()));
    let replace = |from: &str, duplicates: &str| {
        let arguments = ["--from", from, "--key", "code", "--replace", "--duplicates", duplicates, &database];
        unspoken(&[&["pir", "build"], &arguments[..]].concat())
    };
    let refused = replace(&twice, "error");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'C000'") && !refused.status.success());
    for (duplicates, kept) in [("first", "title "), ("last", "again")] {
        let built = replace(&twice, duplicates);
        assert!(String::from_utf8_lossy(&built.stdout).contains("left out    1,"), "{built:?}");
        assert_eq!(get(&database, "C000").as_deref(), Some(kept));
    }
    assert!(complaint(&[&build[..], &["--key", "code"]].concat()).contains("is there already"));
    // A truncated file: the old database stays.
    let broken = files.write("broken.csv", "code,title\na,b\nc\n");
    let refused = replace(&broken, "error");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(said.matches("line 3: found 1 fields").count(), 1, "{said}");
    assert_eq!(get(&database, "C000").as_deref(), Some("again"));

    let table = std::fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.to_string_lossy().contains("table-")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let said = complaint(&["pir", "verify", &database]);
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    assert!(said.contains("corrupted") && said.contains(&name), "{said}");
}

#[test]
fn a_json_array_becomes_a_database() {
    let files = Files::new();
    let people =
        files.write("people.json", "[\n  {\"id\": 7, \"name\": \"Ann\"},\n  {\"id\": 8, \"name\": \"Bob\"}\n]\n");
    let database = files.path("people");
    text(&["pir", "build", "--from", &people, "--key", "id", &database]);
    assert_eq!(get(&database, "8").as_deref(), Some("{\"id\":8,\"name\":\"Bob\"}"));
    text(&["pir", "put", &database, "--from", &people, "--kind", "json", "--key", "name", "--value", "id"]);
    assert_eq!(get(&database, "Ann").as_deref(), Some("7"));
    let unknown = complaint(&["pir", "build", "--from", &files.write("a.txt", "x"), &files.path("other")]);
    assert!(unknown.contains("--kind"), "{unknown}");
}

#[test]
fn a_build_that_is_told_to_end_leaves_nothing() {
    let files = Files::new();
    // One record, and so much room that the build takes a second.
    let one = files.write("one.csv", &format!("v\n{}\n", "x".repeat(256)));
    let database = files.path("database");
    let names = || std::fs::read_dir(files.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    for signal in ["TERM", "INT", "KILL"] {
        assert_eq!(names().count(), 1, "{signal}");
        let build = Command::new(env!("CARGO_BIN_EXE_unspoken"))
            .args(["pir", "build", "--from", &one, "--capacity", "40000", &database])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while !names().any(|name| name.to_string_lossy().contains(".building-")) {
            assert!(start.elapsed() < Duration::from_secs(60), "the build does not begin");
        }
        let kill = Command::new("sh").args(["-c", &format!("kill -{signal} {}", build.id())]).status().unwrap();
        assert!(kill.success());
        let ended = build.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        if signal == "KILL" {
            assert_eq!(names().count(), 2, "a process that was killed removes nothing");
        } else {
            assert!(ended.status.code() == Some(1) && said.contains("cancelled; nothing was changed"), "{said}");
        }
    }
    // The next build does.
    text(&["pir", "build", "--from", &one, &database]);
    let mut names: Vec<_> = names().collect();
    names.sort();
    assert_eq!(names, ["database", "one.csv"]);
}

#[test]
fn a_journal_that_lost_its_tail_does_not_verify() {
    let files = Files::new();
    let (csv, database) = (files.write("codes.csv", &codes()), files.path("database"));
    text(&["pir", "build", "--from", &csv, "--key", "code", &database]);
    let journal = Path::new(&database).join("journal-1.log");
    text(&["pir", "put", &database, "C001", "one"]);
    let first = std::fs::read(&journal).unwrap();
    text(&["pir", "put", &database, "C001", "two"]);
    text(&["pir", "verify", &database]);
    std::fs::write(&journal, first).unwrap();
    for arguments in
        [&["pir", "verify", &database][..], &["pir", "info", &database], &["pir", "put", &database, "k", "v"]]
    {
        let said = complaint(arguments);
        assert!(said.contains("journal-1.log ends with version 2, but version 3 was committed"), "{said}");
    }
}
