//! The time of an answer does not depend on the index, nor on whether the key exists.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_pir::{Description, PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::{
    Database, DatabaseVersion, Layout, Mode, PirParameters, Planes, Preset, TableKind, Tables, VersionedDatabase,
};
use unspoken_protocol::{
    ApplicationDescription, Call, ClientHalf, ClientId, DurableCounters, KeyGenerator, KeyLoader, Request, ServerHalf,
};
use unspoken_ring::SecretRng;

/// Number of timed answers of each kind.
const ANSWERS: usize = 100;

/// Standard deviations of the rank sum that two equal distributions exceed once in 15,000 runs.
const MAX_DEVIATIONS: f64 = 4.0;

struct Cells(Database, Tables);

impl DatabaseVersion for Cells {
    fn version(&self) -> u64 {
        0
    }

    fn tables(&self) -> &Tables {
        &self.1
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Transformed(vec![self.0.view()])
    }
}

struct TestDatabase(Arc<Cells>);

impl VersionedDatabase for TestDatabase {
    type Version = Cells;

    fn parameters(&self) -> &PirParameters {
        self.0.1.parameters()
    }

    fn current(&self) -> Arc<Cells> {
        Arc::clone(&self.0)
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

/// Packed queries need no numbers.
struct NoCounters;

impl DurableCounters for NoCounters {
    fn start(&self, _: &[u8; 16]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Seconds for the answers to two questions, asked in random order.
fn timed(layout: Layout, cells: Vec<u8>, questions: [Question; 2]) -> [Vec<f64>; 2] {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Database::new(&parameters, 0, &cells).unwrap();
    let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
    let server = PirServer::new(TestDatabase(Arc::new(Cells(database, tables)))).unwrap();
    let description = Description::read(&server.describe(), true).unwrap();
    let options = PirOptions::new(Mode::Packed, NoCounters);
    let mut client = PirClient::open(description, options, None).unwrap();
    let (mut bundle, cancel) = (Vec::new(), AtomicBool::new(false));
    client.write_keys(&mut bundle, |_, _| {}, &cancel).unwrap();
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    let mut rng = SecretRng::insecure_from_seed(5);
    let mut seconds = [vec![], vec![]];
    while seconds.iter().any(|times| times.len() < ANSWERS) {
        let kind = rng.binary(1)[0] as usize;
        let encoded = client.encode(std::slice::from_ref(&questions[kind])).unwrap();
        let query = client.query(&encoded).unwrap();
        let started = Instant::now();
        server.answer(&Request::new(ClientId::new([0; 16]), &keys, &query), &Call::new(&cancel)).unwrap();
        seconds[kind].push(started.elapsed().as_secs_f64());
    }
    seconds
}

/// Distance of the rank sum of the first sample from its mean, in standard deviations (Mann and Whitney).
fn rank_deviations([first, second]: &[Vec<f64>; 2]) -> f64 {
    let wins = first.iter().map(|a| second.iter().filter(|b| a > b).count()).sum::<usize>() as f64;
    let (n, m) = (first.len() as f64, second.len() as f64);
    (wins - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

#[test]
fn rank_sums_tell_distributions_apart() {
    let mut rng = SecretRng::insecure_from_seed(1);
    let mut sample = |shift: f64| (0..ANSWERS).map(|_| f64::from(rng.gaussian(1)[0]) + shift).collect::<Vec<_>>();
    assert!(rank_deviations(&[sample(0.0), sample(0.5)]).abs() < MAX_DEVIATIONS);
    assert!(rank_deviations(&[sample(0.0), sample(3.0)]).abs() > MAX_DEVIATIONS);
}

#[test]
fn answers_to_the_first_and_the_last_index_take_as_long() {
    let layout = Layout::Index { records: 1000, length: unspoken_pir_scheme::Length::Fixed(256) };
    let seconds = timed(layout, vec![0x5A; 256_000], [0, 999].map(Question::Index));
    let found = rank_deviations(&seconds);
    assert!(found.abs() < MAX_DEVIATIONS, "{found}");
}

#[test]
fn answers_for_a_key_and_for_no_key_take_as_long() {
    let layout = Layout::Keys { buckets: 1000, bucket_bytes: 256, candidates: 2, seed: [1; 16] };
    let mut bucket = unspoken_pir_scheme::layout::Bucket::default();
    bucket.insert(layout.tag(b"here").unwrap(), vec![7; 100]);
    let empty = unspoken_pir_scheme::layout::Bucket::default().to_bytes(256).unwrap();
    let mut cells = empty.repeat(1000);
    let at = layout.candidates(b"here").unwrap()[1] as usize * 256;
    cells[at..at + 256].copy_from_slice(&bucket.to_bytes(256).unwrap());
    let seconds = timed(layout, cells, [b"here".to_vec(), b"gone".to_vec()].map(Question::Key));
    let found = rank_deviations(&seconds);
    assert!(found.abs() < MAX_DEVIATIONS, "{found}");
}
