//! A router and shards in one process, at insecure parameters: right answers, and shards that are missing, replaced or
//! hostile.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

use unspoken_pir::{
    Description, PirClient, PirError, PirOptions, PirRouter, Question, ShardDescription, ShardServer, Shards,
};
use unspoken_pir_scheme::dense::{DensePart, DenseTable, GroupView};
use unspoken_pir_scheme::{
    DatabaseShard, Layout, Length, Mode, PirParameters, PreparedKeys, Preset, SeededKeys, ShardId, TableKind, Tables,
};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, ClientId, DurableCounters, ErrorKind, ForwardedKeys,
    Group, KeyGenerator, KeyLoader, Request, ServerHalf, ShardAccess, ShardFailure, ShardProblem,
};
use unspoken_ring::SecretRng;

const CLIENT: ClientId = ClientId::new([1; 16]);

/// Bytes of a record, which has two planes.
const RECORD: usize = 4096;

/// Records that fill three blocks of rows.
const RECORDS: u64 = 4200;

static GO: AtomicBool = AtomicBool::new(false);

fn record(version: u64, index: u64) -> Vec<u8> {
    let mut bytes = vec![0; RECORD];
    SecretRng::insecure_from_seed(version << 32 | index).fill(&mut bytes);
    bytes
}

fn tables(parameters: &PirParameters, records: u64) -> Tables {
    let layout = Layout::Index { records, length: Length::Fixed(RECORD as u32) };
    Tables::new(parameters, layout, TableKind::Dense).unwrap()
}

/// A shard in memory.
struct TestShard {
    id: ShardId,
    version: u64,
    tables: Tables,
    part: DensePart,
    planes: Vec<DenseTable>,
}

impl TestShard {
    /// The service of a shard, which tests share.
    fn server(parameters: &PirParameters, version: u64, place: (u32, u32)) -> Arc<ShardServer<TestShard>> {
        type Servers = HashMap<(u64, (u32, u32)), Arc<OnceLock<Arc<ShardServer<TestShard>>>>>;
        static SERVERS: LazyLock<Mutex<Servers>> = LazyLock::new(Mutex::default);
        let server = Arc::clone(SERVERS.lock().unwrap().entry((version, place)).or_default());
        Arc::clone(server.get_or_init(|| TestShard::new_server(parameters, version, place)))
    }

    fn new_server(
        parameters: &PirParameters,
        version: u64,
        (number, shards): (u32, u32),
    ) -> Arc<ShardServer<TestShard>> {
        let tables = tables(parameters, RECORDS);
        let part = tables.split(shards as usize).unwrap().part(parameters, number as usize - 1).unwrap();
        let piece = tables.piece_bytes();
        let plane = |plane: usize| {
            let cell = |cell| record(version, cell)[plane * piece..][..piece].to_vec();
            DenseTable::build_part(parameters, part.clone(), cell).unwrap()
        };
        let planes = (0..tables.planes()).map(plane).collect();
        let id = ShardId { split: [version as u8; 16], number, shards };
        Arc::new(ShardServer::new(TestShard { id, version, tables, part, planes }).unwrap())
    }
}

