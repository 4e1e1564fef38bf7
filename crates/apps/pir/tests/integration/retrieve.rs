//! Questions and answers in both layouts and with all kinds of queries, at insecure parameters.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use unspoken_pir::{Answer, Description, PirClient, PirError, PirOptions, PirServer, Question};
use unspoken_pir_scheme::dense::{DenseTable, MaskSeed, QUERY_FORMATS};
use unspoken_pir_scheme::layout::Bucket;
use unspoken_pir_scheme::{
    Database, DatabaseVersion, Layout, Length, Mode, PirParameters, PlaneShape, Planes, PreparedKeys, Preset,
    QUERY_FORMAT, Staleness, TableKind, Tables, VersionedDatabase,
};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, ClientId, DurableCounters, ErrorKind, KeyGenerator,
    KeyLoader, Request, ServerHalf,
};
use zeroize::Zeroizing;

const CLIENT: ClientId = ClientId::new([1; 16]);

/// Cells in memory, as one version of a database.
struct Cells {
    tables: Tables,
    version: u64,
    planes: TestPlanes,
}

enum TestPlanes {
    Transformed(Vec<Database>),
    Dense(Vec<DenseTable>),
}

impl Cells {
    fn new(parameters: &PirParameters, layout: Layout, version: u64, cells: &[Vec<u8>]) -> Arc<Self> {
        Self::of_kind(parameters, layout, TableKind::Transformed, version, cells)
    }

    fn of_kind(
        parameters: &PirParameters,
        layout: Layout,
        kind: TableKind,
        version: u64,
        cells: &[Vec<u8>],
    ) -> Arc<Self> {
        let tables = Tables::new(parameters, layout, kind).unwrap();
        let tables = match kind {
            kind if kind.is_dense() => tables.with_masks(MaskSeed([version as u8; 16])).unwrap(),
            _ => tables,
        };
        let piece = |plane: usize, cell: &Vec<u8>| {
            let mut padded = cell.clone();
            padded.resize(tables.planes() * tables.piece_bytes(), 0);
            padded[plane * tables.piece_bytes()..][..tables.piece_bytes()].to_vec()
        };
        let planes = match tables.shape() {
            PlaneShape::Transformed(_) => {
                let plane = |plane: usize| {
                    let bytes: Vec<u8> = cells.iter().flat_map(|cell| piece(plane, cell)).collect();
                    Database::new(parameters, plane, &bytes).unwrap()
                };
                TestPlanes::Transformed((0..tables.planes()).map(plane).collect())
            }
            PlaneShape::Dense(shape) => {
                let plane = |plane: usize| {
                    DenseTable::build(parameters, shape, |cell| piece(plane, &cells[cell as usize])).unwrap()
                };
                TestPlanes::Dense((0..tables.planes()).map(plane).collect())
            }
            PlaneShape::Encrypted(_) => panic!("no cells in plaintext"),
        };
        Arc::new(Cells { tables, version, planes })
    }
}

impl DatabaseVersion for Cells {
    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn planes(&self) -> Planes<'_> {
        match &self.planes {
            TestPlanes::Transformed(planes) => Planes::Transformed(planes.iter().map(Database::view).collect()),
            TestPlanes::Dense(planes) => Planes::Dense(planes.iter().map(DenseTable::groups).collect()),
        }
    }
}

struct TestDatabase {
    parameters: PirParameters,
    current: Mutex<Arc<Cells>>,
    staleness: Mutex<Option<Staleness>>,
}

impl VersionedDatabase for TestDatabase {
    type Version = Cells;

    fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    fn current(&self) -> Arc<Cells> {
        Arc::clone(&self.current.lock().unwrap())
    }

    fn resident_bytes(&self) -> u64 {
        0
    }

    fn staleness(&self) -> Option<Staleness> {
        *self.staleness.lock().unwrap()
    }
}

#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<u32>>);

impl DurableCounters for Numbers {
    fn start(&self, _session: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _session: &[u8; 16], count: u32) -> io::Result<u32> {
        let mut next = self.0.lock().unwrap();
        *next += count;
        Ok(*next - count)
    }
}

