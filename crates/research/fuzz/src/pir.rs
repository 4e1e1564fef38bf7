//! Targets for private retrieval: keys and requests that a service decodes, descriptions and answers that a client
//! decodes, buckets and encrypted entries.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use prost::Message;
use unspoken_gsw::{BinaryRingLiteral, BootstrapLiteral, GadgetLiteral, LweLiteral};
use unspoken_pir::{
    Description, PROTOCOL_VERSION, PirClient, PirOptions, PirServer, Question, SHARD_PROTOCOL_VERSION, ShardDescription,
};
use unspoken_pir_scheme::dense::{DenseQuery, DenseResponse, DenseShape, PartialResponse, QUERY_FORMATS};
use unspoken_pir_scheme::layout::Bucket;
use unspoken_pir_scheme::{
    Database, DatabaseVersion, EncryptedEntry, KeyHeader, Layout, Length, Mode, PirLiteral, PirParameters, PirSecret,
    Planes, PreparedKeys, Preset, QUERY_FORMAT, Response, ResponseLiteral, ShardId, TableKind, Tables,
    VersionedDatabase,
};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, DurableCounters, KeyGenerator, KeyLoader, Request,
    ServerHalf,
};
use unspoken_ring::modular::primes_descending;

use crate::fixtures::{CLIENT, query, read, rng};
use crate::{Target, messages};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct DescriptionMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    preset: String,
    #[prost(bytes = "vec", tag = "3")]
    fingerprint: Vec<u8>,
    #[prost(message, tag = "4")]
    by_index: Option<ByIndex>,
    #[prost(message, tag = "5")]
    by_key: Option<ByKey>,
    #[prost(uint32, tag = "6")]
    most_queries: u32,
    #[prost(uint32, tag = "7")]
    query_format: u32,
    #[prost(uint32, tag = "8")]
    tables: u32,
    #[prost(bytes = "vec", tag = "9")]
    mask_seed: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    sealing: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ByIndex {
    #[prost(uint64, tag = "1")]
    records: u64,
    #[prost(uint32, tag = "2")]
    bytes: u32,
    #[prost(bool, tag = "3")]
    variable: bool,
}

#[derive(Clone, PartialEq, Message)]
struct ByKey {
    #[prost(uint64, tag = "1")]
    buckets: u64,
    #[prost(uint32, tag = "2")]
    bucket_bytes: u32,
    #[prost(uint32, tag = "3")]
    candidates: u32,
    #[prost(bytes = "vec", tag = "4")]
    seed: Vec<u8>,
}

static PARAMETERS: LazyLock<PirParameters> = LazyLock::new(|| Preset::InsecureN11.build().expect("builds"));

const LAYOUT: Layout = Layout::Keys { buckets: 20, bucket_bytes: 300, candidates: 2, seed: [3; 16] };

/// Two planes of one cell each for twenty buckets. One bucket has a record.
struct Cells(Vec<Database>);

impl DatabaseVersion for Cells {
    fn version(&self) -> u64 {
        1
    }

    fn tables(&self) -> &Tables {
        &TABLES
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Transformed(self.0.iter().map(Database::view).collect())
    }
}

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| Tables::new(&PARAMETERS, LAYOUT, TableKind::Transformed).expect("tables"));

struct Shelf(Arc<Cells>);

impl VersionedDatabase for Shelf {
    type Version = Cells;

    fn parameters(&self) -> &PirParameters {
        &PARAMETERS
    }