impl DatabaseShard for TestShard {
    fn id(&self) -> ShardId {
        self.id
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn part(&self) -> &DensePart {
        &self.part
    }

    fn planes(&self) -> Vec<Vec<GroupView<'_>>> {
        self.planes.iter().map(DenseTable::groups).collect()
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

/// What is at an address.
#[derive(Clone)]
enum Behind {
    Shard(Arc<ShardServer<TestShard>>),
    /// Describes itself as a shard, and answers with these bytes.
    Liar(Arc<ShardServer<TestShard>>, Vec<u8>),
    /// Describes itself as a shard, and works until it is told to stop.
    Slow(Arc<ShardServer<TestShard>>),
    /// Answers every call with these bytes.
    Bytes(Vec<u8>),
    Nothing,
}

/// An address, and the queries that have arrived there.
#[derive(Clone)]
struct Address(Arc<RwLock<Behind>>, Arc<Mutex<Vec<Vec<u8>>>>);

impl Address {
    fn new(behind: Behind) -> Self {
        Address(Arc::new(RwLock::new(behind)), Arc::default())
    }

    fn set(&self, behind: Behind) {
        *self.0.write().unwrap() = behind;
    }

    fn behind(&self) -> Behind {
        self.0.read().unwrap().clone()
    }
}

impl ShardAccess for Address {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        match self.behind() {
            Behind::Shard(server) | Behind::Liar(server, _) | Behind::Slow(server) => Ok(server.describe()),
            Behind::Bytes(bytes) => Ok(bytes),
            Behind::Nothing => Err(ShardFailure::NoAnswer),
        }
    }

    fn ask(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, ShardFailure> {
        self.1.lock().unwrap().push(query.to_vec());
        match self.behind() {
            Behind::Shard(server) => {
                let keys: PreparedKeys = server.load_keys(&mut keys.bundle()).unwrap();
                let answer = server
                    .answer(&Request::new(CLIENT, &keys, query), &Call::new(cancel))
                    .map_err(|_| ShardFailure::NoAnswer)?;
                assert!(answer.len() <= most && most <= server.limits().answer_bytes);
                Ok(answer)
            }
            Behind::Liar(_, bytes) | Behind::Bytes(bytes) => Ok(bytes),
            Behind::Slow(_) => {
                while !cancel.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(ShardFailure::Cancelled)
            }
            Behind::Nothing => Err(ShardFailure::NoAnswer),
        }
    }
}

struct NoCounters;

impl DurableCounters for NoCounters {
    fn start(&self, _session: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _session: &[u8; 16], _count: u32) -> io::Result<u32> {
        unreachable!("packed queries have no numbers")
    }
}

/// Shards of one version, their addresses, a router and a client of it.
struct Scene {
    parameters: PirParameters,
    addresses: Vec<Address>,
    shards: Arc<Shards<Address>>,
    router: PirRouter<Address>,
    client: PirClient,
    keys: ForwardedKeys,
}

impl Scene {
    fn new(shards: u32) -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        // The addresses are not in the order of the shards.
        let server = |number| Behind::Shard(TestShard::server(&parameters, 1, (number, shards)));
        let addresses: Vec<Address> = (1..=shards).rev().map(|number| Address::new(server(number))).collect();
        let shards = Arc::new(Shards::insecure_new(addresses.clone()).unwrap());
        let router = PirRouter::new(Arc::clone(&shards));
        let description = Description::read(&router.describe(), true).unwrap();
        let client = PirClient::open(description, PirOptions::new(Mode::Packed, NoCounters), None).unwrap();
        let mut bundle = Vec::new();
        client.write_keys(&mut bundle, |_, _| (), &GO).unwrap();
        let keys = router.load_keys(&mut bundle.as_slice()).unwrap();
        assert_eq!(keys.bundle(), bundle);
        Scene { parameters, addresses, shards, router, client, keys }
    }

    /// Asks, and returns the records and their version.
    fn ask(&mut self, indices: &[u64]) -> Result<(Vec<Vec<u8>>, u64), PirError> {
        let questions: Vec<Question> = indices.iter().map(|&index| Question::Index(index)).collect();
        let encoded = self.client.encode(&questions).unwrap();
        let query = self.client.query(&encoded).unwrap();
        let answer = self.router.answer(&Request::new(CLIENT, &self.keys, &query), &Call::default())?;
        let answers = self.client.read(&answer, &encoded).unwrap();
        let version = answers[0].version;
        Ok((answers.into_iter().map(|answer| answer.record.unwrap().to_vec()).collect(), version))
    }

    /// The problem that a question meets.
    fn problem(&mut self) -> ShardProblem {
        match self.ask(&[3]) {
            Err(PirError::Shard(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }

    /// Number of queries that have arrived at shards.
    fn passed_on(&self) -> usize {
        self.addresses.iter().map(|address| address.1.lock().unwrap().len()).sum()
    }

    fn shard(&self, version: u64, number: u32) -> Arc<ShardServer<TestShard>> {
        TestShard::server(&self.parameters, version, (number, self.addresses.len() as u32))
    }
}

#[test]
fn a_router_answers_as_the_whole_database_would() {
    for shards in [1, 3] {
        let mut scene = Scene::new(shards);
        let whole = Description::new(&tables(&scene.parameters, RECORDS)).unwrap();
        assert_eq!(scene.router.describe(), whole.to_bytes());
        for indices in [[0, 2047, 2048], [4095, 4096, RECORDS - 1]] {
            let (records, version) = scene.ask(&indices).unwrap();
            assert_eq!(version, 1);
            for (found, index) in records.iter().zip(indices) {
                assert_eq!(*found, record(1, index), "{index} in {shards} shards");
            }
        }
        assert_eq!(scene.router.limits().answer_bytes, whole.answer_bytes(whole.most_queries()));
        scene.router.check_ready().unwrap();
    }
}

#[test]
fn a_shard_that_is_gone_is_named_and_back_when_it_is_back() {
    let mut scene = Scene::new(2);
    // The second address has the first shard.
    let first = scene.addresses[1].behind();
    scene.addresses[1].set(Behind::Nothing);
    let gone = ShardProblem::NoAnswer { number: 1, shards: 2 };
    assert_eq!(scene.problem(), gone);
    let error = scene.ask(&[3]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().starts_with("shard 1 of 2 does not answer; needed all shards"), "{error}");
    assert_eq!(scene.shards.look(), Err(gone.clone()));
    assert_eq!(scene.router.check_ready().unwrap_err().to_string(), gone.to_string());
    // A shard that works meanwhile is told to stop.
    scene.addresses[0].set(Behind::Slow(scene.shard(1, 2)));
    assert_eq!(scene.problem(), gone);
    scene.addresses[0].set(Behind::Shard(scene.shard(1, 2)));
    scene.addresses[1].set(first);
    assert_eq!(scene.shards.look(), Ok(false));
    scene.router.check_ready().unwrap();
    assert_eq!(scene.ask(&[4000]).unwrap(), (vec![record(1, 4000)], 1));
}

#[test]
fn shards_of_different_versions_are_refused_until_all_are_replaced() {
    let mut scene = Scene::new(2);
    scene.addresses[0].set(Behind::Shard(scene.shard(2, 2)));
    let problem = scene.problem();
    assert!(matches!(problem, ShardProblem::Differs { number: 2, shards: 2, .. }), "{problem:?}");
    let problem = scene.shards.look().unwrap_err().to_string();
    assert!(problem.contains("version 1 of the database") && problem.contains("version 2 as at shard 2"), "{problem}");
    assert!(scene.router.check_ready().is_err());
    scene.addresses[1].set(Behind::Shard(scene.shard(2, 1)));
    // Not taken up before the next look; nothing is passed on until then.
    let before = scene.passed_on();
    assert!(matches!(scene.problem(), ShardProblem::Differs { .. }));
    assert_eq!(scene.passed_on(), before);
    assert_eq!(scene.shards.look(), Ok(true));
    assert_eq!(scene.shards.agreed().version(), 2);
    assert_eq!(scene.ask(&[5, 4199]).unwrap(), (vec![record(2, 5), record(2, 4199)], 2));
    // Version numbers do not fall.
    (0..2).for_each(|at| scene.addresses[at].set(Behind::Shard(scene.shard(1, 2 - at as u32))));
    let problem = scene.shards.look().unwrap_err().to_string();
    assert!(problem.contains("found version 1, earlier than 2"), "{problem}");
    assert!(matches!(scene.problem(), ShardProblem::Differs { .. }));
}

#[test]
fn routers_of_wrong_shards_do_not_start() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let shard = |version, place| Address::new(Behind::Shard(TestShard::server(&parameters, version, place)));
    let garbage = Address::new(Behind::Bytes(b"no description".to_vec()));
    let whole = Description::new(&tables(&parameters, RECORDS)).unwrap().to_bytes();
    for (addresses, reason) in [
        (vec![], "shards of a router: found 0, needed the address of each shard"),
        (vec![shard(1, (1, 2))], "found one of 2 shards, needed one of 1"),
        (vec![shard(1, (1, 2)), shard(1, (1, 2))], "found shard 1 at two addresses"),
        (vec![shard(1, (1, 2)), shard(2, (2, 2))], "found version 2 of the database"),
        (vec![shard(1, (1, 2)), Address::new(Behind::Nothing)], "shard 2 of 2 does not answer"),
        (vec![shard(1, (1, 2)), garbage], "needed a shard of this release"),
        (vec![Address::new(Behind::Bytes(whole))], "found one of kind retrieve, needed one of kind retrieve-shard"),
    ] {
        let error = Shards::insecure_new(addresses).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
    // Insecure parameters are accepted for tests alone.
    let error = Shards::new(vec![shard(1, (1, 1))]).err().unwrap().to_string();
    assert!(error.contains("a secure one"), "{error}");
}

#[test]
fn whatever_a_shard_answers_nothing_partial_is_returned() {
    let mut scene = Scene::new(2);
    let honest = scene.shard(1, 1);
    let encoded = scene.client.encode(&[Question::Index(3)]).unwrap();
    let query = scene.client.query(&encoded).unwrap();
    let keys = honest.load_keys(&mut scene.keys.bundle()).unwrap();
    let answer = honest.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap();
    let other = scene.shard(1, 2).answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap();
    // Well formed, whatever the query.
    scene.addresses[0].set(Behind::Liar(scene.shard(1, 2), other.clone()));
    let sealed = |content: &[u8]| [content, &blake3::hash(content).as_bytes()[..8]].concat();
    let content = &answer[..answer.len() - 8];
    let mut large = content.to_vec();
    large[36..].fill(0xff);
    for bytes in [
        vec![],
        b"garbage".to_vec(),
        answer[..answer.len() - 1].to_vec(),
        sealed(&content[..30]),
        sealed(&content[..content.len() - 1]),
        sealed(&large),
        other,
    ] {
        scene.addresses[1].set(Behind::Liar(Arc::clone(&honest), bytes));
        let problem = scene.problem();
        assert!(matches!(problem, ShardProblem::Differs { number: 1, shards: 2, .. }), "{problem:?}");
    }
    for at in (0..content.len()).step_by(2999) {
        let mut changed = answer.clone();
        changed[at] ^= 1;
        scene.addresses[1].set(Behind::Liar(Arc::clone(&honest), changed));
        assert!(matches!(scene.problem(), ShardProblem::Differs { number: 1, .. }), "byte {at}");
    }
}

#[test]
fn a_malformed_request_among_others_is_not_passed_on() {
    let mut scene = Scene::new(2);
    let encoded = scene.client.encode(&[Question::Index(9)]).unwrap();
    let good = scene.client.query(&encoded).unwrap();
    let mut bad = good.clone();
    bad[1000] ^= 1;
    let none = Vec::new();
    let requests = [&good, &bad, &good, &none].map(|query| Request { client: CLIENT, keys: &scene.keys, query });
    let answers = scene.router.answer_together(&requests, &Call::default());
    for (at, answer) in answers.iter().enumerate() {
        match (at, answer) {
            (0 | 2, Ok(answer)) => {
                let read = scene.client.read(answer, &encoded).unwrap();
                assert_eq!(read[0].record.as_ref().unwrap().as_slice(), record(1, 9));
            }
            (1 | 3, Err(error)) => assert_eq!(error.kind(), ErrorKind::Malformed),
            other => panic!("{other:?}"),
        }
    }
    for address in &scene.addresses {
        assert_eq!(*address.1.lock().unwrap(), [good.clone(), good.clone()]);
    }
}

#[test]
fn a_shard_answers_the_sound_requests_among_others() {
    let mut scene = Scene::new(2);
    let shard = scene.shard(1, 1);
    let keys = shard.load_keys(&mut scene.keys.bundle()).unwrap();
    let encoded = scene.client.encode(&[Question::Index(9), Question::Index(3000)]).unwrap();
    let good = scene.client.query(&encoded).unwrap();
    let bad = [&good[..good.len() - 1], &[!good[good.len() - 1]]].concat();
    let requests = [&good, &bad, &good].map(|query| Request { client: CLIENT, keys: &keys, query });
    let answers = shard.answer_together(&requests, &Call::default());
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Malformed);
    let stopped = shard.answer_together(&requests[..1], &Call::new(&AtomicBool::new(true)));
    assert!(stopped[0].as_ref().unwrap_err().is_cancelled());
    // A pass is filled by queries, not by requests. A router passes on all queries that may wait at a shard, each
    // alone: a client whose keys must be sent first does not hold up the others.
    let (two, forwarded) = (
        shard.group(&Request::new(CLIENT, &keys, &good)),
        scene.router.group(&Request::new(CLIENT, &scene.keys, &good)),
    );
    assert_eq!((two.weight, two.most, shard.limits().most_together), (2, 16, 32));
    assert!(scene.router.limits().waits_for_others);
    assert_eq!((forwarded, scene.router.limits().most_together), (Group::ALONE, 32));
    assert_eq!(shard.group(&Request::new(CLIENT, &keys, &[])).weight, 1);
}

#[test]
fn a_router_takes_keys_for_packed_queries_alone_and_stops_when_told_to() {
    let mut scene = Scene::new(2);
    let bundle = scene.keys.bundle().to_vec();
    assert_eq!(bundle.len() as u64, SeededKeys::byte_len(&scene.parameters, Mode::Packed));
    let mut changed = bundle.clone();
    changed[200..300].fill(0xff);
    for wrong in [&[][..], &bundle[..100], &bundle[..bundle.len() - 1], &[&bundle[..], &[0]].concat(), &changed] {
        let kind = scene.router.load_keys(&mut &*wrong).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Malformed | ErrorKind::Mismatch), "{kind:?}");
    }
    let description = Description::read(&scene.router.describe(), true).unwrap();
    let mut compact = bundle.clone();
    // The mode follows the magic number, the version and the fingerprint.
    let modes: Vec<u8> = (0..=u8::MAX).filter(|&mode| mode != bundle[28]).collect();
    for mode in modes {
        compact[28] = mode;
        assert!(scene.router.loaded_key_bytes(&compact).is_err());
    }
    assert!(scene.router.loaded_key_bytes(&bundle).unwrap() >= bundle.len() as u64);
    assert_eq!(description.parameters().fingerprint(), scene.parameters.fingerprint());
    // All shards are slow, and the client goes.
    for (at, number) in [2, 1].into_iter().enumerate() {
        scene.addresses[at].set(Behind::Slow(scene.shard(1, number)));
    }
    let encoded = scene.client.encode(&[Question::Index(9)]).unwrap();
    let query = scene.client.query(&encoded).unwrap();
    let gone = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            gone.store(true, Ordering::Relaxed);
        });
        scene.router.answer(&Request::new(CLIENT, &scene.keys, &query), &Call::new(&gone)).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn descriptions_of_shards_are_read_back_and_damage_is_found() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Description::new(&tables(&parameters, RECORDS)).unwrap();
    let describe = |number, shards| {
        let id = ShardId { split: [7; 16], number, shards };
        ShardDescription::new(database.clone(), id, 5).to_bytes()
    };
    let bytes = describe(2, 3);
    let read = ShardDescription::read(&bytes, true).unwrap();
    assert_eq!((read.id().number, read.id().shards, read.id().split, read.version()), (2, 3, [7; 16], 5));
    assert_eq!(read.database().to_bytes(), database.to_bytes());
    assert_eq!(read.key_set(), database.key_set());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(ShardDescription::read(&damaged, true).is_err(), "byte {at}");
    }
    for (number, shards) in [(0, 3), (4, 3), (1, 0), (1, 4)] {
        assert!(ShardDescription::read(&describe(number, shards), true).is_err(), "{number} of {shards}");
    }
}
