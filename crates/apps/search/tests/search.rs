//! Both halves through their public interface.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use ndarray::{Array2, Axis};
use unspoken_pir_scheme::Preset;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, CHECKSUM_BYTES, Call, ClientHalf, ClientId, ErrorKind, ForwardedKeys,
    Registration, Request, ServerHalf, ShardAccess, ShardFailure, ShardProblem, append_checksum,
};
use unspoken_search::{Description, SearchClient, SearchError, SearchRouter, SearchServer, Shards};
use unspoken_search_index::{
    About, Index, IndexEdit, IndexPart, IndexVersions, Plan, StoredIndex, Wish, build_number, directions,
};

const WIDTH: usize = 32;
const DOCUMENTS: usize = 6000;

/// Vectors around 40 directions.
fn vectors(seed: usize, count: usize) -> Array2<f32> {
    directions(Array2::from_shape_fn((count, WIDTH), |(i, j)| {
        let noise = (i * 7919 + j * 104_729 + seed * 15_485_863) % 10_007;
        ((i % 40 * 13 + j * 29) as f32).sin() + 0.5 * noise as f32 / 10_007.0
    }))
    .unwrap()
}

/// The version that a test has read last.
#[derive(Clone)]
struct Versions(Arc<RwLock<Arc<StoredIndex>>>);

impl Versions {
    fn new(index: StoredIndex) -> Self {
        Versions(Arc::new(RwLock::new(Arc::new(index))))
    }
}

impl IndexVersions for Versions {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.0.read().unwrap())
    }
}

struct Fixture {
    vectors: Array2<f32>,
    index: Index,
    versions: Versions,
    server: SearchServer<Versions>,
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new(blocks: usize, groups: usize, asked: usize, masks: u8) -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        let vectors = vectors(1, DOCUMENTS);
        let wish = Wish { documents: DOCUMENTS, width: WIDTH, link: 1e7, cores: 2.0, memory: 1 << 30 };
        let plan = Plan::new(&parameters, &wish, [blocks, groups, asked]);
        let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([masks; 16]), &mut |_, _| ()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        index
            .store(&parameters, dir.path(), [masks; 16], About { embedder: Some("sines".into()), recall: None })
            .unwrap();
        let versions = Versions::new(StoredIndex::open(dir.path()).unwrap());
        let server = SearchServer::new(versions.clone(), "pir/documents".into()).unwrap();
        let fixture = Fixture { vectors, index, versions, server, dir };
        let description = fixture.description();
        assert_eq!((description.documents(), description.embedder()), ("pir/documents", "sines"));
        assert_eq!(description.document_count(), DOCUMENTS as u64);
        fixture
    }

    fn description(&self) -> Description {
        Description::read(&self.server.describe(), true).unwrap()
    }

    /// Takes up the version on disk.
    fn refresh(&self) {
        let newer = self.versions.current().newer(self.dir.path(), &mut || ()).unwrap().unwrap();
        *self.versions.0.write().unwrap() = Arc::new(newer);
    }

    fn client(&self) -> SearchClient {
        SearchClient::open(self.description(), (), None).unwrap()
    }

    fn ask(&self, query: &[u8]) -> Result<Vec<u8>, SearchError> {
        let never = AtomicBool::new(false);
        let request = Request::new(ClientId::new([1; 16]), &(), query);
        let answer = self.server.answer(&request, &Call::new(&never))?;
        assert!(answer.len() <= self.server.limits().answer_bytes && query.len() <= self.server.limits().query_bytes);
        Ok(answer)
    }
}

