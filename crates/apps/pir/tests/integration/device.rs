//! A service on a device gives the answers of one on the processor. The kernels run on the processor, too.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_database::{Builder, Database, Record, Shard, Split, Writer};
use unspoken_pir::{Description, PirClient, PirError, PirOptions, PirServer, Question, ShardServer};
use unspoken_pir_scheme::{DatabaseVersion, Mode, PreparedKeys, Preset, TableKind, VersionedDatabase};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, ClientId, ErrorKind, KeyGenerator, KeyLoader,
    NoCounters, Request, ServerHalf,
};
use unspoken_ring::Device;

const CLIENT: ClientId = ClientId::new([1; 16]);

static GO: AtomicBool = AtomicBool::new(false);

/// Bytes of a record.
const RECORD: usize = 600;

fn record(index: u64) -> Vec<u8> {
    (0..RECORD as u64).map(|i| (index * 131 + i * 7 + i / 251) as u8).collect()
}

fn build(dir: &Path, tables: TableKind, records: u64) {
    let records = (0..records).map(|index| Ok::<_, std::io::Error>(Record { key: None, value: record(index) }));
    let builder = Builder { tables, ..Builder::new(Preset::InsecureN11) };
    builder.build(dir, records, |_| (), &GO).unwrap();
}

type Server = PirServer<Arc<Database>>;

/// A database that is served twice: by the processor, and on a device.
struct Served {
    databases: [Arc<Database>; 2],
    servers: [Server; 2],
    client: PirClient,
    keys: [PreparedKeys; 2],
}

impl Served {
    fn new(dir: &Path, device: &Device, mode: Mode) -> Self {
        let databases = [None, Some(device)].map(|device| Arc::new(Database::open_on(dir, device).unwrap()));
        let servers = databases.each_ref().map(|database| PirServer::new(Arc::clone(database)).unwrap());
        let client = client(&servers[0].describe(), mode);
        let bundle = bundle(&client);
        let keys = servers.each_ref().map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
        Served { databases, servers, client, keys }
    }

    fn query(&mut self, indices: &[u64]) -> Vec<u8> {
        let encoded = self.client.encode(&questions(indices)).unwrap();
        self.client.query(&encoded).unwrap()
    }

    fn answer(&self, which: usize, query: &[u8]) -> Result<Vec<u8>, PirError> {
        self.servers[which].answer(&Request::new(CLIENT, &self.keys[which], query), &Call::default())
    }

    /// Asks both, compares the bytes of their answers, and reads one. Returns the polynomials that were fetched.
    fn ask(&mut self, indices: &[u64], expected: &[Vec<u8>]) -> u64 {
        let query = self.query(indices);
        let wanted = self.answer(0, &query).unwrap();
        let ring = self.databases[1].parameters().ring().clone();
        let before = ring.fetched_polynomials();
        assert!(self.answer(1, &query).unwrap() == wanted, "answers to {indices:?} differ");
        let fetched = ring.fetched_polynomials() - before;
        let answers = self.client.read(&wanted, &self.client.encode(&questions(indices)).unwrap()).unwrap();
        let found: Vec<Vec<u8>> = answers.iter().map(|answer| answer.record.as_ref().unwrap().to_vec()).collect();
        assert_eq!(found, expected);
        fetched
    }

    /// Takes a change up.
    fn refresh(&self) {
        self.databases.iter().for_each(|database| assert!(database.refresh().unwrap()));
    }
}

fn questions(indices: &[u64]) -> Vec<Question> {
    indices.iter().map(|&index| Question::Index(index)).collect()
}

fn client(description: &[u8], mode: Mode) -> PirClient {
    let description = Description::read(description, true).unwrap();
    let client = PirClient::open(description, PirOptions::new(mode, NoCounters), None).unwrap();
    client.begin().unwrap();
    client
}

fn bundle(client: &PirClient) -> Vec<u8> {
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    bundle
}

/// Changes records, or writes the tables again with all changes.
fn write(dir: &Path, changes: &[(u64, Vec<u8>)]) {
    let mut writer = Writer::open(dir).unwrap();
    if changes.is_empty() {
        return writer.compact(|_| (), &GO).unwrap();
    }
    changes.iter().for_each(|(index, value)| writer.set(*index, value).unwrap());
    writer.commit().unwrap();
}