    fn current(&self) -> Arc<Cells> {
        Arc::clone(&self.0)
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

static RETRIEVER: LazyLock<PirServer<Shelf>> = LazyLock::new(|| {
    let planes = (0..2).map(|plane| Database::new(&PARAMETERS, plane, &[0; 20 * 256]).expect("a table"));
    PirServer::new(Shelf(Arc::new(Cells(planes.collect())))).expect("a service")
});

/// The query modes without counters, and their keys at the service.
static CLIENTS: LazyLock<Vec<(Mode, PreparedKeys)>> = LazyLock::new(|| {
    let keys = |mode| {
        let mut bundle = Vec::new();
        client(mode).write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).expect("writes to memory");
        (mode, RETRIEVER.load_keys(&mut bundle.as_slice()).expect("the client's keys"))
    };
    [Mode::Compact, Mode::Bits, Mode::Packed].map(keys).into()
});

/// No counters: the clients here never begin, and no query mode used here needs them.
pub(crate) struct NoCounters;

impl DurableCounters for NoCounters {
    fn start(&self, _: &[u8; 16]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn client(mode: Mode) -> PirClient {
    let description = Description::read(&RETRIEVER.describe(), true).expect("its own");
    PirClient::open(description, PirOptions::new(mode, NoCounters), Some(&[7; 32])).expect("a client")
}

/// `Description::read`: a decoded description encodes to the same bytes; all sizes derived from it are finite.
pub static DESCRIBED: Target = Target {
    name: "pir_description",
    run: |data| {
        let Ok(description) = Description::read(data, true) else { return false };
        let again = Description::read(&description.to_bytes(), true).expect("its own bytes");
        assert_eq!((again.tables(), again.sealing()), (description.tables(), description.sealing()));
        assert!((1..=description.most_queries()).contains(&description.most_questions()));
        let modes = description.tables().kind().modes();
        assert!(modes.iter().all(|&mode| description.query_bytes(mode) < 1 << 22));
        assert!(description.answer_bytes(description.most_queries()) < 1 << 30);
        true
    },
    repair: |data| {
        let Ok(mut message) = DescriptionMessage::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        message.tables %= 4;
        let dense = (QUERY_FORMATS[0], 4);
        let (format, most) = [(QUERY_FORMAT, 16), dense, (QUERY_FORMAT, 4), dense][message.tables as usize];
        message.query_format = format;
        match (message.tables, message.mask_seed.is_empty()) {
            (1 | 3, false) => {
                message.mask_seed.resize(16, 0);
                message.query_format = QUERY_FORMATS[1];
            }
            _ => message.mask_seed.clear(),
        }
        if !message.sealing.is_empty() {
            message.sealing.resize(16, 0);
        }
        message.preset = PARAMETERS.name().into();
        message.fingerprint = PARAMETERS.fingerprint().to_vec();
        message.most_queries = message.most_queries.clamp(3, most);
        if let Some(by_key) = &mut message.by_key {
            by_key.seed.resize(16, 0);
        }
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || {
        let by_index = DescriptionMessage {
            by_index: Some(ByIndex { records: 1 << 20, bytes: 256, variable: false }),
            version: PROTOCOL_VERSION,
            preset: PARAMETERS.name().into(),
            fingerprint: PARAMETERS.fingerprint().to_vec(),
            by_key: None,
            most_queries: 16,
            query_format: QUERY_FORMAT,
            tables: 0,
            mask_seed: Vec::new(),
            sealing: Vec::new(),
        };
        let dense =
            DescriptionMessage { most_queries: 4, query_format: QUERY_FORMATS[0], tables: 1, ..by_index.clone() };
        let masks = vec![7; 16];
        let own_masks = DescriptionMessage { query_format: QUERY_FORMATS[1], mask_seed: masks, ..dense.clone() };
        let wide = DescriptionMessage { tables: 3, ..own_masks.clone() };
        let encrypted = DescriptionMessage { most_queries: 4, tables: 2, ..by_index.clone() };
        let sealed = DescriptionMessage { sealing: vec![6; 16], ..by_index.clone() };
        let described = [by_index, dense, own_masks, wide, encrypted, sealed]
            .map(|message| messages::description(Description::PROTOCOL, &message));
        [vec![RETRIEVER.describe()], described.into()].concat()
    },
};

/// Fields of the description of a shard.
#[derive(Clone, PartialEq, Message)]
struct ShardMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    database: Vec<u8>,
    #[prost(uint64, tag = "3")]
    database_version: u64,
    #[prost(bytes = "vec", tag = "4")]
    split: Vec<u8>,
    #[prost(uint32, tag = "5")]
    number: u32,
    #[prost(uint32, tag = "6")]
    shards: u32,
}

/// The description of a database with a dense table of two blocks of rows.
fn dense_description() -> Vec<u8> {
    let layout = Layout::Index { records: 4000, length: Length::Fixed(2048) };
    let tables = Tables::new(&PARAMETERS, layout, TableKind::Dense).expect("tables");
    Description::new(&tables).expect("a description").to_bytes()
}

/// `ShardDescription::read`: a decoded description encodes to the same bytes, and names one of its shards.
pub static SHARD: Target = Target {
    name: "pir_shard",
    run: |data| {
        let Ok(shard) = ShardDescription::read(data, true) else { return false };
        let again = ShardDescription::read(&shard.to_bytes(), true).expect("its own bytes");
        assert_eq!((again.id(), again.version()), (shard.id(), shard.version()));
        let (tables, id) = (shard.database().tables(), shard.id());
        let split = tables.split(id.shards as usize).expect("it was accepted");
        split.part(tables.parameters(), id.number as usize - 1).expect("one of its shards");
        true
    },
    repair: |data| {
        let Ok(mut message) = ShardMessage::decode(data.as_slice()) else { return };
        message.version = SHARD_PROTOCOL_VERSION;
        message.database = dense_description();
        message.split.resize(16, 0);
        message.shards %= 4;
        message.number %= 4;
        *data = messages::description(ShardDescription::PROTOCOL, &message);
    },
    seeds: || {
        let database = Description::read(&dense_description(), true).expect("its own");
        let id = ShardId { split: [5; 16], number: 2, shards: 2 };
        vec![ShardDescription::new(database, id, 7).to_bytes()]
    },
};

/// Bytes of the checksum of a request or an answer.
pub(crate) const CHECKSUM_BYTES: usize = 8;

pub(crate) fn append_checksum(bytes: &mut Vec<u8>) {
    let hash = blake3::hash(bytes);
    bytes.extend(&hash.as_bytes()[..CHECKSUM_BYTES]);
}

/// Appends the checksum of a request for queries of a mode.
fn append_request_checksum(mode: Mode, bytes: &mut Vec<u8>) {
    let hash = blake3::derive_key(&format!("unspoken 2026 request of private retrieval, {mode} queries"), bytes);
    bytes.extend(&hash[..CHECKSUM_BYTES]);
}

/// `PirServer::answer`, decoding only: an accepted request is cancelled before the computation. The first byte
/// selects the keys.
pub static REQUEST: Target = Target {
    name: "pir_request",
    run: |data| {
        let Some((&kind, request)) = data.split_first() else { return false };
        let Some((_, keys)) = CLIENTS.get(usize::from(kind)) else { return false };
        let error = RETRIEVER
            .answer(&Request::new(CLIENT, keys, request), &Call::new(&AtomicBool::new(true)))
            .expect_err("stopped");
        error.is_cancelled()
    },
    repair: |data| {
        let Some((kind, request)) = data.split_first() else { return };
        let kind = usize::from(*kind) % CLIENTS.len();
        let each = client(CLIENTS[kind].0).description().query_bytes(CLIENTS[kind].0);
        let mut request = request.to_vec();
        request.truncate(request.len().saturating_sub(CHECKSUM_BYTES));
        request.resize(each * (request.len() / each).clamp(1, 16), 0);
        append_request_checksum(CLIENTS[kind].0, &mut request);
        *data = [vec![kind as u8], request].concat();
    },
    seeds: || {
        let seed = |(kind, (mode, _)): (usize, &(Mode, PreparedKeys))| {
            let query = query(&mut client(*mode), &[Question::Key(b"key".to_vec())]).expect("a query");
            [vec![kind as u8], query].concat()
        };
        CLIENTS.iter().enumerate().map(seed).collect()
    },
};

/// `PirClient::read`: an accepted answer has a record or none, of the version that it names.
pub static ANSWER: Target = Target {
    name: "pir_answer",
    run: |data| {
        let Ok(read) = read(&client(Mode::Packed), data, &[Question::Key(b"key".to_vec())]) else { return false };
        assert!(read.len() == 1 && data.starts_with(&read[0].version.to_le_bytes()));
        assert!(read[0].record.as_ref().is_none_or(|record| record.len() < 300));
        true
    },
    repair: |data| {
        let sound = ANSWERED.as_slice();
        data.resize(sound.len() - CHECKSUM_BYTES, 0);
        data[8..16].copy_from_slice(&sound[8..16]);
        append_checksum(data);
    },
    seeds: || vec![ANSWERED.clone()],
};

static ANSWERED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let query = query(&mut client(Mode::Packed), &[Question::Key(b"key".to_vec())]).expect("a query");
    let (_, keys) = CLIENTS.last().expect("packed keys");
    RETRIEVER.answer(&Request::new(CLIENT, keys, &query), &Call::default()).expect("an answer")
});

/// Parameters of the smallest supported ring, with keys of a few rows.
static SMALL: LazyLock<PirParameters> = LazyLock::new(|| {
    let one = |log2_base| GadgetLiteral { log2_base, levels: 1 };
    let literal = PirLiteral {
        bootstrap: BootstrapLiteral {
            ring: BinaryRingLiteral {
                name: "insecure_fuzz",
                degree: 512,
                primes: primes_descending(1 << 25, 1 << 26, 1024).take(1).collect(),
            },
            lwe: LweLiteral { dimension: 2, error_terms: 1 },
            rotation: one(10),
            trace: one(10),
            output: one(4),
        },
        compact: LweLiteral { dimension: 512, error_terms: 1 },
        compact_switch: one(1),
        response: ResponseLiteral { degree: 512, prime: 16_760_833, gadget: one(12), body_bits: 7 },
        selection: one(4),
        plaintext_bits: 4,
        row_bits: 6,
        bit_body_bits: 5,
    };
    PirParameters::new(literal).expect("a possible set")
});

/// `PreparedKeys::read`: the keys are of the kind that their header names.
pub static KEYS: Target = Target {
    name: "pir_keys",
    run: |data| {
        let Ok(keys) = PreparedKeys::read(&SMALL, &mut &*data) else { return false };
        let front = KeyHeader::read(&SMALL, data).expect("it was read");
        assert_eq!(front.mode(), keys.mode());
        assert!(PreparedKeys::memory_bytes(&SMALL, keys.mode()) < 1 << 20);
        true
    },
    repair: |data| {
        let sound = &KEY_SEEDS[data.len() % KEY_SEEDS.len()];
        data.resize(sound.len(), 0);
        data[..KeyHeader::BYTES].copy_from_slice(&sound[..KeyHeader::BYTES]);
    },
    seeds: || KEY_SEEDS.clone(),
};

static KEY_SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let secret = PirSecret::generate(&SMALL, &mut rng()).expect("a secret");
    let bundle = |mode| {
        let mut bytes = Vec::new();
        secret.keys(mode, &mut rng()).expect("keys").write(&mut bytes).expect("writes to memory");
        bytes
    };
    Mode::ALL.map(bundle).into()
});