fn options(mode: Mode) -> PirOptions {
    PirOptions::new(mode, Numbers::default())
}

fn found(record: &[u8], version: u64) -> Answer {
    Answer { record: Some(Zeroizing::new(record.to_vec())), version }
}

struct Pair {
    server: PirServer<Arc<TestDatabase>>,
    client: PirClient,
    keys: PreparedKeys,
    bundle: Vec<u8>,
}

impl Pair {
    fn new(cells: Arc<Cells>, options: PirOptions) -> (Self, Arc<TestDatabase>) {
        let (parameters, current) = (Preset::InsecureN11.build().unwrap(), Mutex::new(cells));
        let database = Arc::new(TestDatabase { parameters, current, staleness: Mutex::default() });
        let server = PirServer::new(Arc::clone(&database)).unwrap();
        let description = Description::read(&server.describe(), true).unwrap();
        let client = PirClient::open(description, options, None).unwrap();
        client.begin().unwrap();
        let mut bundle = Vec::new();
        client.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert_eq!(bundle.len() as u64, client.key_bytes());
        assert!(bundle.len() as u64 <= server.key_limits().max_bytes);
        assert!(server.loaded_key_bytes(&bundle[..server.key_limits().front_bytes]).unwrap() > 0);
        let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
        (Pair { server, client, keys, bundle }, database)
    }

    fn answer(&self, query: &[u8]) -> Vec<u8> {
        assert!(query.len() <= self.server.limits().query_bytes);
        let answer = self.try_answer(query).unwrap();
        assert!(answer.len() <= self.server.limits().answer_bytes);
        answer
    }

    fn try_answer(&self, query: &[u8]) -> Result<Vec<u8>, PirError> {
        self.server.answer(&Request::new(CLIENT, &self.keys, query), &Call::default())
    }

    fn ask(&mut self, questions: &[Question]) -> Vec<Answer> {
        let query = self.query(questions).unwrap();
        self.read(&self.answer(&query), questions).unwrap()
    }

    fn query(&mut self, questions: &[Question]) -> Result<Vec<u8>, PirError> {
        let encoded = self.client.encode(questions)?;
        self.client.query(&encoded)
    }

    fn read(&self, answer: &[u8], questions: &[Question]) -> Result<Vec<Answer>, PirError> {
        self.client.read(answer, &self.client.encode(questions)?)
    }
}

/// A request for queries of a kind with a checksum of its own.
fn with_checksum(mode: Mode, mut bytes: Vec<u8>) -> Vec<u8> {
    let context = format!("unspoken 2026 request of private retrieval, {mode} queries");
    let hash = blake3::derive_key(&context, &bytes);
    bytes.extend(&hash[..8]);
    bytes
}

fn describe(parameters: &PirParameters, layout: Layout, kind: TableKind) -> Result<Description, PirError> {
    Description::new(&Tables::new(parameters, layout, kind)?)
}

fn parameters() -> PirParameters {
    Preset::InsecureN11.build().unwrap()
}

fn by_index() -> (Layout, Vec<Vec<u8>>) {
    let records: Vec<Option<Vec<u8>>> = (0..50).map(|i| (i % 7 != 3).then(|| vec![i as u8; i * 12])).collect();
    let layout = Layout::Index { records: 50, length: Length::Variable { max: 600 } };
    let cells = records.iter().map(|record| layout.cell(record.as_deref()).unwrap()).collect();
    (layout, cells)
}

fn by_key(pairs: &[(&str, &str)]) -> (Layout, Vec<Vec<u8>>) {
    let layout = Layout::Keys { buckets: 40, bucket_bytes: 256, candidates: 2, seed: [5; 16] };
    let mut buckets: BTreeMap<u64, Bucket> = BTreeMap::new();
    for (i, (key, value)) in pairs.iter().enumerate() {
        let candidate = layout.candidates(key.as_bytes()).unwrap()[i % 2];
        let tag = layout.tag(key.as_bytes()).unwrap();
        buckets.entry(candidate).or_default().insert(tag, value.as_bytes().to_vec());
    }
    let cell = |i| buckets.get(&i).unwrap_or(&Bucket::default()).to_bytes(256).unwrap();
    (layout, (0..40).map(cell).collect())
}