#[test]
fn the_nearest_documents_are_found_and_their_cosines_have_the_predicted_error() {
    let fixture = Fixture::new(2, 2, 2, 1);
    let mut client = fixture.client();
    let queries = vectors(2, 3);
    let questions: Vec<Vec<f32>> = queries.outer_iter().map(|query| query.iter().map(|x| x * 3.0).collect()).collect();
    let encoded = client.encode(&questions).unwrap();
    let query = client.query(&encoded).unwrap();
    assert_eq!(query.len(), client.query_bytes(3));
    let answer = fixture.ask(&query).unwrap();
    assert_eq!(answer.len(), client.answer_bytes(3));
    client.check_answer(&answer, 3).unwrap();
    let found = client.read(&answer, &encoded).unwrap();
    let (mut squares, mut count) = (0.0, 0.0);
    for (query, hits) in queries.outer_iter().zip(&found) {
        // All blocks are asked, so all documents have a cosine.
        assert_eq!(hits.len(), DOCUMENTS);
        assert!(hits.windows(2).all(|pair| pair[0].cosine >= pair[1].cosine));
        let expected = fixture.index.search(&query.to_vec(), 2, DOCUMENTS);
        let mut exact = vec![0.0; fixture.index.positions().len()];
        expected.iter().for_each(|&(position, cosine)| exact[position] = cosine);
        for hit in hits {
            squares += f64::from(hit.cosine - exact[hit.position as usize]).powi(2);
            count += 1.0;
        }
        let member = fixture.index.positions()[hits[0].position as usize].unwrap() as usize;
        let best = fixture.vectors.dot(&query).iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert!((fixture.vectors.index_axis(Axis(0), member).dot(&query) - best).abs() < 0.01);
    }
    let ratio = (squares / count).sqrt() / fixture.description().cosine_deviation();
    assert!((0.7..1.1).contains(&ratio), "{ratio:.3} times the predicted deviation");
}

#[test]
fn requests_have_one_length_whatever_they_ask_and_are_answered_together() {
    let fixture = Fixture::new(4, 1, 2, 1);
    let mut clients: Vec<SearchClient> = (0..3).map(|_| fixture.client()).collect();
    let mut requests = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let encoded = client.encode(&[fixture.vectors.row(100 * number).to_vec()]).unwrap();
        let query = client.query(&encoded).unwrap();
        assert_eq!(query.len(), fixture.description().query_bytes(1));
        requests.push((encoded, query));
    }
    // The second request is damaged; the others have their answers.
    let last = requests[1].1.len() - 1;
    requests[1].1[last] ^= 1;
    let never = AtomicBool::new(false);
    let all: Vec<Request<'_, ()>> =
        requests.iter().map(|(_, query)| Request::new(ClientId::new([1; 16]), &(), query.as_slice())).collect();
    assert!(all.iter().all(|request| fixture.server.group(request).weight == 2));
    let answers = fixture.server.answer_together(&all, &Call::new(&never));
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Malformed);
    for number in [0, 2] {
        let hits = &clients[number].read(answers[number].as_ref().unwrap(), &requests[number].0).unwrap()[0];
        let found = fixture.index.positions()[hits[0].position as usize].unwrap() as usize;
        let cosine = fixture.vectors.row(found).dot(&fixture.vectors.row(100 * number));
        assert!(cosine > 0.98, "{number}: {cosine}");
    }
    // Another client's answer is not readable.
    let other = clients[2].read(answers[0].as_ref().unwrap(), &requests[0].0);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Unreadable);
}

#[test]
fn an_index_that_was_replaced_is_an_honest_error() {
    let (before, after) = (Fixture::new(4, 1, 2, 1), Fixture::new(4, 1, 2, 2));
    let mut client = before.client();
    let encoded = client.encode(&[before.vectors.row(5).to_vec()]).unwrap();
    let query = client.query(&encoded).unwrap();
    let refused = after.ask(&query).unwrap_err();
    assert!(matches!(refused, SearchError::Replaced), "{refused}");
    assert!(refused.to_string().contains("ask again"));
    let answer = before.ask(&query).unwrap();
    let mut now = after.client();
    let question = now.encode(&[before.vectors.row(5).to_vec()]).unwrap();
    now.query(&question).unwrap();
    assert!(matches!(now.check_answer(&answer, 1), Err(SearchError::Replaced)));
}

