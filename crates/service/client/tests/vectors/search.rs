//! `vectors/search.json`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_pir_scheme::{PirSecret, Preset};
use unspoken_protocol::{
    ApplicationDescription, Call, ClientHalf, KeyGenerator, KeyLoader, Request, ServerHalf, append_checksum, checked,
};
use unspoken_ring::SecretRng;
use unspoken_search::{Description, SearchClient, SearchServer};
use unspoken_search_index::{About, ID_BYTES, Index, IndexVersions, Plan, StoredIndex, Wish, directions};
use zeroize::Zeroizing;

use crate::case::{Bytes, CLIENT, GO, Refused, is_to_be_written, other_kind, read, write};

const NAME: &str = "search";
const ABOUT: &str = "Private search: an index of vectors, a query of one, and the nearest documents.";

const ID: [u8; ID_BYTES] = [3; ID_BYTES];
const DOCUMENTS: usize = 60;
const WIDTH: usize = 4;

/// Documents that are named for each question.
const NEAREST: usize = 10;

/// Cosines that were decrypted from the same answer with the same secret differ by less: they are rounded to 24 bits.
const TOLERANCE: f64 = 1e-6;

/// Standard deviations that a decrypted cosine may differ from the one in the clear.
const MAX_DEVIATIONS: f64 = 8.0;

/// An index, and a client that asks it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    server: Server,
    /// The files of the index. No client reads them.
    model: BTreeMap<String, Bytes>,
    description: Bytes,
    /// What the client stores. It registers the client, and decrypts nothing.
    secret: Bytes,
    bundle_contents: Bytes,
    /// From this key the secret that the answer is encrypted for is derived. A client draws it when it connects.
    key: Bytes,
    questions: Vec<Question>,
    /// For each question the blocks that are asked, in this order.
    blocks: Vec<Vec<usize>>,
    query: Bytes,
    answer: Bytes,
    /// For each question the nearest documents.
    answers: Vec<Vec<Hit>>,
    tolerance: f64,
    clear: Clear,
    refused: Vec<Refused>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    preset: String,
    documents: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    vector: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hit {
    position: u64,
    cosine: f32,
}

/// The cosines of the same documents in the clear.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clear {
    answers: Vec<Vec<Hit>>,
    error: f64,
}

struct OneVersion(Arc<StoredIndex>);

impl IndexVersions for OneVersion {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.0)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// The index of a case.
fn index(case: &Case) -> Arc<StoredIndex> {
    let directory = tempfile::tempdir().unwrap();
    for (name, Bytes(content)) in &case.model {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    Arc::new(StoredIndex::open(directory.path()).unwrap())
}

fn service(case: &Case) -> SearchServer<OneVersion> {
    let index = index(case);
    assert_eq!(index.parameters().name(), case.server.preset);
    SearchServer::new(OneVersion(index), case.server.documents.clone()).unwrap()
}

fn answer_of(server: &SearchServer<OneVersion>, query: &[u8]) -> Result<Vec<u8>, String> {
    server.answer(&Request::new(CLIENT, &(), query), &Call::default()).map_err(text)
}

fn described(bytes: &[u8]) -> Result<Description, String> {
    Description::read(bytes, true).map_err(text)
}

fn client(description: &[u8], secret: &[u8]) -> Result<SearchClient, String> {
    SearchClient::open(described(description)?, (), Some(secret)).map_err(text)
}

/// The secret that is derived from a key.
fn derived(description: &Description, key: &[u8]) -> PirSecret {
    PirSecret::derive(description.parameters(), &Zeroizing::new(key.try_into().unwrap())).unwrap()
}

/// A query as a client makes it, under the secret of a key: the id of the index, a query for each block that each
/// question asks, a checksum.
fn query(case: &Case) -> Vec<u8> {
    let description = described(&case.description.0).unwrap();
    let (secret, mut rng) = (derived(&description, &case.key.0), SecretRng::from_os().unwrap());
    let mut bytes = description.id().to_vec();
    for (Question { vector }, blocks) in case.questions.iter().zip(&case.blocks) {
        for &block in blocks {
            let query = secret.score_query(description.shape(), block, vector, &mut rng).unwrap();
            bytes.extend(query.to_bytes(description.parameters()));
        }
    }
    append_checksum(&mut bytes);
    bytes
}

/// All hits of an answer to the questions of a case, as a client with the secret of this key reads them.
fn hits(case: &Case, answer: &[u8], key: &[u8]) -> Result<Vec<Vec<Hit>>, String> {
    client(&case.description.0, &case.secret.0)?.check_answer(answer, case.questions.len()).map_err(text)?;
    let description = described(&case.description.0)?;
    let (parameters, shape) = (description.parameters(), description.shape());
    let (secret, room) = (derived(&description, key), ScoreShape::cluster_documents(parameters));
    // After the id and the two versions of the documents.
    let content = &checked("answer", answer).map_err(text)?[ID_BYTES + 8..];
    let (counts, responses) = content.split_at(2 * shape.blocks() * shape.groups());
    let mut responses = responses.chunks_exact(ScoreResponse::byte_len(parameters));
    let mut hits = Vec::new();
    for (Question { vector }, blocks) in case.questions.iter().zip(&case.blocks) {
        let mut of_question = Vec::new();
        for cluster in blocks.iter().flat_map(|block| block * shape.groups()..(block + 1) * shape.groups()) {
            let response = ScoreResponse::from_bytes(parameters, responses.next().unwrap()).map_err(text)?;
            let scores = secret.scores(shape, vector, &response).map_err(text)?;
            let count = u16::from_le_bytes([counts[2 * cluster], counts[2 * cluster + 1]]);
            let cosines = scores.iter().map(|score| score / description.directory().scale());
            let positions = (cluster * room) as u64..;
            let of_cluster = positions.zip(cosines).map(|(position, cosine)| Hit { position, cosine });
            of_question.extend(of_cluster.take(count.into()));
        }
        of_question.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then(a.position.cmp(&b.position)));
        hits.push(of_question);
    }
    Ok(hits)
}