#[test]
fn records_are_found_by_index_whatever_the_queries() {
    let (layout, cells) = by_index();
    for mode in Mode::ALL {
        let options = options(mode);
        let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 9, &cells), options);
        let questions = [4, 0, 3, 49].map(Question::Index);
        let found = pair.ask(&questions);
        let expected = [Some(vec![4; 48]), Some(vec![]), None, Some(vec![49; 588])];
        for (found, expected) in found.into_iter().zip(expected) {
            assert_eq!(found, Answer { record: expected.map(Zeroizing::new), version: 9 }, "{mode}");
        }
        assert!(pair.query(&[Question::Key(b"4".to_vec())]).is_err());
        assert!(pair.query(&[]).is_err());
        assert!(pair.query(&vec![Question::Index(1); 17]).is_err());
    }
}

#[test]
fn records_are_found_by_key_and_absent_keys_look_alike() {
    let (layout, cells) = by_key(&[("A00", "cholera"), ("A01", ""), ("A02", "other salmonella infections")]);
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 1, &cells), options(Mode::Compact));
    let key = |key: &str| Question::Key(key.as_bytes().to_vec());
    let lengths =
        ["A00", "Z99", "a very long key that is not there"].map(|name| pair.query(&[key(name)]).unwrap().len());
    assert_eq!(lengths, [2 * 36 + 8; 3]);
    let questions = [key("A00"), key("A01"), key("Z99"), key("A02")];
    let found: Vec<Option<Vec<u8>>> =
        pair.ask(&questions).into_iter().map(|answer| answer.record.map(|record| record.to_vec())).collect();
    let text = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(found, [text("cholera"), text(""), None, text("other salmonella infections")]);
    assert!(pair.query(&[Question::Index(0)]).is_err());
}

#[test]
fn one_query_of_256_bytes_travels_in_44_and_comes_back_in_2008() {
    let layout = Layout::Index { records: 500, length: Length::Fixed(256) };
    let cells: Vec<Vec<u8>> = (0..500).map(|i| vec![i as u8; 256]).collect();
    let cells = Cells::new(&parameters(), layout, 1, &cells);
    // Packed: 7 weights for each of six bits of a row, two for each of three other bits.
    let packed = 32 + 4 * (6 * 7 + 3 * 2);
    let bits = 32 + (5 * 9usize).div_ceil(8);
    for (mode, bytes) in [(Mode::Compact, 36), (Mode::Session, 8), (Mode::Bits, bits), (Mode::Packed, packed)] {
        let options = options(mode);
        let (mut pair, _) = Pair::new(Arc::clone(&cells), options);
        let query = pair.query(&[Question::Index(300)]).unwrap();
        assert_eq!(query.len(), bytes + 8, "a checksum of 8 bytes");
        let answer = pair.answer(&query);
        assert_eq!(answer.len(), 2008);
        let found = pair.read(&answer, &[Question::Index(300)]).unwrap();
        assert_eq!(found[0].record.as_deref(), Some(&vec![44; 256]));
    }
}

#[test]
fn every_answer_is_of_one_version_and_says_which() {
    let (layout, mut cells) = by_index();
    let (mut pair, database) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Packed));
    assert_eq!(pair.ask(&[Question::Index(1)])[0], found(&[1; 12], 3));
    cells[1] = layout.cell(Some(b"changed")).unwrap();
    *database.current.lock().unwrap() = Cells::new(&parameters(), layout, 4, &cells);
    assert_eq!(pair.ask(&[Question::Index(1)])[0], found(b"changed", 4));
}