#[test]
fn a_client_finds_what_was_added_after_it_connected() {
    let fixture = Fixture::new(4, 1, 4, 1);
    let mut client = fixture.client();
    let vector: Vec<f32> = fixture.vectors.row(5).iter().map(|x| -x).collect();
    let mut nearest = || {
        let encoded = client.encode(std::slice::from_ref(&vector)).unwrap();
        let query = client.query(&encoded).unwrap();
        client.read(&fixture.ask(&query).unwrap(), &encoded).unwrap()[0][0]
    };
    assert!(nearest().cosine < 0.9);
    let mut edit = IndexEdit::open(fixture.dir.path()).unwrap();
    let position = edit.add(&vector).unwrap();
    edit.commit([2, 2]).unwrap();
    fixture.refresh();
    let found = nearest();
    assert_eq!(found.position, position);
    assert!((found.cosine - 1.0).abs() < 0.02, "{found:?}");
    assert_eq!(fixture.description().document_count(), DOCUMENTS as u64 + 1);
    edit.remove(position);
    edit.commit([2, 2]).unwrap();
    fixture.refresh();
    assert_ne!(nearest().position, position);
}

#[test]
fn counts_that_no_cluster_has_are_refused() {
    let fixture = Fixture::new(4, 1, 2, 1);
    let mut client = fixture.client();
    let encoded = client.encode(&[fixture.vectors.row(5).to_vec()]).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = fixture.ask(&query).unwrap();
    let mut content = answer[..answer.len() - CHECKSUM_BYTES].to_vec();
    content[24..26].copy_from_slice(&2048u16.to_le_bytes());
    append_checksum(&mut content);
    let refused = client.check_answer(&content, 1).unwrap_err();
    assert!(refused.to_string().contains("2048 documents in a cluster"), "{refused}");
}