#[test]
fn answers_from_a_device_have_the_same_bytes_after_updates_too() {
    let temporary = tempfile::tempdir().unwrap();
    for (tables, records, mode) in [(TableKind::Dense, 60, Mode::Packed), (TableKind::Transformed, 500, Mode::Packed)] {
        let dir = temporary.path().join(tables.to_string());
        build(&dir, tables, records);
        let device = unspoken_device_shim::device(1 << 30);
        let mut served = Served::new(&dir, &device, mode);
        let planes = served.databases[0].snapshot().tables().planes() as u64;
        let fetched = served.ask(&[7], &[record(7)]);
        assert_eq!(fetched, 2 * planes, "both components of each response");
        let copied = || device.copied_bytes()[0];
        let before = copied();
        served.ask(&[0, records - 1], &[record(0), record(records - 1)]);
        let again = copied() - before;
        let table = served.databases[0].snapshot().table_bytes();
        assert!(again < table / 4, "the tables are there: {again} of {table} bytes");
        // A commit changes some groups or entries, and the tables stay.
        let new = vec![0xA5; RECORD];
        write(&dir, &[(7, new.clone()), (9, new.clone())]);
        served.refresh();
        assert_eq!(served.ask(&[7], std::slice::from_ref(&new)), 2 * planes);
        served.ask(&[8, 9], &[record(8), new.clone()]);
        let before = copied();
        served.ask(&[7], std::slice::from_ref(&new));
        assert!(copied() - before < table / 4);
        // New files.
        write(&dir, &[]);
        served.refresh();
        served.ask(&[7, 8], &[new, record(8)]);
        served.servers[1].check_ready().unwrap();
    }
}

#[test]
fn all_kinds_of_queries_have_the_same_answers() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&dir, TableKind::Transformed, 20);
    for mode in [Mode::Bits, Mode::Compact] {
        let mut served = Served::new(&dir, &unspoken_device_shim::device(1 << 30), mode);
        served.ask(&[19, 3], &[record(19), record(3)]);
    }
}

#[test]
fn clients_share_a_pass_on_a_device() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&dir, TableKind::Dense, 60);
    let device = unspoken_device_shim::device(1 << 30);
    let mut all: Vec<Served> = (0..3).map(|_| Served::new(&dir, &device, Mode::Packed)).collect();
    let queries: Vec<Vec<u8>> = all.iter_mut().zip(1..).map(|(served, index)| served.query(&[index, 59])).collect();
    let [wanted, found] = [0, 1].map(|which| {
        let requests = all.iter().zip(&queries);
        let requests: Vec<Request<'_, PreparedKeys>> =
            requests.map(|(served, query)| Request { client: CLIENT, keys: &served.keys[which], query }).collect();
        let answers = all[0].servers[which].answer_together(&requests, &Call::default());
        answers.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    });
    assert!(wanted == found);
}

#[test]
fn shards_on_a_device_give_the_same_partial_answers() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&dir, TableKind::Dense, 5000);
    let database = Database::open(&dir).unwrap();
    let split = Split::new(database.snapshot(), 2, &GO).unwrap();
    let mut client = client(&PirServer::new(Arc::new(database)).unwrap().describe(), Mode::Packed);
    let (bundle, query) = (bundle(&client), {
        let encoded = client.encode(&questions(&[4999])).unwrap();
        client.query(&encoded).unwrap()
    });
    let device = unspoken_device_shim::device(1 << 30);
    for number in 1..=2 {
        let dir = temporary.path().join(format!("shard {number}"));
        split.write(number, &dir, |_| (), &GO).unwrap();
        let [wanted, found] = [None, Some(&device)].map(|device| {
            let server = ShardServer::new(Shard::open_on(&dir, device).unwrap()).unwrap();
            let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
            server.check_ready().unwrap();
            server.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap()
        });
        assert!(wanted == found, "shard {number}");
    }
}

#[test]
fn a_device_that_fails_or_is_short_of_memory_gives_no_wrong_answer() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&dir, TableKind::Dense, 60);
    let mut small = Served::new(&dir, &unspoken_device_shim::device(16 << 20), Mode::Packed);
    let query = small.query(&[3]);
    let error = small.answer(1, &query).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    small.servers[1].check_ready().unwrap();
    let device = unspoken_device_shim::failing_device(1 << 30, 20);
    let mut failing = Served::new(&dir, &device, Mode::Packed);
    let query = failing.query(&[3]);
    for _ in 0..2 {
        let error = failing.answer(1, &query).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert!(failing.servers[1].check_ready().unwrap_err().to_string().contains("the device is lost"));
    }
    // The processor computes in its place, if that is allowed.
    device.fall_back();
    failing.ask(&[3], &[record(3)]);
    failing.servers[1].check_ready().unwrap();
}
