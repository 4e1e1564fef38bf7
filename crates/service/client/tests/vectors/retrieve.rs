//! `vectors/retrieve.json`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use unspoken_pir::{Answer, PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::layout::Bucket;
use unspoken_pir_scheme::{
    Database, DatabaseVersion, Layout, Length, Mode, PirParameters, Planes, Preset, TableKind, Tables,
    VersionedDatabase,
};
use unspoken_protocol::DurableCounters;

use crate::case::{Bytes, Case, Known, Plan, Refused, check};

struct Retrieve;

const PRESET: &str = "insecure_n11_pir256";
const VERSION: u64 = 9;

/// Bytes of the checksum of a request.
const CHECKSUM_BYTES: usize = 8;

/// The first number of the session queries of a client that has made the query of a case.
const NEXT: u32 = 100;

/// Numbers of session queries, in memory. A real client must store them on a disk.
struct Numbers(AtomicU32);

impl DurableCounters for Numbers {
    fn start(&self, _session: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _session: &[u8; 16], count: u32) -> io::Result<u32> {
        Ok(self.0.fetch_add(count, Ordering::Relaxed))
    }
}

/// One version of a database, in memory.
struct Records {
    parameters: PirParameters,
    tables: Tables,
    planes: Vec<Database>,
}

struct OneVersion(Arc<Records>);

impl DatabaseVersion for Records {
    fn version(&self) -> u64 {
        VERSION
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Transformed(self.planes.iter().map(Database::view).collect())
    }
}

impl VersionedDatabase for OneVersion {
    type Version = Records;

    fn parameters(&self) -> &PirParameters {
        &self.0.parameters
    }