#[test]
fn hostile_descriptions_and_vectors_are_refused() {
    let fixture = Fixture::new(4, 1, 2, 1);
    let bytes = fixture.server.describe();
    assert!(Description::read(&bytes, false).unwrap_err().to_string().contains("a secure one"));
    for at in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(Description::read(&damaged, true).is_err(), "byte {at}");
    }
    let served = |asked: usize, documents: &str| {
        let index = StoredIndex::open(fixture.dir.path()).unwrap().asking(asked);
        SearchServer::new(Versions::new(index), documents.into())
    };
    assert!(served(4, "").is_ok());
    for (asked, documents) in [(0, ""), (5, ""), (2, "d".repeat(257).as_str())] {
        assert!(served(asked, documents).is_err(), "{asked} {documents}");
    }
    let client = fixture.client();
    for (vector, said) in [
        (vec![0.0; WIDTH], "only zeros in query 0"),
        (vec![f32::NAN; WIDTH], "not finite"),
        (vec![1.0; WIDTH + 1], "needed 32, as the documents have"),
    ] {
        let error = client.encode(&[vector]).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// What is at the address of a shard.
#[derive(Clone)]
enum Behind {
    Shard(Arc<SearchServer<Versions>>),
    /// Describes itself as a shard, and answers with these bytes.
    Liar(Arc<SearchServer<Versions>>, Vec<u8>),
    Nothing,
}

#[derive(Clone)]
struct Address(Arc<RwLock<Behind>>);

impl Address {
    /// Shard `number` of `shards` of an index.
    fn new(fixture: &Fixture, number: u32, shards: u32) -> Self {
        Address(Arc::new(RwLock::new(Self::shard(fixture, number, shards))))
    }

    fn shard(fixture: &Fixture, number: u32, shards: u32) -> Behind {
        let index = StoredIndex::open_part(fixture.dir.path(), IndexPart::Shard { number, shards }).unwrap();
        Behind::Shard(Arc::new(SearchServer::new(Versions::new(index), String::new()).unwrap()))
    }

    fn put(&self, behind: Behind) {
        *self.0.write().unwrap() = behind;
    }

    fn behind(&self) -> Behind {
        self.0.read().unwrap().clone()
    }
}

impl ShardAccess for Address {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        match self.behind() {
            Behind::Shard(server) | Behind::Liar(server, _) => Ok(server.describe()),
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
        Registration::from_bytes("keys", keys.bundle()).unwrap();
        let answer = match self.behind() {
            Behind::Shard(server) => {
                let request = Request::new(ClientId::new([0; 16]), &(), query);
                server.answer(&request, &Call::new(cancel)).map_err(|_| ShardFailure::NoAnswer)?
            }
            Behind::Liar(_, bytes) => bytes,
            Behind::Nothing => return Err(ShardFailure::NoAnswer),
        };
        // More is not read.
        if answer.len() > most { Err(ShardFailure::NoAnswer) } else { Ok(answer) }
    }
}

/// Addresses of three shards, not in their order, and a router.
fn routed(fixture: &Fixture) -> (Vec<Address>, Arc<Shards<Address>>, SearchRouter<Address>) {
    let addresses: Vec<Address> = [2, 3, 1].map(|number| Address::new(fixture, number, 3)).into();
    let shards = Arc::new(Shards::insecure_new(addresses.clone()).unwrap());
    let router = SearchRouter::new(Arc::clone(&shards), "pir/documents".into()).unwrap();
    (addresses, shards, router)
}

#[test]
fn a_router_gives_the_answers_of_the_whole_index() {
    let fixture = Fixture::new(2, 4, 2, 1);
    let (addresses, shards, router) = routed(&fixture);
    assert_eq!(router.describe(), fixture.server.describe());
    let mut client = fixture.client();
    let questions = [fixture.vectors.row(5).to_vec(), fixture.vectors.row(4000).to_vec()];
    let encoded = client.encode(&questions).unwrap();
    let query = client.query(&encoded).unwrap();
    let never = AtomicBool::new(false);
    let ask = || router.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::new(&never));
    let answer = ask().unwrap();
    assert_eq!(answer, fixture.ask(&query).unwrap());
    assert!(answer.len() <= router.limits().answer_bytes && query.len() <= router.limits().query_bytes);
    // A document that only one shard has taken up yet.
    let mut edit = IndexEdit::open(fixture.dir.path()).unwrap();
    let position = edit.add(&fixture.vectors.row(5).to_vec()).unwrap();
    edit.commit([2, 2]).unwrap();
    let mut known = 0;
    let build = u64::from(build_number([1; 16])) << 32;
    let fitting = |answer: &[u8]| -> Vec<u64> {
        (0..7).filter(|version| SearchClient::has_version_of(answer, build | version)).collect()
    };
    assert_eq!(fitting(&answer), [1, 2], "the next version only adds documents");
    for (address, number) in addresses.iter().zip([2, 3, 1]) {
        address.put(Address::shard(&fixture, number, 3));
        assert_eq!(shards.look(), Ok(true));
        let hits = client.read(&ask().unwrap(), &encoded).unwrap().remove(0);
        known += usize::from(hits.iter().any(|hit| hit.position == position));
        let versions: &[u64] = if number == 1 { &[2, 3] } else { &[2] };
        assert_eq!(fitting(&ask().unwrap()), versions, "one version belongs to the scores of all");
    }
    assert!((1..=3).contains(&known), "{known}");
    // With removals, no version belongs to the scores before and after.
    edit.remove(position);
    edit.commit([3, 4]).unwrap();
    addresses[0].put(Address::shard(&fixture, 2, 3));
    assert_eq!(shards.look(), Ok(true));
    assert_eq!(fitting(&ask().unwrap()), [3]);
    edit.add(&fixture.vectors.row(5).to_vec()).unwrap();
    edit.commit([5, 5]).unwrap();
    addresses[0].put(Address::shard(&fixture, 2, 3));
    shards.look().unwrap();
    assert_eq!(fitting(&ask().unwrap()), [0; 0]);
    for (address, number) in addresses.iter().zip([2, 3, 1]) {
        address.put(Address::shard(&fixture, number, 3));
    }
    // The shards describe what they described before the removal if the document has come to the same place.
    shards.look().unwrap();
    assert_eq!(fitting(&ask().unwrap()), [5, 6]);
    assert_eq!(shards.agreed().index().document_count(), DOCUMENTS as u64 + 1);
}

