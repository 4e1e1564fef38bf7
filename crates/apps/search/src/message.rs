//! Requests and answers: the id of the index, queries or responses, a checksum.

use std::ops::Range;

use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_protocol::{append_checksum, checked};

use unspoken_search_index::ID_BYTES;

use crate::description::{COUNT_BYTES, Description};
use crate::error::SearchError;

/// Writes queries, those of each question one after the other.
pub(crate) fn write_request<'a>(description: &Description, queries: impl Iterator<Item = &'a RowsQuery>) -> Vec<u8> {
    let mut bytes = description.id().to_vec();
    queries.for_each(|query| bytes.extend(query.to_bytes(description.parameters())));
    append_checksum(&mut bytes);
    bytes
}

/// Reads the queries of a request from untrusted bytes.
pub(crate) fn read_request(description: &Description, bytes: &[u8]) -> Result<Vec<RowsQuery>, SearchError> {
    let content = of_index(description, checked("request", bytes)?)?;
    let (parameters, rows) = (description.parameters(), description.shape().rows());
    let (length, asked) = (RowsQuery::byte_len(parameters, rows), description.directory().asked());
    let questions = content.len() / (length * asked);
    if !(1..=description.most_questions()).contains(&questions) || content.len() != questions * asked * length {
        let needed =
            format!("{asked} queries of {length} bytes for each of 1 to {} questions", description.most_questions());
        return Err(SearchError::mismatch("request", format!("{} bytes", content.len()), needed));
    }
    Ok(content
        .chunks_exact(length)
        .map(|query| RowsQuery::from_bytes(parameters, rows, query))
        .collect::<Result<_, _>>()?)
}

/// Writes the number of columns of each cluster, and the responses to all queries, those of each query one after the
/// other: of all groups, or of those of a shard.
pub(crate) fn write_answer(
    description: &Description,
    counts: impl Iterator<Item = u16>,
    responses: &[Vec<ScoreResponse>],
) -> Vec<u8> {
    let mut bytes = description.id().to_vec();
    counts.for_each(|count| bytes.extend(count.to_le_bytes()));
    responses.iter().flatten().for_each(|response| bytes.extend(response.to_bytes()));
    append_checksum(&mut bytes);
    bytes
}

/// The columns of the clusters of some groups, of those of all clusters.
pub(crate) fn counts_of(counts: &[u32], groups: usize, range: Range<usize>) -> impl Iterator<Item = u16> {
    // A cluster has fewer columns than the ring has coefficients: 2^11, or 2^12.
    counts.chunks_exact(groups).flat_map(move |block| block[range.clone()].iter().map(|&count| count as u16))
}

/// An answer to a number of questions, after checks of all that is not encrypted.
pub(crate) struct AnswerContent<'a> {
    /// Columns of each cluster that have or had a document: the first ones.
    pub(crate) counts: Vec<usize>,
    /// The bytes of the responses to the queries.
    pub(crate) responses: &'a [u8],
}

impl<'a> AnswerContent<'a> {
    /// Reads an answer of a number of groups, all or those of a shard, from untrusted bytes.
    pub(crate) fn read(
        description: &Description,
        groups: usize,
        bytes: &'a [u8],
        questions: usize,
    ) -> Result<Self, SearchError> {
        let (found, needed) = (bytes.len(), description.answer_bytes_of(groups, questions));
        let content = of_index(description, checked("answer", bytes)?)?;
        if found != needed {
            return Err(SearchError::mismatch("answer", format!("{found} bytes"), format!("{needed} bytes")));
        }
        let (counts, responses) = content.split_at(description.shape().blocks() * groups * COUNT_BYTES);
        let (counts, _) = counts.as_chunks::<COUNT_BYTES>();
        let counts: Vec<usize> = counts.iter().map(|&count| usize::from(u16::from_le_bytes(count))).collect();
        let room = ScoreShape::cluster_documents(description.parameters());
        match counts.iter().find(|&&count| count > room) {
            None => Ok(AnswerContent { counts, responses }),
            Some(count) => {
                let found = format!("{count} documents in a cluster");
                Err(SearchError::mismatch("answer", found, format!("at most {room}")))
            }
        }
    }
}

/// The bytes after the id of the index.
fn of_index<'a>(description: &Description, bytes: &'a [u8]) -> Result<&'a [u8], SearchError> {
    match bytes.split_first_chunk::<ID_BYTES>() {
        Some((id, content)) if *id == description.id() => Ok(content),
        Some(_) => Err(SearchError::Replaced),
        None => Err(SearchError::mismatch("message", format!("{} bytes", bytes.len()), "the id of an index first")),
    }
}

/// Puts the answers of all shards together, which come with their groups and in the order of those, to the answer to
/// `questions` questions that the whole index gives.
pub(crate) fn join_answers(
    description: &Description,
    answers: &[(usize, AnswerContent<'_>)],
    questions: usize,
) -> Vec<u8> {
    let (blocks, queries) = (description.shape().blocks(), questions * description.directory().asked());
    let each = ScoreResponse::byte_len(description.parameters());
    let mut bytes = description.id().to_vec();
    for block in 0..blocks {
        for (groups, answer) in answers {
            let counts = &answer.counts[block * groups..(block + 1) * groups];
            counts.iter().for_each(|&count| bytes.extend((count as u16).to_le_bytes()));
        }
    }
    for query in 0..queries {
        for (groups, answer) in answers {
            bytes.extend(&answer.responses[query * groups * each..(query + 1) * groups * each]);
        }
    }
    append_checksum(&mut bytes);
    bytes
}