#[test]
fn a_server_follows_its_database_into_another_layout() {
    let (layout, mut cells) = by_index();
    let (mut pair, database) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Packed));
    assert_eq!(pair.ask(&[Question::Index(1)])[0], found(&[1; 12], 3));
    let (described, limits) =
        (pair.server.describe(), (pair.server.limits().query_bytes, pair.server.limits().answer_bytes));

    // Longer records, and more of them: the limits of queries and answers change.
    let larger = Layout::Index { records: 1100, length: Length::Variable { max: 1200 } };
    cells = (0..1100).map(|i| larger.cell(Some(&vec![i as u8; i])).unwrap()).collect();
    *database.current.lock().unwrap() = Cells::new(&parameters(), larger, 4, &cells);
    assert_ne!(pair.server.describe(), described);
    // An index has more bits, so queries are longer.
    assert!(pair.server.limits().query_bytes > limits.0);
    assert!(pair.server.limits().answer_bytes > limits.1);
    pair.server.check_ready().unwrap();
    // A query of a client that has the old description is refused, or its answer is.
    let query = pair.query(&[Question::Index(1)]).unwrap();
    let answer = pair.try_answer(&query);
    let error = answer.and_then(|answer| pair.read(&answer, &[Question::Index(1)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    // With the new description and the same secret and keys it is answered.
    let secret = pair.client.secret_bytes().unwrap();
    let description = Description::read(&pair.server.describe(), true).unwrap();
    PirClient::check_change(pair.client.description(), &description).unwrap();
    pair.client = PirClient::open(description, options(Mode::Packed), Some(&secret)).unwrap();
    assert_eq!(pair.ask(&[Question::Index(1099)])[0], found(&[75; 1099], 4));

    // By key, after that.
    let (layout, cells) = by_key(&[("A00", "cholera")]);
    *database.current.lock().unwrap() = Cells::new(&parameters(), layout, 5, &cells);
    let description = Description::read(&pair.server.describe(), true).unwrap();
    pair.client = PirClient::open(description, options(Mode::Packed), Some(&secret)).unwrap();
    assert_eq!(pair.ask(&[Question::Key(b"A00".into())])[0], found(b"cholera", 5));
}

#[test]
fn a_server_whose_database_is_stale_says_so() {
    let (layout, cells) = by_index();
    let (mut pair, database) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Packed));
    pair.server.check_ready().unwrap();
    // A version that cannot be read: the one before is served.
    *database.staleness.lock().unwrap() = Some(Staleness::Unreadable);
    let reason = pair.server.check_ready().unwrap_err().to_string();
    assert!(reason.contains("an earlier one") && reason.contains("log"), "{reason}");
    assert_eq!(pair.ask(&[Question::Index(1)])[0], found(&[1; 12], 3));
    // A database that is no longer there is not served.
    *database.staleness.lock().unwrap() = Some(Staleness::Replaced);
    let query = pair.query(&[Question::Index(1)]).unwrap();
    let refused = pair.try_answer(&query).unwrap_err();
    for error in [refused, pair.server.check_ready().unwrap_err()] {
        assert!(error.to_string().contains("restart of the service"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "the client is told");
    }
    *database.staleness.lock().unwrap() = None;
    pair.server.check_ready().unwrap();
    assert_eq!(pair.ask(&[Question::Index(1)])[0], found(&[1; 12], 3));
}

#[test]
fn answers_for_another_layout_are_not_read() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Packed));
    let other = Layout::Index { records: 51, length: Length::Variable { max: 600 } };
    let longer = [cells, vec![layout.cell(None).unwrap()]].concat();
    let (rebuilt, _) = Pair::new(Cells::new(&parameters(), other, 1, &longer), options(Mode::Packed));
    let query = pair.query(&[Question::Index(1)]).unwrap();
    let keys = rebuilt.server.load_keys(&mut pair.bundle.as_slice()).unwrap();
    let answer = rebuilt.server.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap();
    let error = pair.read(&answer, &[Question::Index(1)]).unwrap_err().to_string();
    assert!(error.contains("connect again"), "{error}");
    let answer = pair.answer(&query);
    for wrong in [&answer[..15], &answer[..answer.len() - 1], &[]] {
        assert!(pair.read(wrong, &[Question::Index(1)]).is_err());
    }
    assert!(pair.read(&answer, &[Question::Index(1), Question::Index(2)]).is_err());
}

