//! Targets for private search: requests that a service decodes, descriptions, answers and documents that a client
//! decodes, and the manifest of a stored index.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex};

use ndarray::Array2;
use prost::Message;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::dense::scores::ScoreShape;
use unspoken_pir_scheme::{PirParameters, Preset};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, CHECKSUM_BYTES, Call, ClientHalf, ErrorKind, ForwardedKeys, Request,
    ServerHalf, ShardAccess, ShardFailure, append_checksum, checked, limits,
};
use unspoken_search::{
    Description, PROTOCOL_VERSION, SHARD_PROTOCOL_VERSION, SearchClient, SearchRouter, SearchServer, ShardDescription,
    Shards,
};
use unspoken_search_index::{
    About, Document, ID_BYTES, Index, IndexEdit, IndexPart, IndexVersions, MAX_ASKED, Plan, StoredIndex, Wish,
    build_directory, build_number, directions,
};

use crate::files::Directory;
use crate::fixtures::CLIENT;
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
    #[prost(uint32, tag = "4")]
    width: u32,
    #[prost(uint32, tag = "5")]
    blocks: u32,
    #[prost(uint32, tag = "6")]
    groups: u32,
    #[prost(uint32, tag = "7")]
    norm: u32,
    #[prost(bytes = "vec", tag = "8")]
    mask_seed: Vec<u8>,
    #[prost(float, tag = "9")]
    scale: f32,
    #[prost(uint32, tag = "10")]
    asked: u32,
    #[prost(bytes = "vec", tag = "11")]
    centres: Vec<u8>,
    #[prost(uint64, tag = "12")]
    document_count: u64,
    #[prost(bytes = "vec", tag = "13")]
    index_id: Vec<u8>,
    #[prost(string, tag = "14")]
    documents: String,
    #[prost(string, tag = "16")]
    embedder: String,
}

const WIDTH: usize = 4;
const BLOCKS: usize = 3;
const GROUPS: usize = 2;
const ASKED: usize = 2;
const DOCUMENTS: usize = 60;
const ID: [u8; ID_BYTES] = [9; ID_BYTES];

/// Bytes of the id of the index and of the versions of the documents, at the beginning of an answer.
const FRONT: usize = ID_BYTES + 8;
const QUESTION: [f32; WIDTH] = [0.5, -2.0, 0.25, 1.0];

/// Coordinates of a vector in a repaired description, at most, and blocks and groups.
const MOST_WIDTH: u32 = 64;
const MOST_BLOCKS: u32 = 8;

/// Largest query that is made of a description, for speed.
const MOST_QUERY_BYTES: usize = 1 << 18;

/// Name of the manifest.
const FILE: &str = "search.json";

static PARAMETERS: LazyLock<PirParameters> = LazyLock::new(|| Preset::InsecureN11.build().expect("builds"));

/// Documents of a cluster, at most.
static ROOM: LazyLock<usize> = LazyLock::new(|| ScoreShape::cluster_documents(&PARAMETERS));

/// A directory with a small index.
static STORED: LazyLock<Directory> = LazyLock::new(|| {
    let directory = Directory::empty();
    let vectors = Array2::from_shape_fn((DOCUMENTS, WIDTH), |(i, j)| ((i * 7 + j * 3) as f32 * 0.37).sin());
    let vectors = directions(vectors).expect("no vector is zero");
    let wish = Wish { documents: DOCUMENTS, width: WIDTH, link: 1e7, cores: 1.0, memory: 1 << 30 };
    let plan = Plan::new(&PARAMETERS, &wish, [BLOCKS, GROUPS, ASKED]);
    let index = Index::new(&PARAMETERS, vectors.view(), &plan, MaskSeed([5; 16]), &mut |_, _| ()).expect("an index");
    index.store(&PARAMETERS, directory.path(), ID, About::default()).expect("stores");
    directory
});

/// The version of the index that the service has.
static INDEX: LazyLock<Arc<StoredIndex>> =
    LazyLock::new(|| Arc::new(StoredIndex::open(STORED.path()).expect("its own")));

struct OneVersion;

impl IndexVersions for OneVersion {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&INDEX)
    }
}

static SERVER: LazyLock<SearchServer<OneVersion>> =
    LazyLock::new(|| SearchServer::new(OneVersion, "pir/documents".into()).expect("a service"));

fn described() -> Description {
    Description::read(&SERVER.describe(), true).expect("its own")
}

