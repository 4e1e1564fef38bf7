//! The client's half: encrypts vectors, and reads the scores of the nearest clusters.

use std::borrow::Borrow;

use unspoken_pir_scheme::PirSecret;
use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_protocol::{ClientHalf, Registration, impl_registered_client, read_every};
use unspoken_ring::SecretRng;
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
    fn check_count(&self, questions: usize) -> Result<(), SearchError> {
        let most = self.batch();
        match (1..=most).contains(&questions) {
            true => Ok(()),
            false => Err(SearchError::mismatch("request", format!("{questions} questions"), format!("1 to {most}"))),
        }
    }

    /// All documents of the blocks that were asked for a vector, the nearest first. The order of equal scores is that
    /// of the positions. `counts` are the columns of all clusters, `responses` the bytes of the responses of all
    /// clusters of these blocks.
    fn hits(&self, question: &EncodedVector, counts: &[usize], responses: &[u8]) -> Result<Vec<Hit>, SearchError> {
        let (parameters, shape) = (self.description.parameters(), self.description.shape());
        let (groups, room) = (shape.groups(), ScoreShape::cluster_documents(parameters));
        let scale = self.description.directory().scale();
        let clusters = question.blocks.iter().flat_map(|&block| block * groups..(block + 1) * groups);
        let hits_of = |(cluster, bytes): (usize, &[u8])| -> Result<Vec<Hit>, SearchError> {
            let response = ScoreResponse::from_bytes(parameters, bytes)?;
            let scores = self.secret.scores(shape, &question.vector, &response)?;
            let hit = |(column, score): (usize, &f32)| Hit {
                position: (cluster * room + column) as u64,
                cosine: score / scale,
            };
            Ok(scores.iter().take(counts[cluster]).enumerate().map(hit).collect())
        };
        let responses = responses.chunks_exact(ScoreResponse::byte_len(parameters));
        // All of them, before an error ends it.
        let mut hits = read_every(clusters.zip(responses).map(hits_of))?.concat();
        hits.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then(a.position.cmp(&b.position)));
        Ok(hits)
    }
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
            let is_finite = vector.iter().all(|coordinate| coordinate.is_finite());
            if !is_finite || vector.iter().all(|&coordinate| coordinate == 0.0) {
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
        let AnswerContent { counts, responses: content } =
            AnswerContent::read(&self.description, answer, questions.len())?;
        let responses = self.description.directory().asked() * self.description.shape().groups();
        let length = responses * ScoreResponse::byte_len(self.description.parameters());
        let each = questions.iter().zip(content.chunks_exact(length));
        read_every(each.map(|(question, bytes)| self.hits(question, &counts, bytes)))
    }
}