#[test]
fn numbers_of_session_queries_start_when_a_client_begins() {
    /// Fails if numbers are started.
    struct Never;

    impl DurableCounters for Never {
        fn start(&self, _: &[u8; 16]) -> io::Result<()> {
            Err(io::Error::other("started"))
        }

        fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
    let description = describe(&parameters(), by_index().0, TableKind::Transformed).unwrap();
    let open = |mode| PirClient::open(description.clone(), PirOptions::new(mode, Never), None).unwrap();
    // A client that only predicts costs stores nothing.
    for mode in [Mode::Session, Mode::Packed] {
        let error = open(mode).begin().unwrap_err().to_string();
        assert!(error.contains("started"), "{error}");
    }
}

#[test]
fn session_numbers_that_come_again_are_refused() {
    let (layout, cells) = by_index();
    let numbers = Numbers::default();
    let (mut pair, _) =
        Pair::new(Cells::new(&parameters(), layout, 3, &cells), PirOptions::new(Mode::Session, numbers.clone()));
    let first = pair.query(&[Question::Index(1), Question::Index(2)]).unwrap();
    assert_eq!(first.len(), 12 + 8);
    // The same bytes again are a retry.
    assert_eq!(pair.answer(&first), pair.answer(&first));
    *numbers.0.lock().unwrap() = 1;
    let again = pair.query(&[Question::Index(5)]).unwrap();
    let refused = pair.try_answer(&again).unwrap_err();
    assert!(refused.to_string().contains("never used"), "{refused}");
    *numbers.0.lock().unwrap() = u32::MAX - 1;
    let last = pair.query(&[Question::Index(1)]).unwrap();
    let overflowing = with_checksum(Mode::Session, [&last[..last.len() - 8], &[0; 8]].concat());
    let refused = pair.try_answer(&overflowing).unwrap_err();
    assert!(refused.to_string().contains("numbers below 2^32"), "{refused}");
}

#[test]
fn what_does_not_fit_is_named() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Packed));
    let query = pair.query(&[Question::Index(1)]).unwrap();
    let queries = &query[..query.len() - 8];
    for wrong in [queries[1..].to_vec(), vec![], queries.repeat(17)] {
        let wrong = with_checksum(Mode::Packed, wrong);
        let error = pair.try_answer(&wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("packed queries"), "{error}");
    }
    let stopped =
        pair.server.answer(&Request::new(CLIENT, &pair.keys, &query), &Call::new(&AtomicBool::new(true))).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let secure = Preset::N11.build().unwrap();
    let theirs =
        PirClient::open(describe(&secure, layout, TableKind::Transformed).unwrap(), options(Mode::Packed), None);
    let mut bundle = Vec::new();
    theirs.unwrap().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
    let refused = pair.server.load_keys(&mut bundle.as_slice()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch, "{refused}");
    let short = pair.server.load_keys(&mut &bundle[..40]).unwrap_err();
    assert_eq!(short.kind(), ErrorKind::Malformed, "{short}");
}

#[test]
fn descriptions_are_checked() {
    let (layout, _) = by_key(&[]);
    let description = describe(&parameters(), layout, TableKind::Transformed).unwrap();
    let bytes = description.to_bytes();
    assert_eq!(Description::read(&bytes, true).unwrap().layout(), layout);
    let error = Description::read(&bytes, false).unwrap_err().to_string();
    assert!(error.contains("a secure one"), "{error}");
    assert!(Description::read(&bytes[..bytes.len() - 1], true).is_err());
    assert!(Description::read(&[], true).is_err());
    // Queries of another version: here those of earlier releases, with all coefficients of their bodies.
    let changed = crate::damage::with_fields(&bytes, &[7 << 3, QUERY_FORMAT as u8 - 1]);
    let error = Description::read(&changed, true).unwrap_err().to_string();
    assert!(error.contains("queries") && error.contains("update"), "{error}");
    for wrong in [
        Layout::Keys { buckets: 0, bucket_bytes: 256, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 1 << 60, bucket_bytes: 256, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 40, bucket_bytes: u32::MAX, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 40, bucket_bytes: 256, candidates: 9, seed: [0; 16] },
        Layout::Index { records: u64::MAX, length: Length::Fixed(256) },
        Layout::Index { records: 5, length: Length::Variable { max: u32::MAX } },
    ] {
        assert!(describe(&parameters(), wrong, TableKind::Transformed).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_stored_secret_reads_what_it_asked_for_before() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Bits));
    let secret = pair.client.secret_bytes().unwrap();
    let description = pair.client.description().clone();
    let open = |bytes: &[u8]| PirClient::open(description.clone(), options(Mode::Bits), Some(bytes));
    let query = pair.query(&[Question::Index(8)]).unwrap();
    let answer = pair.answer(&query);
    let client = open(&secret).unwrap();
    let found = client.read(&answer, &client.encode(&[Question::Index(8)]).unwrap()).unwrap();
    assert_eq!(found[0].record.as_deref(), Some(&vec![8; 96]));
    assert!(open(&secret[1..]).is_err());
}

