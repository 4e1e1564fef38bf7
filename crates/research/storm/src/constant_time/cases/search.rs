//! Private search: choosing blocks, queries for scores, reading scores, and the client's half.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ndarray::Array2;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::dense::scores::ScoreResponse;
use unspoken_pir_scheme::{PirSecret, Preset};
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, Call, ClientHalf, ClientId, Request, ServerHalf, append_checksum,
};
use unspoken_ring::SecretRng;
use unspoken_search::{Description, SearchClient, SearchServer};
use unspoken_search_index::{About, Index, IndexVersions, Plan, StoredIndex, Wish, directions};
use zeroize::Zeroizing;

use super::{secret_generator, secret_key};
use crate::constant_time::memcheck::{mark_public, mark_secret};

const CLIENT: ClientId = ClientId::new([1; 16]);
const DOCUMENTS: usize = 100;
const WIDTH: usize = 8;
const BLOCKS: usize = 4;
const GROUPS: usize = 2;
const ASKED: usize = 2;
const ID: [u8; 16] = [9; 16];

/// The document that is looked for.
const NEAREST: usize = 37;

/// The difference of a decrypted cosine and one in the clear is smaller.
const ERROR: f32 = 0.05;

struct OneVersion(Arc<StoredIndex>);

impl IndexVersions for OneVersion {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.0)
    }
}

fn vectors() -> anyhow::Result<Array2<f32>> {
    Ok(directions(Array2::from_shape_fn((DOCUMENTS, WIDTH), |(i, j)| ((i * 7 + j * 3) as f32 * 0.37).sin()))?)
}

/// The vector of a document, of another length.
fn vector() -> anyhow::Result<Vec<f32>> {
    Ok(vectors()?.row(NEAREST).iter().map(|coordinate| coordinate * 3.0).collect())
}

fn secret_vector() -> anyhow::Result<Vec<f32>> {
    let mut vector = vector()?;
    mark_secret(&mut vector);
    Ok(vector)
}

fn server(directory: &Path) -> anyhow::Result<SearchServer<OneVersion>> {
    Ok(SearchServer::new(OneVersion(Arc::new(StoredIndex::open(directory)?)), "pir/documents".into())?)
}

/// Writes an index and its description.
pub fn prepare_queries(directory: &Path) -> anyhow::Result<()> {
    let parameters = Preset::InsecureN11.build()?;
    let wish = Wish { documents: DOCUMENTS, width: WIDTH, link: 1e7, cores: 1.0, memory: 1 << 30 };
    let plan = Plan::new(&parameters, &wish, [BLOCKS, GROUPS, ASKED]);
    let index = Index::new(&parameters, vectors()?.view(), &plan, MaskSeed([5; 16]), &mut |_, _| ())?;
    index.store(&parameters, directory, ID, About::default())?;
    std::fs::write(directory.join("description"), server(directory)?.describe())?;
    Ok(())
}

fn description(directory: &Path) -> anyhow::Result<Description> {
    Ok(Description::read(&std::fs::read(directory.join("description"))?, true)?)
}

/// The queries of a secret for a vector, one for each block.
fn queries(
    description: &Description,
    (secret, generator): (&PirSecret, &mut SecretRng),
    vector: &[f32],
) -> anyhow::Result<Vec<u8>> {
    let (directory, shape) = (description.directory(), description.shape());
    let mut bytes = Vec::new();
    for &block in directory.blocks(vector, directory.asked()).iter() {
        bytes.extend(secret.score_query(shape, block, vector, generator)?.to_bytes(description.parameters()));
    }
    Ok(bytes)
}

pub fn asking(directory: &Path) -> anyhow::Result<()> {
    let (description, vector) = (description(directory)?, secret_vector()?);
    let secret = PirSecret::derive(description.parameters(), &secret_key())?;
    queries(&description, (&secret, &mut secret_generator()), &vector)?;
    let mut client = SearchClient::open(description, (), None)?;
    let encoded = client.encode(&[vector])?;
    client.query(&encoded)?;
    Ok(())
}

/// As [`prepare_queries`]; also writes the responses to the queries of a stored secret.
pub fn prepare_reading(directory: &Path) -> anyhow::Result<()> {
    prepare_queries(directory)?;
    let (description, server) = (description(directory)?, server(directory)?);
    let secret = PirSecret::derive(description.parameters(), &known_key())?;
    let queries = queries(&description, (&secret, &mut SecretRng::insecure_from_seed(4)), &vector()?)?;
    let mut request = [&ID[..], &queries].concat();
    append_checksum(&mut request);
    let answer = server.answer(&Request::new(CLIENT, &(), &request), &Call::default())?;
    let responses = answer.len() - CHECKSUM_BYTES - response_bytes(&description);
    std::fs::write(directory.join("responses"), &answer[responses..answer.len() - CHECKSUM_BYTES])?;
    Ok(())
}

/// Bytes of the responses to a question.
fn response_bytes(description: &Description) -> usize {
    ASKED * GROUPS * ScoreResponse::byte_len(description.parameters())
}

/// The key of [`secret_key`], not marked secret.
fn known_key() -> Zeroizing<[u8; 32]> {
    let mut key = secret_key();
    mark_public(key.as_mut_slice());
    key
}

pub fn reading(directory: &Path) -> anyhow::Result<()> {
    let (description, vector) = (description(directory)?, secret_vector()?);
    let secret = PirSecret::derive(description.parameters(), &secret_key())?;
    let responses = std::fs::read(directory.join("responses"))?;
    let mut best = f32::NEG_INFINITY;
    for bytes in responses.chunks_exact(ScoreResponse::byte_len(description.parameters())) {
        let response = ScoreResponse::from_bytes(description.parameters(), bytes)?;
        let mut scores = secret.scores(description.shape(), &vector, &response)?;
        mark_public(&mut scores);
        best = scores.iter().copied().fold(best, f32::max);
    }
    let cosine = best / description.directory().scale();
    anyhow::ensure!((cosine - 1.0).abs() < ERROR, "the best of the prepared scores decrypts to {cosine}");
    client_reads(directory, description, &vector)
}

/// A client of its own secret asks a service in this process and reads its answer. Its vector is marked, and so are the
/// blocks, the positions and the number of its hits.
fn client_reads(directory: &Path, description: Description, vector: &[f32]) -> anyhow::Result<()> {
    let server = server(directory)?;
    let mut client = SearchClient::open(description, (), None)?;
    let encoded = client.encode(&[vector])?;
    let mut query = client.query(&encoded)?;
    // Ciphertexts, which the service gets.
    mark_public(&mut query);
    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default())?;
    client.check_answer(&answer, 1)?;
    let mut read = client.read(&answer, &encoded)?;
    mark_public(&mut read);
    let mut hits = read.pop().context("no answer")?;
    mark_public(&mut hits);
    let cosine = hits.first().context("no hits")?.cosine;
    anyhow::ensure!((cosine - 1.0).abs() < ERROR, "the nearest document has the cosine {cosine}");
    Ok(())
}