/// `Bucket::read`: encoding gives the same bytes.
pub static BUCKET: Target = Target {
    name: "pir_bucket",
    run: |data| {
        let Ok(bucket) = Bucket::read(data) else { return false };
        assert!(bucket.to_bytes(data.len()).expect("fits where it was") == data, "the bytes changed");
        for (tag, value) in bucket.entries() {
            assert_eq!(bucket.get(*tag), Some(value.as_slice()));
        }
        true
    },
    repair: |_| {},
    seeds: || {
        let mut bucket = Bucket::default();
        for key in ["a", "b", "a longer one"] {
            bucket.insert(LAYOUT.tag(key.as_bytes()).expect("by key"), key.repeat(20).into_bytes());
        }
        vec![bucket.to_bytes(600).expect("fits"), Bucket::default().to_bytes(64).expect("fits")]
    },
};

/// Tables of encrypted entries with two planes.
static ENCRYPTED: LazyLock<Tables> = LazyLock::new(|| {
    let layout = Layout::Index { records: 9, length: Length::Fixed(300) };
    Tables::new(&PARAMETERS, layout, TableKind::Encrypted).expect("tables")
});

/// Gives the data one of these lengths; data that have one of them are not changed.
fn resize_to_one_of(data: &mut Vec<u8>, lengths: &[usize]) {
    if !lengths.contains(&data.len()) {
        data.resize(lengths[data.len() % lengths.len()], 0);
    }
}