/// All hits as the client half finds them, which draws a secret of its own.
fn asked(case: &Case, server: &SearchServer<OneVersion>) -> Vec<Vec<Hit>> {
    let mut client = client(&case.description.0, &case.secret.0).unwrap();
    let vectors: Vec<&[f32]> = case.questions.iter().map(|question| question.vector.as_slice()).collect();
    let encoded = client.encode(&vectors).unwrap();
    let query = client.query(&encoded).unwrap();
    assert_eq!(query.len(), case.query.0.len());
    let read = client.read(&answer_of(server, &query).unwrap(), &encoded).unwrap();
    let hit = |hit: unspoken_search::Hit| Hit { position: hit.position, cosine: hit.cosine };
    read.into_iter().map(|hits| hits.into_iter().map(hit).collect()).collect()
}

/// The blocks that a client asks for each question.
fn blocks(description: &Description, questions: &[Question]) -> Vec<Vec<usize>> {
    let directory = description.directory();
    questions.iter().map(|question| directory.blocks(&question.vector, directory.asked()).to_vec()).collect()
}

/// The files of an index, by their paths in its directory.
fn files_of(root: &Path, directory: &Path) -> BTreeMap<String, Bytes> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_of(root, &path));
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, Bytes(std::fs::read(path).unwrap()));
        }
    }
    files
}

fn built() -> BTreeMap<String, Bytes> {
    let parameters = Preset::InsecureN11.build().unwrap();
    let vectors = Array2::from_shape_fn((DOCUMENTS, WIDTH), |(i, j)| ((i * 7 + j * 3) as f32 * 0.37).sin());
    let wish = Wish { documents: DOCUMENTS, width: WIDTH, link: 1e7, cores: 1.0, memory: 1 << 30 };
    let plan = Plan::new(&parameters, &wish, [3, 2, 2]);
    let vectors = directions(vectors).unwrap();
    let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([5; 16]), &mut |_, _| ()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let about = About { embedder: Some("sines".into()), ..About::default() };
    index.store(&parameters, directory.path(), ID, about).unwrap();
    files_of(directory.path(), directory.path())
}

/// The start of a message for another index, with its checksum: nothing else is read.
fn of_another_index() -> Option<Bytes> {
    let mut bytes = vec![4; ID_BYTES];
    append_checksum(&mut bytes);
    Some(Bytes(bytes))
}

fn make() -> Case {
    let empty = || Bytes(Vec::new());
    let mut key = vec![0; 32];
    SecretRng::from_os().unwrap().fill(&mut key);
    let mut case = Case {
        name: "one vector, two blocks of three".into(),
        server: Server { preset: Preset::InsecureN11.name().into(), documents: "pir/documents".into() },
        model: built(),
        description: empty(),
        secret: empty(),
        bundle_contents: empty(),
        key: Bytes(key),
        questions: vec![Question {
            vector: (11..).step_by(3).take(WIDTH).map(|i| (i as f32 * 0.37).sin() * 2.0).collect(),
        }],
        blocks: Vec::new(),
        query: empty(),
        answer: empty(),
        answers: Vec::new(),
        tolerance: TOLERANCE,
        clear: Clear { answers: Vec::new(), error: 0.0 },
        refused: Vec::new(),
    };
    let server = service(&case);
    case.description = Bytes(server.describe());
    let description = described(&case.description.0).unwrap();
    let client = SearchClient::open(description.clone(), (), None).unwrap();
    case.secret = Bytes(client.secret_bytes().unwrap().to_vec());
    case.bundle_contents = Bytes(client.bundle_contents());
    case.blocks = blocks(&description, &case.questions);
    case.query = Bytes(query(&case));
    case.answer = Bytes(answer_of(&server, &case.query.0).unwrap());
    case.answers = hits(&case, &case.answer.0, &case.key.0).unwrap();
    case.answers.iter_mut().for_each(|hits| hits.truncate(NEAREST));
    case.clear = clear(&case, &description);
    case.refused = vec![
        Refused::flipped("description", &case.description),
        Refused { bytes: Some(other_kind()), ..Refused::new("description", "one of kind another") },
        Refused { cut: Some(case.secret.0.len() - 1), ..Refused::new("secret", "bytes") },
        Refused::flipped("query", &case.query),
        Refused { bytes: of_another_index(), ..Refused::new("query", "was changed") },
        Refused::flipped("answer", &case.answer),
        Refused { bytes: of_another_index(), ..Refused::new("answer", "was changed") },
        Refused { bytes: Some(Bytes(vec![7; 32])), ..Refused::new("key", "unreadable") },
    ];
    case
}

