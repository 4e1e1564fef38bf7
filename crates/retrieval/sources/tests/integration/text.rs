//! Tests of CSV, TSV, JSON lines and folders as sources.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use unspoken_sources::{Kind, MAX_RECORD_BYTES, Record, Source, SourceError, SourceSpec};

fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    (directory, path)
}

fn spec(path: &Path, key: &str, values: &[&str]) -> SourceSpec {
    let mut spec = SourceSpec::guess(path).unwrap();
    spec.key_column = (!key.is_empty()).then(|| key.to_owned());
    spec.value_columns = values.iter().map(|&name| name.to_owned()).collect();
    spec
}

fn read(path: &Path, key: &str, values: &[&str]) -> Result<Vec<Record>, SourceError> {
    Source::open(&spec(path, key, values))?.collect()
}

fn complaint(path: &Path, key: &str, values: &[&str]) -> String {
    let message = read(path, key, values).unwrap_err().to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    message
}

fn record(key: impl Into<Option<&'static str>>, value: &str) -> Record {
    Record { key: key.into().map(|key| key.as_bytes().to_vec()), value: value.into(), beside: None }
}

#[test]
fn columns_of_csv_become_records() {
    let (_directory, path) = file("a.CSV", "\u{feff}code,title,n\r\nA00,\"Chol\"\"era,\nred\",1\r\n\r\nA01,,2\r\n");
    let one = read(&path, "code", &["title"]).unwrap();
    assert_eq!(one, [record("A00", "Chol\"era,\nred"), record("A01", "")]);
    let several = read(&path, "code", &["n", "title"]).unwrap();
    assert_eq!(several[0], record("A00", r#"{"n":"1","title":"Chol\"era,\nred"}"#));
    assert_eq!(read(&path, "code", &[]).unwrap()[1], record("A01", r#"{"title":"","n":"2"}"#));
    assert_eq!(read(&path, "", &["n"]).unwrap(), [record(None, "1"), record(None, "2")]);
    // The value may include the key.
    assert_eq!(read(&path, "code", &["code", "n"]).unwrap()[1], record("A01", r#"{"code":"A01","n":"2"}"#));
}

#[test]
fn a_column_beside_the_value_is_read_with_it() {
    for (name, text) in [
        ("a.csv", "k,v,text\nA,\"[1,2.5]\",one\n"),
        ("a.tsv", "k\tv\ttext\nA\t[1,2.5]\tone\n"),
        ("a.jsonl", "{\"k\":\"A\",\"v\":[1,2.5],\"text\":\"one\"}\n"),
        ("a.json", "[{\"k\":\"A\",\"v\":[1, 2.5],\"text\":\"one\"}]"),
    ] {
        let (_directory, path) = file(name, text);
        let beside = SourceSpec { beside: Some("v".into()), ..spec(&path, "k", &["text"]) };
        let found: Vec<Record> = Source::open(&beside).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, [Record { beside: Some("[1,2.5]".into()), ..record("A", "one") }], "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = SourceSpec { beside: Some("v".into()), ..spec(folder.path(), "", &[]) };
    assert!(Source::open(&refused).err().unwrap().to_string().contains("columns"));
}

#[test]
fn a_column_of_keys_alone_has_empty_records() {
    let (_directory, path) = file("a.csv", "name\nann\nbob\n");
    assert_eq!(read(&path, "name", &[]).unwrap(), [record("ann", ""), record("bob", "")]);
}

#[test]
fn tsv_knows_no_quotes() {
    let (_directory, path) = file("a.tsv", "k\tv\na\t\"open\nb\t2\n");
    assert_eq!(read(&path, "k", &[]).unwrap(), [record("a", "\"open"), record("b", "2")]);
}

#[test]
fn mistakes_in_csv_are_named() {
    let (_directory, path) = file("a.csv", "k,v,v\na,1,2\nb,1\n");
    let message = complaint(&path, "code", &[]);
    assert!(message.contains(r#"the columns "k", "v", "v", needed "code""#), "{message}");
    assert!(complaint(&path, "k", &["v"]).contains("more than one column \"v\""));
    let message = complaint(&path, "k", &[]);
    assert!(message.contains("line 3: found 2 fields, needed 3"), "{message}");

    let (_directory, path) = file("b.csv", "k,v\n\"a\",1\n,2\n");
    assert!(complaint(&path, "k", &[]).contains("line 3: found an empty key"));
    let (_directory, path) = file("c.csv", "");
    assert!(complaint(&path, "", &[]).contains("an empty file"));
}

#[test]
fn text_of_another_encoding_is_refused_or_decoded() {
    // An e with an acute accent, in Windows-1252: in a key, a value, a value among others, and a name.
    let cases = [
        (&b"k,v\na,1\ncaf\xe9,2\n"[..], &["v"][..], "line 3: found bytes that are not UTF-8 in column \"k\""),
        (b"k,v\na,1\nb,caf\xe9\n", &["v"], "line 3: found bytes that are not UTF-8 in column \"v\""),
        (b"k,v,w\na,caf\xe9,2\n", &[], "line 2: found bytes that are not UTF-8 in column \"v\""),
        (b"k,pr\xe9nom\na,1\n", &[], "line 1: found bytes that are not UTF-8 in column \"pr\u{fffd}nom\""),
    ];
    for (content, values, found) in cases {
        let (_directory, path) = file("a.csv", content);
        let message = complaint(&path, "k", values);
        assert!(message.contains(found) && message.contains("--encoding"), "{message}");
        let spec = SourceSpec { encoding: Some("Latin1".into()), ..spec(&path, "k", values) };
        let records: Vec<Record> = Source::open(&spec).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(records.iter().all(|record| std::str::from_utf8(&record.value).is_ok()));
        if content.starts_with(b"k,v\n") {
            let last = records.last().unwrap();
            assert!([last.key.as_deref().unwrap(), &last.value].contains(&"café".as_bytes()), "{last:?}");
        }
    }
    // Columns that are not used may have other bytes.
    let (_directory, path) = file("a.csv", b"k,v,w\na,1,\xe9\n");
    assert_eq!(read(&path, "k", &["v"]).unwrap(), [record("a", "1")]);
    let refused = |kind: SourceSpec| Source::open(&kind).err().unwrap().to_string();
    for name in ["utf-16", "iso-2022-jp", "nonsense"] {
        let message = refused(SourceSpec { encoding: Some(name.into()), ..spec(&path, "k", &[]) });
        assert!(message.contains(&format!("found the encoding {name:?}")), "{message}");
    }
    let (_directory, path) = file("a.jsonl", "{}");
    let message = refused(SourceSpec { encoding: Some("utf-8".into()), ..spec(&path, "", &[]) });
    assert!(message.contains("found an encoding for a file of JSON lines"), "{message}");
}

#[test]
fn lines_of_csv_are_counted_whatever_ends_them() {
    for (end, other) in [("\n", "\r\n"), ("\r\n", "\n")] {
        // The line of the record without a key: after records, blank lines, ends of two kinds, and fields with ends.
        let cases = [
            (format!("k,v{end}a,1{end},2{end}"), 3),
            (format!("k,v{end}{end}{end}a,1{end}{end}{end}{end},2{end}"), 8),
            (format!("k,v{end}a,1{other}{end}b,1{end},2"), 5),
            (format!("k,v{end}a,\"1{end}{end}{other}\"{end}b,1{end},2{end}"), 7),
            (format!("\u{feff}k,v{end},2{end}"), 2),
            // More than the reader's buffer, in blank lines and in records.
            (format!("k,v{end}a,1{end}{},2{end}", end.repeat(70_000)), 70_003),
            (format!("k,v{end}{},2{end}", format!("abc,1234{end}").repeat(30_000)), 30_002),
        ];
        for (content, line) in cases {
            let (_directory, path) = file("a.csv", &content);
            let message = complaint(&path, "k", &[]);
            assert!(message.contains(&format!("line {line}: found an empty key")), "{end:?} {line}: {message}");
            let (_directory, path) = file("b.csv", content.replace(",2", "x"));
            let message = complaint(&path, "k", &[]);
            assert!(message.contains(&format!("line {line}: found 1 fields")), "{end:?} {line}: {message}");
        }
    }
}

#[test]
fn an_error_ends_a_source() {
    let (_directory, path) = file("a.csv", "k\n1\n,\n3\n");
    let mut source = Source::open(&spec(&path, "k", &[])).unwrap();
    assert!(source.next().unwrap().is_ok());
    assert!(source.next().unwrap().is_err());
    assert!(source.next().is_none());
}

#[test]
fn json_lines_stay_as_they_are_written() {
    let lines = "\u{feff} {\"id\": \"a\", \"n\": 1.50, \"deep\": {\"x\": [1,  2]}, \"t\": \"\\u00e9\"} \
                 \n\n{\"id\":7,\"n\":null}\r\n";
    let (_directory, path) = file("a.jsonl", lines);
    let whole = read(&path, "id", &[]).unwrap();
    assert_eq!(whole[0].value, lines.lines().next().unwrap().trim_start_matches('\u{feff}').trim().as_bytes());
    assert_eq!(whole[1], record("7", "{\"id\":7,\"n\":null}"));
    assert_eq!(read(&path, "", &["n"]).unwrap(), [record(None, "1.50"), record(None, "")]);
    assert_eq!(read(&path, "id", &["n", "id"]).unwrap()[1], record("7", r#"{"n":null,"id":7}"#));
    let message = complaint(&path, "id", &["deep"]);
    assert!(message.contains(r#"line 3: found the members "id", "n", needed "deep""#), "{message}");

    let (_directory, path) = file("b.jsonl", "{\"k\":\"é\",\"v\":\"\\u00e9\\n\"}\n");
    assert_eq!(read(&path, "k", &["v"]).unwrap(), [record("é", "é\n")]);
}

#[test]
fn mistakes_in_json_lines_are_named() {
    for (content, found) in [
        ("{\"k\":1}\n[1]\n", "line 2: found"),
        ("{\"k\":1}\n{\"k\":\n", "line 2: found EOF"),
        ("{\"k\":1} {\"k\":2}\n", "line 1: found trailing characters"),
        ("{\"k\":null}\n", "found no key"),
        ("{\"k\":[1]}\n", "found a list or an object as key"),
        ("{\"k\":\"\"}\n", "found an empty key"),
        ("{\"k\":\"\\ud800\"}\n", "line 1: found"),
        ("{\"j\":1}\n", "found the members \"j\", needed \"k\""),
    ] {
        let (_directory, path) = file("a.ndjson", content);
        let message = complaint(&path, "k", &[]);
        assert!(message.contains(found), "{content}: {message}");
    }
    let (_directory, path) = file("a.jsonl", "[".repeat(100_000));
    assert!(complaint(&path, "", &[]).contains("line 1"));
}

#[test]
fn elements_of_a_json_array_become_records() {
    let array = "\u{feff} \n[ {\"id\": \"a\", \"n\": 1.50, \"t\": \" x \\\" [1, 2] \\\\\" , \"deep\": [ 1,\n {} ]},\n\
                 {\"id\":7,\"n\":null}\r\n ] \n";
    // Whatever the name, unless it says another kind.
    for name in ["a.json", "records", "a.txt"] {
        let (_directory, path) = file(name, array);
        let whole = read(&path, "id", &[]).unwrap();
        let first = "{\"id\":\"a\",\"n\":1.50,\"t\":\" x \\\" [1, 2] \\\\\",\"deep\":[1,{}]}";
        assert_eq!(whole, [record("a", first), record("7", "{\"id\":7,\"n\":null}")]);
        assert_eq!(read(&path, "", &["n"]).unwrap(), [record(None, "1.50"), record(None, "")]);
    }
    let (_directory, path) = file("a.json", "[]");
    assert_eq!(read(&path, "", &[]).unwrap(), []);
    let (_directory, path) = file("a.json", "{\"k\":1}\n{\"k\":2}\n");
    assert_eq!(SourceSpec::guess(&path).unwrap().kind, Kind::JsonLines);
    // Many records are read on demand.
    let many: Vec<String> = (0..50_000).map(|i| format!("{{\"k\": {i}}}")).collect();
    let (_directory, path) = file("a.json", format!("[{}]", many.join(",\n")));
    assert_eq!(Source::open(&spec(&path, "k", &[])).unwrap().take(3).count(), 3);
    let records = read(&path, "k", &["k"]).unwrap();
    assert_eq!((records.len(), &records[49_999]), (50_000, &record("49999", "49999")));
}

#[test]
fn mistakes_in_a_json_array_are_named() {
    for (content, found) in [
        ("[{\"k\":1},\n[1]]", "record 2: found invalid type: sequence"),
        ("[{\"k\":1},{\"k\":", "record 2: found EOF"),
        ("[{\"k\":1}\n{\"k\":2}]", "record 2: found expected `,` or `]` at line 2 column 1"),
        ("[{\"k\":1}] x", "record 2: found trailing characters"),
        ("[{\"k\":1},{\"j\":1}]", "record 2: found the members \"j\", needed \"k\""),
        ("[{\"k\":{}}]", "record 1: found a list or an object as key"),
        ("[{\"k\":\"\\ud800\"}]", "record 1: found"),
    ] {
        let (_directory, path) = file("a.json", content);
        let message = complaint(&path, "k", &[]);
        assert!(message.contains(found), "{content}: {message}");
    }
    let (_directory, path) = file("a.json", "[".repeat(100_000));
    assert!(complaint(&path, "", &[]).contains("record 1: found"));
    // An array that is said to be JSON lines, and JSON lines that are said to be an array.
    let (_directory, path) = file("a.jsonl", "[\n{\"k\":1}\n]\n");
    assert!(complaint(&path, "k", &[]).contains("line 1: found an array, needed one JSON object; for a file"));
    assert!(complaint(&path, "k", &[]).contains("--kind json"));
    let (_directory, path) = file("a.jsonl", "{\"k\":1}\n{\"k\":2}\n");
    let array = SourceSpec { kind: Kind::JsonArray, ..spec(&path, "k", &[]) };
    let message = Source::open(&array).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(message.contains("expected an array of objects (for an object on each line: --kind jsonl)"), "{message}");
}

#[test]
fn records_that_are_too_long_are_refused() {
    let long = "x".repeat(MAX_RECORD_BYTES);
    let (_directory, path) = file("a.csv", format!("v,w\n{long},\n{long}x,\n"));
    let mut source = Source::open(&spec(&path, "", &["v"])).unwrap();
    assert_eq!(source.next().unwrap().unwrap().value.len(), MAX_RECORD_BYTES);
    let message = source.next().unwrap().unwrap_err().to_string();
    assert!(message.contains("line 3: found a record of 16777217 bytes"), "{message}");
    // An unclosed quotation mark, and a line without an end.
    let (_directory, path) = file("b.csv", format!("v\n1\n\"{}", "x,".repeat(3 * MAX_RECORD_BYTES)));
    assert!(complaint(&path, "", &[]).contains("line 3: found a record of more than 67108864 bytes"));
    let (_directory, path) = file("b.jsonl", format!("{{}}\n{}", " ".repeat(5 * MAX_RECORD_BYTES)));
    assert!(complaint(&path, "", &[]).contains("line 2: found a record of more than 67108864 bytes"));
    let (_directory, path) = file("b.json", format!("[{{}}, {}", " ".repeat(5 * MAX_RECORD_BYTES)));
    assert!(complaint(&path, "", &[]).contains("record 2: found a record of more than 67108864 bytes"));
    let (directory, _) = file("c", format!("{long}x"));
    assert!(read(directory.path(), "", &[]).unwrap_err().to_string().contains("more than 16777216 bytes"));
}

#[test]
fn a_folder_is_read_in_the_order_of_names() {
    let (directory, path) = file("b", "B");
    std::fs::create_dir_all(directory.path().join("a/deep")).unwrap();
    std::fs::write(directory.path().join("a/deep/z.txt"), "").unwrap();
    std::fs::write(directory.path().join("a.txt"), b"\0\xff").unwrap();
    let records = read(directory.path(), "", &[]).unwrap();
    let bytes = Record { key: Some(b"a.txt".to_vec()), value: b"\0\xff".to_vec(), beside: None };
    assert_eq!(records, [bytes, record("a/deep/z.txt", ""), record("b", "B")]);
    let spec = SourceSpec::guess(directory.path()).unwrap();
    assert!(spec.has_keys());
    assert_eq!(Source::open(&spec).unwrap().len_hint(), Some(3));
    let refused = read(directory.path(), "k", &[]).unwrap_err().to_string();
    assert!(refused.contains("found columns for a folder"), "{refused}");
    std::fs::remove_file(&path).unwrap();
    let mut source = Source::open(&spec).unwrap();
    std::fs::remove_file(directory.path().join("a.txt")).unwrap();
    assert!(matches!(source.next(), Some(Err(SourceError::Io { .. }))));
}

#[test]
fn hidden_files_are_records_only_on_request() {
    let (directory, _) = file("a.html", "A");
    for folder in [".git", "sub/.cache"] {
        std::fs::create_dir_all(directory.path().join(folder)).unwrap();
    }
    for secret in [".env", ".git/config", "sub/.DS_Store", "sub/.cache/x"] {
        std::fs::write(directory.path().join(secret), "secret").unwrap();
    }
    std::fs::write(directory.path().join("sub/b.html"), "B").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(".env", directory.path().join("shown")).unwrap();
    let mut spec = SourceSpec::guess(directory.path()).unwrap();
    let source = Source::open(&spec).unwrap();
    let files = source.files().unwrap().clone();
    assert_eq!(files.taken, ["a.html", "sub/b.html"]);
    let mut hidden = vec![".env", ".git", "sub/.DS_Store", "sub/.cache"];
    // A link to a hidden file does not publish it either.
    #[cfg(unix)]
    hidden.insert(2, "shown");
    assert_eq!(files.left_out, hidden);
    let records: Vec<Record> = source.collect::<Result<_, _>>().unwrap();
    assert_eq!(records, [record("a.html", "A"), record("sub/b.html", "B")]);

    spec.hidden = true;
    let source = Source::open(&spec).unwrap();
    assert!(source.files().unwrap().left_out.is_empty());
    let keys: Vec<Vec<u8>> = source.map(|record| record.unwrap().key.unwrap()).collect();
    assert!(keys.contains(&b".git/config".to_vec()) && keys.contains(&b".env".to_vec()), "{keys:?}");

    let (directory, _) = file(".env", "secret");
    let message = read(directory.path(), "", &[]).unwrap_err().to_string();
    assert!(message.contains("hidden files only") && message.contains("--hidden"), "{message}");
    let (_directory, path) = file("a.csv", "k\n1\n");
    let csv = SourceSpec { hidden: true, ..self::spec(&path, "", &[]) };
    assert!(Source::open(&csv).err().unwrap().to_string().contains("found hidden files for a CSV file"));
}

#[cfg(unix)]
#[test]
fn names_that_are_not_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;

    let (directory, _) = file("a", "A");
    std::fs::write(directory.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    let message = read(directory.path(), "", &[]).unwrap_err().to_string();
    assert!(message.contains("a name that is not UTF-8"), "{message}");
}

#[cfg(unix)]
#[test]
fn links_lead_to_files_inside() {
    use std::os::unix::fs::symlink;

    let (outside, secret) = file("secret", "s");
    let (directory, _) = file("a", "A");
    let link = directory.path().join("b");
    symlink("a", &link).unwrap();
    assert_eq!(read(directory.path(), "", &[]).unwrap(), [record("a", "A"), record("b", "A")]);
    for target in [secret.as_path(), outside.path(), directory.path()] {
        std::fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        let message = read(directory.path(), "", &[]).unwrap_err().to_string();
        assert!(message.contains("a link that leads elsewhere"), "{message}");
    }
    std::fs::remove_file(&link).unwrap();
    symlink("nothing", &link).unwrap();
    assert!(matches!(read(directory.path(), "", &[]), Err(SourceError::Io { .. })));
}

#[test]
fn kinds_follow_from_names() {
    let (directory, _) = file("a", "");
    for (name, kind) in [("a.csv", Kind::Csv), ("b.db", Kind::Sqlite), ("c.pq", Kind::Parquet), ("d.tab", Kind::Tsv)] {
        let path = directory.path().join(name);
        std::fs::write(&path, "").unwrap();
        assert_eq!(SourceSpec::guess(path).unwrap().kind, kind);
    }
    let message = SourceSpec::guess(directory.path().join("a")).unwrap_err().to_string();
    assert!(message.contains(".jsonl") && message.contains("found the ending \"\""), "{message}");
    assert!(matches!(SourceSpec::guess("/nowhere.csv"), Err(SourceError::Io { .. })));
    let mut spec = spec(&directory.path().join("a.csv"), "", &[]);
    spec.table = Some("t".into());
    assert!(Source::open(&spec).err().unwrap().to_string().contains("found a table for a CSV file"));
}