/// `Description::read`: a decoded description encodes to the same one; its sizes are bounded; a client of such a server
/// makes a query of the announced size.
pub static DESCRIBED: Target = Target {
    name: "search_description",
    run: |data| {
        let Ok(description) = Description::read(data, true) else { return false };
        let bytes = description.to_bytes();
        let again = Description::read(&bytes, true).expect("its own bytes");
        assert!(again.to_bytes() == bytes, "another description");
        let (shape, asked, most) =
            (*description.shape(), description.directory().asked(), description.most_questions());
        assert!((1..=MAX_ASKED).contains(&asked) && asked <= shape.blocks() && most * asked <= MAX_ASKED);
        assert!(limits::check_query_bytes(description.query_bytes(1) as u64).is_ok());
        assert!(limits::check_answer_bytes(description.answer_bytes(1) as u64).is_ok());
        assert!(description.cosine_deviation() > 0.0);
        let query_bytes = description.query_bytes(1);
        if query_bytes > MOST_QUERY_BYTES {
            return true;
        }
        let mut client = SearchClient::open(description, (), None).expect("a client");
        let vector: Vec<f32> = (0..shape.width()).map(|i| (i as f32 + 0.5).sin()).collect();
        let encoded = client.encode(&[vector]).expect("a direction of this width");
        assert_eq!(client.query(&encoded).expect("a query").len(), query_bytes);
        true
    },
    repair: |data| {
        let Ok(mut message) = DescriptionMessage::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        message.preset = PARAMETERS.name().into();
        message.fingerprint = PARAMETERS.fingerprint().to_vec();
        message.width = message.width.clamp(1, MOST_WIDTH);
        message.blocks = message.blocks.clamp(1, MOST_BLOCKS);
        message.groups = message.groups.clamp(1, MOST_BLOCKS);
        let root = (f64::from(message.width)).sqrt();
        message.norm = message.norm.clamp(root.ceil() as u32, (127.0 * root) as u32);
        message.mask_seed.resize(16, 0);
        message.asked = message.asked.clamp(1, message.blocks);
        if !(message.scale > 0.0 && message.scale <= 1e6) {
            message.scale = 100.0;
        }
        message.centres.resize((message.width * message.blocks * message.groups) as usize, 0);
        message.index_id.resize(ID_BYTES, 0);
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || {
        let sound = DescriptionMessage::decode(SERVER.describe().as_slice()).expect("its own");
        let centres = (0..64u8).map(|i| i.wrapping_mul(37)).collect();
        let other = DescriptionMessage { width: 64, blocks: 1, groups: 1, asked: 1, norm: 900, centres, ..sound };
        let named = DescriptionMessage { documents: String::new(), embedder: "e".repeat(256), ..other.clone() };
        let others = [other, named].map(|message| messages::description(Description::PROTOCOL, &message));
        [vec![SERVER.describe()], others.into()].concat()
    },
};

/// Fields of the description of a shard.
#[derive(Clone, PartialEq, Message)]
struct ShardMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    index: Vec<u8>,
    #[prost(uint32, tag = "3")]
    first: u32,
    #[prost(uint32, tag = "4")]
    groups: u32,
}

/// Shards of the index, one for each group.
static SHARDS: LazyLock<Vec<SearchServer<OnePart>>> = LazyLock::new(|| {
    let part = |number| IndexPart::Shard { number, shards: GROUPS as u32 };
    let index = |number| Arc::new(StoredIndex::open_part(STORED.path(), part(number)).expect("its own"));
    (1..=GROUPS as u32).map(|n| SearchServer::new(OnePart(index(n)), String::new()).expect("a service")).collect()
});

struct OnePart(Arc<StoredIndex>);

impl IndexVersions for OnePart {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.0)
    }
}

/// `ShardDescription::read`: a decoded description encodes to the same bytes, and names groups of its index.
pub static SHARD: Target = Target {
    name: "search_shard",
    run: |data| {
        let Ok(shard) = ShardDescription::read(data, true) else { return false };
        let again = ShardDescription::read(&shard.to_bytes(), true).expect("its own bytes");
        assert!(again.to_bytes() == shard.to_bytes(), "another description");
        assert!(!shard.range().is_empty() && shard.range().end <= shard.index().shape().groups());
        true
    },
    repair: |data| {
        let Ok(mut message) = ShardMessage::decode(data.as_slice()) else { return };
        message.version = SHARD_PROTOCOL_VERSION;
        message.index = SERVER.describe();
        message.first = message.first.min(GROUPS as u32 - 1);
        message.groups = message.groups.clamp(1, GROUPS as u32 - message.first);
        *data = messages::description(ShardDescription::PROTOCOL, &message);
    },
    seeds: || SHARDS.iter().map(SearchServer::describe).collect(),
};

/// A shard, and what it answers to one query.
struct Address(usize, Arc<Mutex<Vec<u8>>>);

impl ShardAccess for Address {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        Ok(SHARDS[self.0].describe())
    }

    fn ask(&self, _: &ForwardedKeys, _: &[u8], _: usize, _: &Arc<AtomicBool>) -> Result<Vec<u8>, ShardFailure> {
        Ok(self.1.lock().expect("no panic").clone())
    }
}

