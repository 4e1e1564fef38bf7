//! Tests of SQLite and Parquet sources.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rusqlite::Connection;
use tempfile::TempDir;
use unspoken_sources::{Kind, MAX_RECORD_BYTES, Record, Source, SourceError, SourceSpec};

fn spec(path: &Path, key: &str, values: &[&str]) -> SourceSpec {
    let mut spec = SourceSpec::guess(path).unwrap();
    spec.key_column = (!key.is_empty()).then(|| key.to_owned());
    spec.value_columns = values.iter().map(|&name| name.to_owned()).collect();
    spec
}

fn read(spec: &SourceSpec) -> Result<Vec<Record>, SourceError> {
    Source::open(spec)?.collect()
}

fn record(key: impl Into<Option<&'static str>>, value: &str) -> Record {
    Record { key: key.into().map(|key| key.as_bytes().to_vec()), value: value.into(), beside: None }
}

fn sqlite(script: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sqlite");
    Connection::open(&path).unwrap().execute_batch(script).unwrap();
    (directory, path)
}

const SCRIPT: &str = "
    CREATE TABLE \"t \"\"x\" (id INTEGER, name TEXT, share REAL, data BLOB);
    INSERT INTO \"t \"\"x\" VALUES (3, 'drei', 0.5, x'00ff'), (1, 'eins', 2, NULL), (2, NULL, 9e999, x'');
    CREATE INDEX by_id ON \"t \"\"x\" (id);";

