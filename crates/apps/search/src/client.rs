//! The client's half: encrypts vectors, and reads the scores of the nearest clusters.

use std::borrow::Borrow;
use std::hint::black_box;

use subtle::{ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use unspoken_pir_scheme::PirSecret;
use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_protocol::{ClientHalf, Registration, impl_registered_client, read_every};
use unspoken_ring::{SecretRng, declassify};
use unspoken_search_index::{Ranked, best_first};
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::SearchError;
use crate::message::{self, AnswerContent};

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its position: cluster by cluster, block by block. The documents of the service are fetched by it.
    pub position: u64,
    /// The cosine of its vector and the query's, with the error of encryption and of coordinates of 8 bits.
    pub cosine: f32,
}

/// A vector, and the blocks that are asked for it. Wiped when dropped.
pub struct EncodedVector {
    vector: Zeroizing<Vec<f32>>,
    blocks: Zeroizing<Vec<usize>>,
}

/// A client that searches a collection.
pub struct SearchClient {
    description: Description,
    registration: Registration,
    /// Of this object alone: no query or answer outlives it.
    secret: PirSecret,
    rng: SecretRng,
}

impl SearchClient {
    /// Whether documents of this version have all documents that an answer can name, except those that were removed
    /// since. If they do not, a change or a new build of the index was taken up between both: search again. Neither the
    /// version nor that of the answer is encrypted, so this says nothing of what was asked or found.
    pub fn has_version_of(answer: &[u8], version: u64) -> bool {
        message::has_version_of(answer, version)
    }

    fn check_count(&self, questions: usize) -> Result<(), SearchError> {
        let most = self.batch();
        match (1..=most).contains(&questions) {
            true => Ok(()),
            false => Err(SearchError::mismatch("request", format!("{questions} questions"), format!("1 to {most}"))),
        }
    }

    /// All documents of the blocks that were asked for a vector, the nearest first. The order of equal scores is that
    /// of the positions. `counts` are the columns of all clusters, `responses` the bytes of the responses of all
    /// clusters of these blocks. No branch and no address depends on the vector, the blocks or the scores, except on
    /// the number of hits, and that an unreadable response is an error.
    fn hits(&self, question: &EncodedVector, counts: &[usize], responses: &[u8]) -> Result<Vec<Hit>, SearchError> {
        let (parameters, shape) = (self.description.parameters(), self.description.shape());
        let (groups, room) = (shape.groups(), ScoreShape::cluster_documents(parameters));
        let scale = self.description.directory().scale();
        let clusters = clusters_of(&question.blocks, groups, counts);
        let ranked_of = |(&(cluster, count), bytes): (&(u64, u64), &[u8])| -> Result<Vec<Ranked>, SearchError> {
            let response = ScoreResponse::from_bytes(parameters, bytes)?;
            let scores = self.secret.scores(shape, &question.vector, &response)?;
            let ranked = |(column, score): (u64, &f32)| {
                // Columns without a document come last.
                let (cosine, is_document) = ((score / scale).to_bits(), column.ct_lt(&count));
                let cosine = u32::conditional_select(&f32::NEG_INFINITY.to_bits(), &cosine, is_document);
                Ranked::new(f32::from_bits(cosine), cluster * room as u64 + column)
            };
            Ok((0..).zip(scores.iter()).map(ranked).collect())
        };
        let responses = responses.chunks_exact(ScoreResponse::byte_len(parameters));
        // All of them, before an error ends it.
        let mut ranked = read_every(clusters.iter().zip(responses).map(ranked_of))?.concat();
        best_first(&mut ranked);
        let hits = ranked.iter().map(|ranked| Hit { position: ranked.number(), cosine: ranked.value() }).collect();
        Ok(only_documents(hits, clusters.iter().map(|&(_, count)| count).sum()))
    }
}