/// `Response::from_bytes` and `EncryptedEntry::from_bytes`: encoding gives the same bytes.
pub static CIPHERTEXTS: Target = Target {
    name: "pir_ciphertexts",
    run: |data| {
        if let Ok(response) = Response::from_bytes(&SMALL, data) {
            assert!(response.to_bytes(&SMALL) == data, "the bytes changed");
            return true;
        }
        let Ok(entry) = EncryptedEntry::from_bytes(&ENCRYPTED, data) else { return false };
        assert!(entry.to_bytes(&ENCRYPTED) == data, "the bytes changed");
        true
    },
    repair: |data| {
        let lengths = [Response::byte_len(&SMALL), EncryptedEntry::byte_len(&ENCRYPTED)];
        resize_to_one_of(data, &lengths);
    },
    seeds: || {
        let secret = PirSecret::generate(&PARAMETERS, &mut rng()).expect("a secret");
        let entry = secret.encrypt_entry(&ENCRYPTED, 1, |_| &[5; 200], &mut rng()).expect("an entry");
        vec![entry.to_bytes(&ENCRYPTED), vec![0; Response::byte_len(&SMALL)]]
    },
};

/// A dense table of a few rows.
static DENSE: LazyLock<(PirParameters, DenseShape)> = LazyLock::new(|| {
    let parameters = Preset::InsecureN11.build().expect("a preset");
    let shape = DenseShape::new(&parameters, 21, 1024).expect("a shape");
    (parameters, shape)
});