#[test]
fn rows_of_sqlite_come_in_their_order() {
    let (_directory, path) = sqlite(SCRIPT);
    let found = spec(&path, "id", &["name"]);
    assert_eq!(read(&found).unwrap(), [record("3", "drei"), record("1", "eins"), record("2", "")]);
    assert_eq!(Source::open(&found).unwrap().len_hint(), Some(3));
    // The order is not the order of the index that covers this column.
    let ids: Vec<Vec<u8>> = read(&spec(&path, "", &["id"])).unwrap().into_iter().map(|record| record.value).collect();
    assert_eq!(ids, [b"3", b"1", b"2"]);
    let objects = read(&spec(&path, "id", &[])).unwrap();
    assert_eq!(objects[0], record("3", r#"{"name":"drei","share":0.5,"data":"AP8="}"#));
    assert_eq!(objects[1], record("1", r#"{"name":"eins","share":2.0,"data":null}"#));
    assert_eq!(objects[2], record("2", r#"{"name":null,"share":"inf","data":""}"#));
    assert_eq!(read(&spec(&path, "id", &["data"])).unwrap()[0].value, b"\x00\xff");
}

#[test]
fn a_column_beside_the_value_comes_from_the_same_row() {
    let (_directory, path) = sqlite(
        "CREATE TABLE t (id INTEGER, name TEXT, v TEXT);
         INSERT INTO t VALUES (3, 'drei', '[0.5, 1]'), (1, 'eins', NULL);
         CREATE INDEX by_v ON t (v); CREATE VIEW other AS SELECT * FROM t;",
    );
    for table in ["t", "other"] {
        let beside = SourceSpec { beside: Some("v".into()), table: Some(table.into()), ..spec(&path, "id", &["name"]) };
        let with = |record: Record, beside: &str| Record { beside: Some(beside.into()), ..record };
        assert_eq!(read(&beside).unwrap(), [with(record("3", "drei"), "[0.5, 1]"), with(record("1", "eins"), "")]);
        // Without named values, it is none of them.
        let all = SourceSpec { value_columns: vec![], ..beside };
        assert_eq!(read(&all).unwrap()[0], with(record("3", "drei"), "[0.5, 1]"));
    }
    let missing = SourceSpec { beside: Some("w".into()), table: Some("t".into()), ..spec(&path, "id", &["name"]) };
    assert!(read(&missing).unwrap_err().to_string().contains("\"w\""));
}

#[test]
fn mistakes_with_sqlite_are_named() {
    let (_directory, path) = sqlite(SCRIPT);
    let message = read(&spec(&path, "key", &[])).unwrap_err().to_string();
    assert!(message.contains(r#"found the columns "id", "name", "share", "data", needed "key""#), "{message}");
    let message = read(&spec(&path, "name", &[])).unwrap_err().to_string();
    assert!(message.contains("row 3: found no key"), "{message}");
    let mut other = spec(&path, "", &[]);
    other.table = Some("t".into());
    let message = read(&other).unwrap_err().to_string();
    assert!(message.contains(r#"found the tables "t \"x", needed "t""#), "{message}");

    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE VIEW v AS SELECT id * 2 AS twice FROM \"t \"\"x\" ORDER BY id").unwrap();
    let message = read(&spec(&path, "", &[])).unwrap_err().to_string();
    assert!(message.contains("needed one, or a name"), "{message}");
    other.table = Some("v".into());
    assert_eq!(read(&other).unwrap(), [record(None, "2"), record(None, "4"), record(None, "6")]);

    std::fs::write(&path, "not a database, but long enough to be read as the header of one, if it were one".repeat(10))
        .unwrap();
    let message = read(&spec(&path, "", &[])).unwrap_err().to_string();
    assert!(message.contains("file is not a database"), "{message}");
    assert!(matches!(
        read(&SourceSpec { path: "/nowhere.db".into(), ..spec(&path, "", &[]) }),
        Err(SourceError::Io { .. })
    ));
}

#[test]
fn many_rows_are_read_as_they_are_asked_for() {
    let count = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)";
    let (_directory, path) = sqlite(&format!("CREATE TABLE t (i, v); {count} INSERT INTO t SELECT i, 'v' || i FROM c"));
    let found = spec(&path, "i", &[]);
    let records = read(&found).unwrap();
    assert_eq!(records.len(), 5000);
    assert!(records.iter().zip(1..).all(|(record, i)| record.value == format!("v{i}").as_bytes()));
    // Read only some records: the thread that reads ahead must end.
    assert_eq!(Source::open(&found).unwrap().take(3).count(), 3);
}

#[test]
fn blobs_that_are_too_long_are_refused() {
    let (_directory, path) = sqlite(&format!(
        "CREATE TABLE t (v); INSERT INTO t VALUES (zeroblob({MAX_RECORD_BYTES})), (zeroblob({}))",
        MAX_RECORD_BYTES + 1
    ));
    let mut source = Source::open(&spec(&path, "", &[])).unwrap();
    assert_eq!(source.next().unwrap().unwrap().value.len(), MAX_RECORD_BYTES);
    let message = source.next().unwrap().unwrap_err().to_string();
    assert!(message.contains("row 2: found a record of 16777217 bytes"), "{message}");
}

#[test]
fn text_of_sqlite_that_is_not_utf8_is_refused_with_its_row() {
    let (_directory, path) =
        sqlite("CREATE TABLE t (k, v); INSERT INTO t VALUES ('a', x'ff'), (CAST(x'636166e9' AS TEXT), 'b')");
    let message = read(&spec(&path, "k", &["v"])).unwrap_err().to_string();
    assert!(
        message.contains("row 2: found text that is not UTF-8 in column \"k\", needed UTF-8, or a BLOB"),
        "{message}"
    );
}

/// The names of the files in a folder.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_sqlite_file_with_an_empty_log_is_read_without_leaving_files() {
    let (directory, path) = sqlite("PRAGMA journal_mode=WAL; CREATE TABLE t (k); INSERT INTO t VALUES ('a')");
    // Its name needs quoting in an address.
    let odd = directory.path().join("a b?c%23#é.sqlite");
    std::fs::rename(&path, &odd).unwrap();
    assert_eq!(std::fs::read(&odd).unwrap()[18..20], [2, 2]);
    let before = std::fs::metadata(directory.path()).unwrap().permissions();
    let mut read_only = before.clone();
    read_only.set_readonly(true);
    for permissions in [before.clone(), read_only, before] {
        std::fs::set_permissions(directory.path(), permissions).unwrap();
        assert_eq!(read(&spec(&odd, "k", &[])).unwrap(), [record("a", "")]);
        assert_eq!(names(directory.path()), ["a b?c%23#é.sqlite"]);
    }
}

#[test]
fn changes_in_the_log_of_a_sqlite_file_are_read() {
    let (_directory, path) = sqlite("PRAGMA journal_mode=WAL; CREATE TABLE t (k); INSERT INTO t VALUES ('a')");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("INSERT INTO t VALUES ('b')").unwrap();
    assert_eq!(read(&spec(&path, "k", &[])).unwrap(), [record("a", ""), record("b", "")]);
}

#[test]
fn a_sqlite_file_that_changes_while_it_is_read_is_refused() {
    let count = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)";
    let (_directory, path) =
        sqlite(&format!("PRAGMA journal_mode=WAL; CREATE TABLE t (k); {count} INSERT INTO t SELECT i FROM c"));
    // Most of the rows are read only after the change.
    let source = Source::open(&spec(&path, "k", &[])).unwrap();
    Connection::open(&path).unwrap().execute_batch("INSERT INTO t VALUES ('new')").unwrap();
    // Clocks of file systems tick slowly.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let message = source.filter_map(Result::err).next().unwrap().to_string();
    assert!(message.contains("another program changed it meanwhile"), "{message}");
}

/// Reading a file with any one byte changed ends, with records or with an error.
#[test]
fn damaged_sqlite_files_end() {
    let (_directory, path) = sqlite(SCRIPT);
    let found = spec(&path, "id", &["name"]);
    let bytes = std::fs::read(&path).unwrap();
    let mut errors = 0;
    for at in (0..100).chain((100..bytes.len()).step_by(37)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        match read(&found) {
            Ok(records) => assert!(records.len() <= 3, "byte {at}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 20, "{errors}");
}

const SCHEMA: &str = "message rows {
    required binary name (utf8);
    optional int64 n;
    required double share;
    required binary data;
    required group tags (list) { repeated group list { required binary element (utf8); } }
}";

/// Five rows in two row groups.
fn parquet(compression: Compression) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
    for rows in [0..3i64, 3..5] {
        let text = |prefix: &str, i: i64| ByteArray::from(format!("{prefix}{i}").into_bytes());
        let (names, data): (Vec<_>, Vec<_>) = rows.clone().map(|i| (text("r", i), text("\u{1}", i))).unzip();
        // Every other number is present; row i has i tags.
        let there: Vec<i16> = rows.clone().map(|i| i16::from(i % 2 == 0)).collect();
        let numbers: Vec<i64> = rows.clone().filter(|i| i % 2 == 0).collect();
        let shares: Vec<f64> = rows.clone().map(|i| i as f64 / 2.0).collect();
        let tags: Vec<ByteArray> = rows.clone().flat_map(|i| (0..i).map(move |t| text("t", t))).collect();
        let defined: Vec<i16> = rows.clone().flat_map(|i| vec![i16::from(i > 0); i.max(1) as usize]).collect();
        let repeated: Vec<i16> = rows.clone().flat_map(|i| (0..i.max(1)).map(|t| i16::from(t > 0))).collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = 0;
        while let Some(mut next) = group.next_column().unwrap() {
            match column {
                0 => next.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap(),
                1 => next.typed::<Int64Type>().write_batch(&numbers, Some(&there), None).unwrap(),
                2 => next.typed::<DoubleType>().write_batch(&shares, None, None).unwrap(),
                3 => next.typed::<ByteArrayType>().write_batch(&data, None, None).unwrap(),
                _ => next.typed::<ByteArrayType>().write_batch(&tags, Some(&defined), Some(&repeated)).unwrap(),
            };
            next.close().unwrap();
            column += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    (directory, path)
}

#[test]
fn rows_of_parquet_become_records() {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, Compression::LZ4_RAW] {
        let (_directory, path) = parquet(compression);
        let found = spec(&path, "name", &["n"]);
        assert_eq!(Source::open(&found).unwrap().len_hint(), Some(5));
        let values = ["0", "", "2", "", "4"];
        let keys = ["r0", "r1", "r2", "r3", "r4"];
        let expected: Vec<Record> = keys.into_iter().zip(values).map(|(key, value)| record(key, value)).collect();
        assert_eq!(read(&found).unwrap(), expected);
        let objects = read(&spec(&path, "name", &[])).unwrap();
        assert_eq!(objects[2], record("r2", r#"{"n":2,"share":1.0,"data":"ATI=","tags":["t0","t1"]}"#));
        assert_eq!(objects[3], record("r3", r#"{"n":null,"share":1.5,"data":"ATM=","tags":["t0","t1","t2"]}"#));
        assert_eq!(read(&spec(&path, "", &["data"])).unwrap()[4], record(None, "\u{1}4"));
        // The columns have the requested order, not the order of the file. The key may be one of them.
        let swapped = read(&spec(&path, "name", &["share", "name"])).unwrap();
        assert_eq!(swapped[1], record("r1", r#"{"share":0.5,"name":"r1"}"#));
    }
}

#[test]
fn mistakes_with_parquet_are_named() {
    let (_directory, path) = parquet(Compression::SNAPPY);
    let message = read(&spec(&path, "names", &[])).unwrap_err().to_string();
    assert!(message.contains(r#"found the columns "name", "n", "share", "data", "tags", needed "names""#), "{message}");
    let message = read(&spec(&path, "n", &[])).unwrap_err().to_string();
    assert!(message.contains("row 2: found no key"), "{message}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let message = read(&spec(&path, "", &[])).unwrap_err().to_string();
    assert!(message.contains("needed a Parquet file that is whole"), "{message}");
}

/// Reading a file with any one byte changed ends, with records or with an error.
#[test]
fn damaged_parquet_files_end() {
    let (_directory, path) = parquet(Compression::SNAPPY);
    let whole = read(&spec(&path, "name", &[])).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut errors = 0;
    for at in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        match read(&spec(&path, "name", &[])) {
            Ok(records) => assert!(records.len() <= whole.len()),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > bytes.len() / 12, "{errors} of {}", bytes.len());
    assert_eq!(spec(&path, "", &[]).kind, Kind::Parquet);
}