#[test]
fn an_index_that_does_not_exist_is_asked_for_all_the_same() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Compact));
    let inside = pair.query(&[Question::Index(1), Question::Index(49)]).unwrap();
    let questions = [Question::Index(1), Question::Index(7_654_321)];
    let outside = pair.query(&questions).unwrap();
    assert_eq!(inside.len(), outside.len());
    let error = pair.read(&pair.answer(&outside), &questions).unwrap_err();
    assert!(matches!(error, PirError::NoSuchIndex { position: 1, records: 50 }), "{error}");
    assert!(!error.to_string().contains("7654321"), "{error}");
}

#[test]
fn a_database_that_shrank_is_refused() {
    let description = |records| {
        let layout = Layout::Index { records, length: Length::Fixed(100) };
        describe(&parameters(), layout, TableKind::Transformed).unwrap()
    };
    PirClient::check_change(&description(2000), &description(3000)).unwrap();
    PirClient::check_change(&description(2000), &description(2000)).unwrap();
    let error = PirClient::check_change(&description(3000), &description(2000)).unwrap_err();
    assert!(error.to_string().contains("do not trust this service"), "{error}");
    // Nor may it become one by key, after which a smaller one by index would be accepted.
    let by_key = describe(&parameters(), by_key(&[]).0, TableKind::Transformed).unwrap();
    PirClient::check_change(&by_key, &by_key).unwrap();
    for (earlier, now) in [(&description(3000), &by_key), (&by_key, &description(2000))] {
        let error = PirClient::check_change(earlier, now).unwrap_err().to_string();
        assert!(error.contains("delete this client's state directory"), "{error}");
    }
}

#[test]
fn encrypted_tables_cannot_become_tables_of_the_service() {
    let [transformed, dense, wide, encrypted] =
        TableKind::ALL.map(|kind| describe(&parameters(), by_index().0, kind).unwrap());
    PirClient::check_change(&encrypted, &encrypted).unwrap();
    PirClient::check_change(&transformed, &encrypted).unwrap();
    for other in [&transformed, &dense, &wide] {
        let error = PirClient::check_change(&encrypted, other).unwrap_err().to_string();
        assert!(error.contains("needed encrypted ones, as before"), "{error}");
    }
}

#[test]
fn one_client_cannot_use_up_the_session_numbers_of_another() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(Mode::Session));
    let query = pair.query(&[Question::Index(1)]).unwrap();
    // A client with the same public seed sends the largest number possible, and another query under the victim's
    // number.
    let attacker = ClientId::new([2; 16]);
    let answer = |client, query: &[u8]| pair.server.answer(&Request::new(client, &pair.keys, query), &Call::default());
    answer(attacker, &with_checksum(Mode::Session, [&query[..4], &[9; 4]].concat())).unwrap();
    answer(attacker, &with_checksum(Mode::Session, vec![255, 255, 255, 255, 0, 0, 0, 0])).unwrap();
    answer(CLIENT, &query).unwrap();
    assert!(pair.server.prepared_bytes() > 1 << 20, "the memory of numbers is counted");
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let (layout, cells) = by_index();
    for mode in Mode::ALL {
        let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), options(mode));
        let question = [Question::Index(5)];
        let request = pair.query(&question).unwrap();
        let answer = pair.answer(&request);
        crate::damage::assert_damage_is_refused(&[
            ("description", pair.server.describe(), &|bytes| {
                Description::read(bytes, true).map(drop).map_err(|error| error.to_string())
            }),
            ("request", request, &|bytes| {
                let answer = pair.try_answer(bytes);
                answer.map(drop).map_err(|error| error.to_string())
            }),
            ("answer", answer, &|bytes| pair.read(bytes, &question).map(drop).map_err(|error| error.to_string())),
        ]);
    }
}