/// A router, and a query.
struct Routed {
    router: SearchRouter<Address>,
    query: Vec<u8>,
    /// What the last shard answers.
    answer: Arc<Mutex<Vec<u8>>>,
    /// What it should answer.
    right: Vec<u8>,
}

static ROUTED: LazyLock<Routed> = LazyLock::new(|| {
    let query = query(1);
    let request = Request::new(CLIENT, &(), &query);
    let right = |shard: usize| SHARDS[shard].answer(&request, &Call::default()).expect("an answer");
    let addresses: Vec<Address> = (0..GROUPS).map(|shard| Address(shard, Arc::new(Mutex::new(right(shard))))).collect();
    let answer = Arc::clone(&addresses[GROUPS - 1].1);
    let shards = Arc::new(Shards::insecure_new(addresses).expect("shards of one index"));
    let router = SearchRouter::new(shards, String::new()).expect("a router");
    Routed { router, answer, right: right(GROUPS - 1), query }
});

/// `SearchRouter::answer`, when a shard answers with any bytes: an answer of the announced length, or an error after
/// which a client asks again.
pub static SHARD_ANSWER: Target = Target {
    name: "search_shard_answer",
    run: |data| {
        let Routed { router, query, answer, .. } = &*ROUTED;
        *answer.lock().expect("no panic") = data.to_vec();
        match router.answer(&Request::new(CLIENT, &(), query), &Call::default()) {
            Ok(joined) => {
                assert_eq!(joined.len(), described().answer_bytes(1));
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                false
            }
        }
    },
    repair: |data| {
        data.resize(ROUTED.right.len() - CHECKSUM_BYTES, 0);
        // The id of the index, the versions of the documents, and the groups of the shard.
        data[..FRONT + 8].copy_from_slice(&ROUTED.right[..FRONT + 8]);
        let (counts, _) = data[FRONT + 8..][..2 * BLOCKS].as_chunks_mut::<2>();
        for count in counts {
            *count = (u16::from_le_bytes(*count) % (*ROOM as u16 + 1)).to_le_bytes();
        }
        append_checksum(data);
    },
    seeds: || vec![ROUTED.right.clone()],
};

/// `SearchServer::answer`, decoding only: an accepted request is cancelled before the computation. Any request has a
/// weight.
pub static REQUEST: Target = Target {
    name: "search_request",
    run: |data| {
        let request = Request::new(CLIENT, &(), data);
        assert!(SERVER.group(&request).weight >= 1);
        let error = SERVER.answer(&request, &Call::new(&AtomicBool::new(true))).expect_err("stopped");
        error.is_cancelled()
    },
    repair: |data| {
        let description = described();
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        let each = description.query_bytes(2) - description.query_bytes(1);
        let questions = (data.len().saturating_sub(ID_BYTES) / each).clamp(1, description.most_questions());
        data.resize(ID_BYTES + questions * each, 0);
        data[..ID_BYTES].copy_from_slice(&ID);
        append_checksum(data);
    },
    seeds: || vec![query(1), query(2)],
};

/// A query of a new client.
fn query(questions: usize) -> Vec<u8> {
    let mut client = SearchClient::open(described(), (), None).expect("a client");
    let encoded = client.encode(&vec![QUESTION; questions]).expect("a direction");
    client.query(&encoded).expect("a query")
}

/// A client, and an answer to its question. Its secret differs in every run, so an answer of another run is decoded and
/// then not readable.
static ASKED_ONCE: LazyLock<(SearchClient, Vec<u8>)> = LazyLock::new(|| {
    let mut client = SearchClient::open(described(), (), None).expect("a client");
    let encoded = client.encode(&[QUESTION]).expect("a direction");
    let query = client.query(&encoded).expect("a query");
    let answer = SERVER.answer(&Request::new(CLIENT, &(), &query), &Call::default()).expect("an answer");
    (client, answer)
});