    fn current(&self) -> Arc<Records> {
        Arc::clone(&self.0)
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

impl Records {
    fn new(layout: Layout, cell: impl Fn(u64) -> Vec<u8>) -> Self {
        let parameters = Preset::find(PRESET).unwrap().build().unwrap();
        let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
        let piece = tables.piece_bytes();
        let whole = |index| {
            let mut cell = cell(index);
            cell.resize(tables.planes() * piece, 0);
            cell
        };
        let plane = |plane: usize| {
            let bytes: Vec<u8> =
                (0..layout.cells()).flat_map(|index| whole(index)[plane * piece..][..piece].to_vec()).collect();
            Database::new(&parameters, plane, &bytes).unwrap()
        };
        let planes = (0..tables.planes()).map(plane).collect();
        Records { parameters, tables, planes }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::from_value::<Bytes>(value.clone()).unwrap().0
}

/// Records by index: an object with the bytes of records, the rest of which do not exist.
fn by_index(layout: &Value, records: &Value) -> Records {
    let length = Length::Variable { max: number(&layout["max_bytes"]) as u32 };
    let layout = Layout::Index { records: number(&layout["records"]), length };
    Records::new(layout, |index| {
        let record = records.get(index.to_string()).map(bytes);
        layout.cell(record.as_deref()).unwrap()
    })
}

fn by_key(layout: &Value, records: &Value) -> Records {
    let bucket_bytes = number(&layout["bucket_bytes"]) as u32;
    let (buckets, candidates) = (number(&layout["buckets"]), number(&layout["candidates"]) as u32);
    let layout = Layout::Keys { buckets, bucket_bytes, candidates, seed: bytes(&layout["seed"]).try_into().unwrap() };
    let mut filled: BTreeMap<u64, Bucket> = BTreeMap::new();
    for (i, (key, record)) in records.as_object().unwrap().iter().enumerate() {
        let key = key.as_bytes();
        let candidate = layout.candidates(key).unwrap()[i % candidates as usize];
        filled.entry(candidate).or_default().insert(layout.tag(key).unwrap(), bytes(record));
    }
    Records::new(layout, |index| {
        filled.get(&index).unwrap_or(&Bucket::default()).to_bytes(bucket_bytes as usize).unwrap()
    })
}

impl Known for Retrieve {
    const NAME: &'static str = "retrieve";
    const ABOUT: &'static str = "Private retrieval: databases by index and by key, queries of each kind, and answers.";
    type Client = PirClient;
    type Server = PirServer<OneVersion>;
    type Asked = Question;

    /// Records have no sum of their own.
    const OTHER_SECRET: Option<&'static str> = None;

    fn plans() -> Vec<Plan> {
        let index = json!({
            "preset": PRESET,
            "index": { "records": 50, "max_bytes": 600 },
            "records": {
                "0": Bytes(vec![]),
                "4": Bytes(b"a record".into()),
                "49": Bytes((0..=255).chain(0..=255).collect()),
            },
        });
        let key = json!({
            "preset": PRESET,
            "key": { "buckets": 40, "bucket_bytes": 256, "candidates": 2, "seed": Bytes(vec![5; 16]) },
            "records": {
                "A00": Bytes(b"cholera".into()),
                "A01": Bytes(vec![]),
                "caf\u{e9}": Bytes("na\u{ef}ve".into()),
            },
        });
        let plan = |name, mode: &str, server: &Value, questions: &[Value]| Plan {
            name,
            server: server.clone(),
            options: Map::from_iter([("mode".into(), json!(mode))]),
            model: BTreeMap::new(),
            questions: questions.to_vec(),
        };
        // The last record is not there.
        let numbers = [4, 0, 49, 3].map(|index| json!({ "index": index }));
        let names = ["A00", "A01", "caf\u{e9}", "Z99"].map(|key| json!({ "key": key }));
        vec![
            plan("packed query by index", "packed", &index, &numbers[2..]),
            plan("compact query by index", "compact", &index, &numbers),
            plan("session query by index", "session", &index, &numbers),
            plan("bits query by index", "bits", &index, &numbers[..1]),
            plan("packed query by key", "packed", &key, &names[..1]),
            plan("compact query by key", "compact", &key, &names),
        ]
    }

    fn server(case: &Case) -> Self::Server {
        assert_eq!(case.server["preset"], PRESET);
        let records = &case.server["records"];
        let records = match (case.server.get("index"), case.server.get("key")) {
            (Some(layout), None) => by_index(layout, records),
            (None, Some(layout)) => by_key(layout, records),
            _ => panic!("{}: needed a layout", case.name),
        };
        PirServer::new(OneVersion(Arc::new(records))).unwrap()
    }

    fn model(case: &Case) -> PirOptions {
        let mode: Mode = case.options["mode"].as_str().unwrap().parse().unwrap();
        // No number may be used twice.
        let next = if case.query.0.is_empty() { 0 } else { NEXT };
        PirOptions::new(mode, Numbers(AtomicU32::new(next)))
    }

    fn question(question: &Value) -> Question {
        match (&question["index"], &question["key"]) {
            (Value::Number(index), Value::Null) => Question::Index(index.as_u64().unwrap()),
            (Value::Null, Value::String(key)) => Question::Key(key.as_bytes().to_vec()),
            _ => panic!("{question}: needed an index or a key"),
        }
    }

    fn answer(Answer { record, version }: Answer) -> Value {
        json!({ "record": record.map(|record| Bytes(record.to_vec())), "version": version })
    }

    /// The number of a session query, with another body.
    fn refused(case: &Case) -> Vec<Refused> {
        if case.options["mode"] != "session" {
            return Vec::new();
        }
        let mut query = case.query.0[..case.query.0.len() - CHECKSUM_BYTES].to_vec();
        let body = query.len() - size_of::<u32>();
        query[body] ^= 1;
        let checksum = blake3::derive_key("unspoken 2026 request of private retrieval, session queries", &query);
        query.extend(&checksum[..CHECKSUM_BYTES]);
        vec![Refused { bytes: Some(Bytes(query)), ..Refused::new("query", "a number that was never used") }]
    }
}

#[test]
fn records_are_retrieved_as_in_the_vectors() {
    check::<Retrieve>();
    // Against the records, and not only against what was decrypted once.
    for case in crate::case::read::<Case>(Retrieve::NAME) {
        for (question, answer) in case.questions.iter().zip(&case.answers) {
            let name = question["key"].as_str().map_or_else(|| question["index"].to_string(), str::to_owned);
            let record = case.server["records"].get(&name).unwrap_or(&Value::Null);
            assert_eq!(answer, &json!({ "record": record, "version": VERSION }), "{}: {question}", case.name);
        }
    }
}