#[test]
fn descriptions_of_dense_tables_name_their_masks() {
    let of_kind = |kind| Tables::new(&parameters(), by_index().0, kind).unwrap();
    let tables = of_kind(TableKind::Dense);
    let wide = of_kind(TableKind::Wide).with_masks(MaskSeed([7; 16])).unwrap();
    let seeded = |byte| tables.clone().with_masks(MaskSeed([byte; 16])).unwrap();
    let bytes = |tables: &Tables| Description::new(tables).unwrap().to_bytes();
    for tables in [&tables, &seeded(7), &wide] {
        let read = Description::read(&bytes(tables), true).unwrap();
        assert_eq!(read.tables(), tables);
        assert_eq!(read.tables().masks(), tables.masks());
    }
    assert!(tables != seeded(7) && seeded(8) != seeded(7) && wide != seeded(7));
    // Releases that share the masks of all databases read another version, and refuse it.
    let refused = |fields: &[u8]| {
        Description::read(&crate::damage::with_fields(&bytes(&seeded(7)), fields), true).unwrap_err().to_string()
    };
    let error = refused(&[7 << 3, QUERY_FORMATS[0] as u8]);
    assert!(error.contains("queries: found version 3, needed version 4"), "{error}");
    // No seed, one of another length, and one for tables that have no such masks.
    let error = refused(&[9 << 3 | 2, 0]);
    assert!(error.contains("queries: found version 4, needed version 3"), "{error}");
    let error = refused(&[&[9 << 3 | 2, 15][..], &[7; 15]].concat());
    assert!(error.contains("seed of masks: found 15 bytes, needed 16 bytes, or none"), "{error}");
    let error = refused(&[8 << 3, 2]);
    assert!(error.contains("seed of masks: found 16 bytes, needed none"), "{error}");
    let transformed = Tables::new(&parameters(), by_index().0, TableKind::Transformed).unwrap();
    assert!(transformed.with_masks(MaskSeed([1; 16])).is_err());
}

/// A client that has read the description before a database was built again does not read its answers as data.
#[test]
fn answers_from_tables_with_other_masks_are_refused() {
    let (layout, cells) = by_index();
    let of = |version| Cells::of_kind(&parameters(), layout, TableKind::Dense, version, &cells);
    let (mut pair, _) = Pair::new(of(9), options(Mode::Packed));
    let (other, _) = Pair::new(of(10), options(Mode::Packed));
    let questions = [Question::Index(4)];
    let query = pair.query(&questions).unwrap();
    let answer = other.server.answer(&Request::new(CLIENT, &pair.keys, &query), &Call::default()).unwrap();
    let error = pair.read(&answer, &questions).unwrap_err().to_string();
    assert!(error.contains("layout"), "{error}");
}