/// `DenseQuery::from_bytes`, `DenseResponse::from_bytes` and `PartialResponse::from_bytes`: encoding gives the same
/// bytes.
pub static DENSE_MESSAGES: Target = Target {
    name: "pir_dense",
    run: |data| {
        let (parameters, shape) = &*DENSE;
        if let Ok(response) = DenseResponse::from_bytes(parameters, *shape, data) {
            assert!(response.to_bytes() == data, "the bytes changed");
            return true;
        }
        if let Ok(partial) = PartialResponse::from_bytes(parameters, data) {
            assert!(partial.to_bytes(parameters) == data, "the bytes changed");
            return true;
        }
        let Ok(query) = DenseQuery::from_bytes(parameters, *shape, data) else { return false };
        assert!(query.to_bytes(parameters) == data, "the bytes changed");
        true
    },
    repair: |data| {
        let (parameters, shape) = &*DENSE;
        let lengths = [
            DenseQuery::byte_len(parameters, *shape),
            DenseResponse::byte_len(parameters, *shape),
            PartialResponse::byte_len(parameters),
        ];
        resize_to_one_of(data, &lengths);
    },
    seeds: || {
        let (parameters, shape) = &*DENSE;
        let secret = PirSecret::generate(parameters, &mut rng()).expect("a secret");
        let query = secret.dense_query(*shape, 20, &mut rng()).expect("a query");
        let lengths = [DenseResponse::byte_len(parameters, *shape), PartialResponse::byte_len(parameters)];
        [vec![query.to_bytes(parameters)], lengths.map(|length| vec![0; length]).into()].concat()
    },
};
