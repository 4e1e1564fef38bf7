//! What questions will take, known before anything is sent.

use unspoken_protocol::ClientHalf;

/// Bytes that a number of questions will take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of questions.
    pub questions: usize,
    /// Maximum number of questions in one query. A query with fewer is as long, except for private
    /// retrieval and short queries.
    pub batch: usize,
    /// Number of queries.
    pub queries: usize,
    /// Bytes of the keys to upload, once; 0 if the service has them.
    pub key_bytes: u64,
    /// Bytes of all queries, at most; they have a few bytes less.
    pub query_bytes: u64,
    /// Bytes of all answers, as the service describes them.
    pub answer_bytes: u64,
}

impl Cost {
    /// The cost of the queries of a client whose keys the service has.
    pub(crate) fn of_questions<H: ClientHalf>(half: &H, questions: usize) -> Self {
        let batch = half.batch().max(1);
        let (full, rest) = (questions / batch, questions % batch);
        let all = |bytes: &dyn Fn(usize) -> usize| {
            let last = if rest > 0 { bytes(rest) as u64 } else { 0 };
            (bytes(batch) as u64).saturating_mul(full as u64).saturating_add(last)
        };
        Cost {
            questions,
            batch,
            queries: questions.div_ceil(batch),
            key_bytes: 0,
            query_bytes: all(&|questions| half.query_bytes(questions)),
            answer_bytes: all(&|questions| half.expected_answer_bytes(questions)),
        }
    }
}