/// The clusters of some blocks, and how many columns of each have or had a document. No branch and no address depends
/// on the blocks.
fn clusters_of(blocks: &[usize], groups: usize, counts: &[usize]) -> Zeroizing<Vec<(u64, u64)>> {
    let mut clusters = Zeroizing::new(Vec::with_capacity(blocks.len() * groups));
    for &block in blocks {
        for group in 0..groups {
            let mut found = 0;
            for (number, counts) in (0u64..).zip(counts.chunks_exact(groups)) {
                found.conditional_assign(&(counts[group] as u64), number.ct_eq(&(block as u64)));
            }
            clusters.push(((block * groups + group) as u64, found));
        }
    }
    clusters
}

/// Cuts off what is no document. Their number is what the caller gets, and requests do not depend on it.
#[inline(never)]
fn only_documents(mut hits: Vec<Hit>, documents: u64) -> Vec<Hit> {
    hits.truncate(documents as usize);
    hits
}

impl_registered_client!(SearchClient);

impl ClientHalf for SearchClient {
    type Error = SearchError;
    type Description = Description;
    type Model = ();
    /// The vector of a query, of any length but zero.
    type Question = [f32];
    type Encoded = EncodedVector;
    /// All documents of the blocks that were asked, the nearest first.
    type Answer = Vec<Hit>;

    const VERB: &'static str = "searching";