/// The cosines in the clear of the documents in the answers of a case.
fn clear(case: &Case, description: &Description) -> Clear {
    let index = index(case);
    let of_question = |(question, hits): (&Question, &Vec<Hit>)| {
        let direction = directions(Array2::from_shape_vec((1, WIDTH), question.vector.clone()).unwrap()).unwrap();
        let direction = direction.row(0).to_vec();
        let all: BTreeMap<u64, f32> =
            index.search(&direction, index.shape().blocks(), DOCUMENTS).unwrap().into_iter().collect();
        hits.iter().map(|hit| Hit { cosine: all[&hit.position], ..*hit }).collect()
    };
    let answers = case.questions.iter().zip(&case.answers).map(of_question).collect();
    Clear { answers, error: MAX_DEVIATIONS * description.cosine_deviation() }
}

/// Checks that all of these documents are among the hits, with these cosines.
fn assert_close(case: &Case, hits: &[Vec<Hit>], expected: &[Vec<Hit>], error: f64) {
    assert_eq!((hits.len(), expected.len()), (case.questions.len(), case.questions.len()), "{}", case.name);
    for (hits, expected) in hits.iter().zip(expected) {
        assert!(hits.windows(2).all(|pair| pair[0].cosine >= pair[1].cosine), "{}", case.name);
        for expected in expected {
            let found = hits.iter().find(|hit| hit.position == expected.position).unwrap();
            let difference = f64::from(found.cosine - expected.cosine).abs();
            assert!(difference <= error, "{}: found {found:?}, needed {expected:?} up to {error:e}", case.name);
        }
    }
}

fn check(case: &Case) {
    let error = Description::read(&case.description.0, false).map(drop).unwrap_err().to_string();
    assert!(error.contains("needed a secure one"), "{error}");
    let description = described(&case.description.0).unwrap();
    let registered = client(&case.description.0, &case.secret.0).unwrap();
    assert_eq!(registered.bundle_contents(), case.bundle_contents.0);
    assert!(registered.is_covered_by(&case.bundle_contents.0));
    assert_eq!(blocks(&description, &case.questions), case.blocks);
    let found = hits(case, &case.answer.0, &case.key.0).unwrap();
    assert_close(case, &found, &case.answers, case.tolerance);
    for (found, expected) in found.iter().zip(&case.answers) {
        let positions = |hits: &[Hit]| hits.iter().map(|hit| hit.position).collect::<Vec<_>>();
        assert_eq!(positions(&found[..NEAREST]), positions(expected), "the nearest ones, in this order");
    }
    let again = clear(case, &description);
    assert_eq!(again.answers, case.clear.answers);
    assert!((again.error / case.clear.error - 1.0).abs() < 1e-9);
    assert_close(case, &found, &case.clear.answers, case.clear.error);

    // A service with this index answers the same query with the same bytes, and a new one with other noise.
    let server = service(case);
    assert!(server.describe() == case.description.0, "the server half describes itself otherwise; write the file");
    let mut bundle = Vec::new();
    registered.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    server.load_keys(&mut bundle.as_slice()).unwrap();
    assert!(answer_of(&server, &case.query.0).unwrap() == case.answer.0, "another answer");
    let fresh = answer_of(&server, &query(case)).unwrap();
    let fresh = hits(case, &fresh, &case.key.0).unwrap();
    for hits in [fresh, asked(case, &server)] {
        assert_close(case, &hits, &case.clear.answers, case.clear.error);
    }

    for refused in &case.refused {
        match refused.field.as_str() {
            "description" => refused.check(described(&refused.input(&case.description)).map(drop)),
            "secret" => refused.check(client(&case.description.0, &refused.input(&case.secret)).map(drop)),
            "query" => refused.check(answer_of(&server, &refused.input(&case.query)).map(drop)),
            "answer" => refused.check(hits(case, &refused.input(&case.answer), &case.key.0).map(drop)),
            "key" => refused.check(hits(case, &case.answer.0, &refused.input(&case.key)).map(drop)),
            other => panic!("no field {other}"),
        }
    }
}

#[test]
fn documents_are_found_as_in_the_vectors() {
    if is_to_be_written() {
        write(NAME, ABOUT, vec![make()]);
    }
    read::<Case>(NAME).iter().for_each(check);
}