#[test]
fn records_are_found_in_dense_tables() {
    let (by_index, by_key) = (by_index(), by_key(&[("A00", "cholera"), ("A01", "typhoid")]));
    let tables = [(TableKind::Dense, &by_index), (TableKind::Dense, &by_key), (TableKind::Wide, &by_index)];
    for (kind, &(layout, ref cells)) in tables {
        let cells = Cells::of_kind(&parameters(), layout, kind, 9, cells);
        let (mut pair, _) = Pair::new(cells, options(Mode::Packed));
        let (questions, expected) = match layout {
            Layout::Index { .. } => ([4, 3].map(Question::Index), [Some(vec![4; 48]), None]),
            Layout::Keys { .. } => {
                (["A00", "Z99"].map(|key| Question::Key(key.into())), [Some(b"cholera".to_vec()), None])
            }
        };
        let found = pair.ask(&questions).into_iter().map(|answer| answer.record.map(|record| record.to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let error = PirClient::open(pair.client.description().clone(), options(Mode::Compact), None);
        let error = error.err().unwrap().to_string();
        assert!(error.contains(&format!("packed: the database has {kind} tables")), "{error}");
        // A request of another kind of queries.
        let other = with_checksum(Mode::Compact, vec![1; 36]);
        let error = pair.try_answer(&other).unwrap_err();
        assert!(error.to_string().contains(&format!("{kind} tables")), "{error}");
    }
}

#[test]
fn requests_that_are_answered_together_do_not_disturb_each_other() {
    let (layout, cells) = by_index();
    let cells = Cells::of_kind(&parameters(), layout, TableKind::Dense, 9, &cells);
    let (mut first, database) = Pair::new(Arc::clone(&cells), options(Mode::Packed));
    let description = first.client.description().clone();
    let mut second = PirClient::open(description, options(Mode::Packed), None).unwrap();
    let mut bundle = Vec::new();
    second.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
    let keys = first.server.load_keys(&mut bundle.as_slice()).unwrap();
    let theirs = second.encode(&[Question::Index(2), Question::Index(5)]).unwrap();
    let (query, their_query) = (first.query(&[Question::Index(4)]).unwrap(), second.query(&theirs).unwrap());
    let requests = [
        Request { client: CLIENT, keys: &first.keys, query: &query },
        Request { client: CLIENT, keys: &first.keys, query: &query[1..] },
        Request { client: ClientId::new([2; 16]), keys: &keys, query: &their_query },
    ];
    assert!(first.server.limits().most_together > 16);
    let answers = first.server.answer_together(&requests, &Call::default());
    let [ours, damaged, their] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert_eq!(first.read(ours.as_ref().unwrap(), &[Question::Index(4)]).unwrap()[0], found(&[4; 48], 9));
    assert!(matches!(damaged, Err(PirError::Protocol(_))), "{damaged:?}");
    let their = second.read(their.as_ref().unwrap(), &theirs).unwrap();
    assert_eq!(their, [found(&[2; 24], 9), found(&[5; 60], 9)]);
    let stopped = first.server.answer_together(&requests[..1], &Call::new(&AtomicBool::new(true)));
    assert_eq!(stopped[0].as_ref().unwrap_err().kind(), ErrorKind::Cancelled);
    *database.staleness.lock().unwrap() = Some(Staleness::Replaced);
    assert!(first.server.answer_together(&requests, &Call::default()).iter().all(Result::is_err));
}

#[test]
fn keys_serve_the_smaller_kinds_of_queries_too() {
    let (layout, cells) = by_index();
    let cells = Cells::new(&parameters(), layout, 9, &cells);
    for (held, asked, serve) in [
        (Mode::Compact, Mode::Bits, true),
        (Mode::Compact, Mode::Session, true),
        (Mode::Bits, Mode::Packed, true),
        (Mode::Packed, Mode::Bits, false),
        (Mode::Bits, Mode::Compact, false),
    ] {
        let (mut pair, _) = Pair::new(Arc::clone(&cells), options(held));
        let (secret, contents) = (pair.client.secret_bytes().unwrap(), pair.client.bundle_contents());
        let description = pair.client.description().clone();
        pair.client = PirClient::open(description, options(asked), Some(&secret)).unwrap();
        assert_eq!(pair.client.is_covered_by(&contents), serve, "{held} {asked}");
        let question = [Question::Index(4)];
        let query = pair.query(&question).unwrap();
        let answer = pair.try_answer(&query);
        match serve {
            true => assert_eq!(pair.read(&answer.unwrap(), &question).unwrap()[0], found(&[4; 48], 9)),
            // A bundle of the larger kind replaces the other one.
            false => {
                assert!(pair.client.set_shared_keys(&contents, u64::MAX));
                assert_eq!(answer.unwrap_err().kind(), ErrorKind::Mismatch);
            }
        }
        assert!(!pair.client.is_covered_by(b"of other parameters"));
    }
}