#[test]
fn shards_that_are_missing_or_do_not_fit_are_named() {
    let (fixture, other) = (Fixture::new(2, 3, 1, 1), Fixture::new(2, 3, 1, 2));
    let (addresses, shards, router) = routed(&fixture);
    let mut client = fixture.client();
    let encoded = client.encode(&[fixture.vectors.row(5).to_vec()]).unwrap();
    let query = client.query(&encoded).unwrap();
    let never = AtomicBool::new(false);
    let ask = || router.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::new(&never)).unwrap_err();
    addresses[1].put(Behind::Nothing);
    let refused = ask();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("shard 2 of 3 does not answer"), "{refused}");
    assert!(matches!(shards.look(), Err(ShardProblem::NoAnswer { number: 2, shards: 3 })));
    assert!(router.check_ready().is_err());
    // Bytes of anything but an answer of this shard.
    let right = Address::new(&fixture, 3, 3);
    let Behind::Shard(server) = right.behind() else { unreachable!() };
    let Behind::Shard(first) = Address::new(&fixture, 1, 3).behind() else { unreachable!() };
    let request = Request::new(ClientId::new([1; 16]), &(), &query);
    for bytes in [vec![], vec![0; 10], first.answer(&request, &Call::new(&never)).unwrap()] {
        addresses[1].put(Behind::Liar(Arc::clone(&server), bytes));
        assert_eq!(shards.look(), Ok(false));
        let refused = ask();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert!(refused.to_string().starts_with("shard 2 of 3: found "), "{refused}");
    }
    // Shards that change places between two looks: what they answer says so.
    addresses[1].put(Address::shard(&fixture, 3, 3));
    assert_eq!(shards.look(), Ok(false));
    addresses[0].put(Address::shard(&fixture, 1, 3));
    addresses[2].put(Address::shard(&fixture, 2, 3));
    let refused = ask().to_string();
    assert!(refused.contains("other groups"), "{refused}");
    assert_eq!(shards.look(), Ok(true));
    assert!(router.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::new(&never)).is_ok());
    addresses[0].put(Address::shard(&fixture, 2, 3));
    addresses[2].put(Address::shard(&fixture, 1, 3));
    assert_eq!(shards.look(), Ok(true));
    // Two addresses of one shard; another build; all of another build.
    for (behind, said) in [
        (Address::shard(&fixture, 1, 3), "groups 0 to 1, which another shard has"),
        (Address::shard(&fixture, 2, 3), "groups 1 to 2, which another shard has"),
        (Address::shard(&other, 3, 3), "another build of the index"),
    ] {
        addresses[1].put(behind);
        let problem = shards.look().unwrap_err().to_string();
        assert!(problem.contains(said), "{problem}");
        assert!(matches!(ask(), SearchError::Shard(ShardProblem::Differs { .. })));
    }
    let few = Shards::insecure_new(vec![Address::new(&fixture, 1, 3), Address::new(&fixture, 2, 3)]);
    let few = few.err().unwrap().to_string();
    assert!(few.contains("found 2 groups of columns at all shards, needed 3"), "{few}");
    assert_eq!(Shards::<Address>::new(vec![]).err(), Some(ShardProblem::None));
    for (address, number) in addresses.iter().zip([2, 3, 1]) {
        address.put(Address::shard(&other, number, 3));
    }
    assert_eq!(shards.look(), Ok(true));
    let refused = router.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::new(&never)).unwrap_err();
    assert!(matches!(refused, SearchError::Replaced), "{refused}");
    // All groups at one shard.
    let alone = Arc::new(Shards::insecure_new(vec![Address::new(&fixture, 1, 1)]).unwrap());
    let router = SearchRouter::new(alone, "pir/documents".into()).unwrap();
    let answer = router.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::new(&never));
    assert_eq!(answer.unwrap(), fixture.ask(&query).unwrap());
    for (number, shards) in [(0, 3), (4, 3), (1, 4)] {
        let refused = StoredIndex::open_part(fixture.dir.path(), IndexPart::Shard { number, shards }).unwrap_err();
        assert!(refused.to_string().contains("at most 3 shards"), "{refused}");
    }
}