/// `SearchClient::read`: an answer that was checked is read, or not readable. Its hits are as many as the counts of the
/// asked clusters, each at a position of its own, the nearest first.
pub static ANSWER: Target = Target {
    name: "search_answer",
    run: |data| {
        let (client, _) = &*ASKED_ONCE;
        let checked_first = client.check_answer(data, 1);
        let encoded = client.encode(&[QUESTION]).expect("a direction");
        let hits = match client.read(data, &encoded) {
            Ok(mut answers) => answers.remove(0),
            Err(error) => {
                assert!(checked_first.is_err() || error.kind() == ErrorKind::Unreadable, "{error}");
                return false;
            }
        };
        assert!(checked_first.is_ok());
        let clusters: Vec<usize> = client.description().directory().blocks(&QUESTION, ASKED).to_vec();
        let clusters = clusters.iter().flat_map(|&block| block * GROUPS..(block + 1) * GROUPS);
        let content = checked("answer", data).expect("it was read");
        let count = |cluster: usize| {
            let at = FRONT + 2 * cluster;
            usize::from(u16::from_le_bytes([content[at], content[at + 1]]))
        };
        let mut expected: Vec<u64> =
            clusters.flat_map(|cluster| (0..count(cluster)).map(move |i| (cluster * *ROOM + i) as u64)).collect();
        let mut found: Vec<u64> = hits.iter().map(|hit| hit.position).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert!(found == expected, "other positions than the counts say");
        assert!(hits.windows(2).all(|pair| pair[0].cosine >= pair[1].cosine));
        assert!(hits.iter().all(|hit| hit.cosine.is_finite()));
        let [first, last] = [0, 4].map(|at| data[ID_BYTES + at..].first_chunk().map(|four| u32::from_le_bytes(*four)));
        let has =
            SearchClient::has_version_of(data, u64::from(build_number(ID)) << 32 | u64::from(first.expect("four")));
        assert_eq!(has, u64::from(first.expect("four")) <= u64::from(last.expect("four")) + 1);
        true
    },
    repair: |data| {
        data.resize(described().answer_bytes(1) - CHECKSUM_BYTES, 0);
        data[..ID_BYTES].copy_from_slice(&ID);
        let (counts, _) = data[FRONT..][..2 * BLOCKS * GROUPS].as_chunks_mut::<2>();
        for count in counts {
            *count = (u16::from_le_bytes(*count) % (*ROOM as u16 + 1)).to_le_bytes();
        }
        append_checksum(data);
    },
    seeds: || vec![ASKED_ONCE.1.clone()],
};

/// `Document::from_record`: the same record again.
pub static DOCUMENT: Target = Target {
    name: "search_document",
    run: |data| {
        let Ok(document) = Document::from_record(data) else { return false };
        match document {
            None => assert!(data.is_empty(), "a record that is lost"),
            Some(document) => assert!(document.to_record().expect("it was read") == data, "another record"),
        }
        true
    },
    repair: |data| {
        if let Some((length, rest)) = data.split_first_chunk_mut::<2>() {
            *length = (u16::from_le_bytes(*length) % (rest.len() as u16).saturating_add(2).min(1026)).to_le_bytes();
        }
    },
    seeds: || {
        let record = |id: Option<&[u8]>, content: &[u8]| {
            let document = Document { id: id.map(<[u8]>::to_vec), content: content.to_vec() };
            document.to_record().expect("a short id")
        };
        vec![Vec::new(), record(None, b"text"), record(Some(b""), b""), record(Some(b"name"), b"text")]
    },
};

/// The manifest of an index, beside the files of one: a service describes what is accepted or refuses to serve it, and
/// all positions are in their clusters. The service finds in it, and its owner adds to it.
pub static MANIFEST: Target = Target {
    name: "search_manifest",
    run: |data| {
        let directory = Directory::empty();
        link(STORED.path(), directory.path());
        fs::write(directory.path().join(FILE), data).expect("writes");
        if let Ok(Some(index)) = INDEX.newer(directory.path(), &mut || ()) {
            assert!(index.documents() <= index.positions());
            let blocks = index.shape().blocks();
            let _ = Description::new(&index, String::new());
            index.search(&QUESTION, blocks, 10).expect("it has a shape");
        }
        let Ok(mut edit) = IndexEdit::open(directory.path()) else { return false };
        let most = (BLOCKS * GROUPS * *ROOM) as u64;
        assert!(!edit.has_document(most) && !edit.has_document(u64::MAX), "a document after the last position");
        let direction = QUESTION.map(|x| x / QUESTION.iter().map(|x| x * x).sum::<f32>().sqrt());
        if let Ok(position) = edit.add(&direction) {
            assert!(position < most && edit.has_document(position));
            edit.remove(position);
            assert!(!edit.has_document(position));
        }
        true
    },
    repair: |_| {},
    seeds: || {
        let sound = fs::read_to_string(STORED.path().join(FILE)).expect("reads");
        let removed = sound.replace("\"removed\": []", "\"removed\": [0, 2047]");
        assert_ne!(removed, sound, "no position was removed");
        vec![sound.into_bytes(), removed.into_bytes()]
    },
};

/// The files of the build of an index, under the same names in another directory.
fn link(from: &Path, to: &Path) {
    let (from, to) = (build_directory(from, ID), build_directory(to, ID));
    fs::create_dir(&to).expect("creates");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("an entry");
        fs::hard_link(entry.path(), to.join(entry.file_name())).expect("links");
    }
}