    fn open(description: Description, (): (), stored: Option<&[u8]>) -> Result<Self, SearchError> {
        let registration = Registration::stored_or_new(stored)?;
        let mut rng = SecretRng::from_os()?;
        let secret = PirSecret::generate(description.parameters(), &mut rng)?;
        Ok(SearchClient { description, registration, secret, rng })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// [`Description::most_questions`].
    fn batch(&self) -> usize {
        self.description.most_questions()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.answer_bytes(questions)
    }

    /// Chooses the blocks to ask, always the same number of them.
    fn encode<Q: Borrow<[f32]>>(&self, questions: &[Q]) -> Result<Vec<EncodedVector>, SearchError> {
        let (directory, width) = (self.description.directory(), self.description.shape().width());
        let encode = |(number, vector): (usize, &Q)| {
            let vector: &[f32] = vector.borrow();
            let wrong = |found: String, needed: String| Err(SearchError::mismatch("vector of a query", found, needed));
            if vector.len() != width {
                return wrong(
                    format!("{} coordinates in query {number}", vector.len()),
                    format!("{width}, as the documents have: use the embedder that made their vectors"),
                );
            }
            // Both results are public: the caller gets an error. The compiler does not know them before the end.
            let is_finite = vector.iter().fold(true, |all, x| all & black_box(x.is_finite()));
            let is_zero = vector.iter().fold(true, |all, &x| all & black_box(x == 0.0));
            let (is_finite, is_zero) = (declassify(is_finite), declassify(is_zero));
            if !is_finite || is_zero {
                let found = if is_finite { "only zeros" } else { "a coordinate that is not finite" };
                return wrong(format!("{found} in query {number}"), "a direction".into());
            }
            let blocks = directory.blocks(vector, directory.asked());
            Ok(EncodedVector { vector: Zeroizing::new(vector.to_vec()), blocks })
        };
        questions.iter().enumerate().map(encode).collect()
    }

    fn query(&mut self, questions: &[EncodedVector]) -> Result<Vec<u8>, SearchError> {
        self.check_count(questions.len())?;
        let mut queries: Vec<RowsQuery> = Vec::new();
        for question in questions {
            for &block in question.blocks.iter() {
                let shape = self.description.shape();
                queries.push(self.secret.score_query(shape, block, &question.vector, &mut self.rng)?);
            }
        }
        Ok(message::write_request(&self.description, queries.iter()))
    }

    fn check_answer(&self, answer: &[u8], questions: usize) -> Result<(), SearchError> {
        AnswerContent::read(&self.description, answer, questions).map(drop)
    }

    fn read(&self, answer: &[u8], questions: &[EncodedVector]) -> Result<Vec<Vec<Hit>>, SearchError> {
        let AnswerContent { counts, responses: content, .. } =
            AnswerContent::read(&self.description, answer, questions.len())?;
        let responses = self.description.directory().asked() * self.description.shape().groups();
        let length = responses * ScoreResponse::byte_len(self.description.parameters());
        let each = questions.iter().zip(content.chunks_exact(length));
        read_every(each.map(|(question, bytes)| self.hits(question, &counts, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::Array2;
    use unspoken_pir_scheme::Preset;
    use unspoken_pir_scheme::dense::MaskSeed;
    use unspoken_protocol::{ApplicationDescription, Call, ClientId, Request, ServerHalf};
    use unspoken_search_index::{About, Index, IndexVersions, Plan, StoredIndex, Wish, directions};

    use super::*;
    use crate::SearchServer;

    struct One(Arc<StoredIndex>);

    impl IndexVersions for One {
        fn current(&self) -> Arc<StoredIndex> {
            Arc::clone(&self.0)
        }
    }

    #[test]
    fn the_clusters_of_blocks_have_their_counts() {
        let counts = [5, 6, 7, 8, 0, 2047];
        assert_eq!(*clusters_of(&[2, 0], 2, &counts), [(4, 0), (5, 2047), (0, 5), (1, 6)]);
        assert_eq!(*clusters_of(&[1], 3, &counts), [(3, 8), (4, 0), (5, 2047)]);
    }

    #[test]
    fn hits_are_those_that_sorting_the_decrypted_scores_gives() {
        let parameters = Preset::InsecureN11.build().unwrap();
        // Groups of equal vectors, so that scores are nearly equal.
        let vectors = Array2::from_shape_fn((3000, 8), |(i, j)| ((i % 100 * 7 + j * 13) as f32).sin());
        let vectors = directions(vectors).unwrap();
        let wish = Wish { documents: 3000, width: 8, link: 1e7, cores: 1.0, memory: 1 << 30 };
        let plan = Plan::new(&parameters, &wish, [3, 2, 2]);
        let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([5; 16]), &mut |_, _| ()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        index.store(&parameters, dir.path(), [9; 16], About::default()).unwrap();
        let index = Arc::new(StoredIndex::open(dir.path()).unwrap());
        let server = SearchServer::new(One(index), String::new()).unwrap();
        let description = Description::read(&server.describe(), true);
        let mut client = SearchClient::open(description.unwrap(), (), None).unwrap();
        let question = client.encode(&[vectors.row(7).to_vec()]).unwrap();
        let query = client.query(&question).unwrap();
        let answer = server.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::default()).unwrap();
        let AnswerContent { counts, responses, .. } = AnswerContent::read(&client.description, &answer, 1).unwrap();
        let length = ScoreResponse::byte_len(&parameters);
        let clusters = question[0].blocks.iter().flat_map(|&block| 2 * block..2 * block + 2);
        let mut sorted = Vec::new();
        for (cluster, bytes) in clusters.zip(responses.chunks_exact(length)) {
            let response = ScoreResponse::from_bytes(&parameters, bytes).unwrap();
            let scores = client.secret.scores(client.description.shape(), &question[0].vector, &response).unwrap();
            let hit = |(column, score): (usize, &f32)| Hit {
                position: (cluster * ScoreShape::cluster_documents(&parameters) + column) as u64,
                cosine: score / client.description.directory().scale(),
            };
            sorted.extend(scores.iter().take(counts[cluster]).enumerate().map(hit));
        }
        sorted.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then(a.position.cmp(&b.position)));
        assert_eq!(client.hits(&question[0], &counts, responses).unwrap(), sorted);
        assert_eq!(
            sorted.len(),
            question[0].blocks.iter().map(|&block| counts[2 * block] + counts[2 * block + 1]).sum::<usize>()
        );
    }
}
