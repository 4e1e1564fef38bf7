//! Requests and answers: the id of the index, queries or responses, a checksum.

use std::ops::Range;

use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_protocol::{append_checksum, checked};

use unspoken_search_index::{ID_BYTES, build_number};

use crate::description::{COUNT_BYTES, Description, PART_BYTES, VERSION_BYTES};
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

/// Writes the versions of the documents, the number of columns of each cluster, and the responses to all queries, those
/// of each query one after the other. The answer of a shard has those of its groups, which it names first.
pub(crate) fn write_answer(
    description: &Description,
    part: Option<Range<usize>>,
    versions: [u32; 2],
    counts: &[u32],
    responses: &[Vec<ScoreResponse>],
) -> Vec<u8> {
    let mut bytes = description.id().to_vec();
    part.iter().for_each(|range| bytes.extend(name_of(range)));
    append_versions(&mut bytes, versions);
    let groups = description.shape().groups();
    for block in counts.chunks_exact(groups) {
        let counts = &block[part.clone().unwrap_or(0..groups)];
        // A cluster has fewer columns than the ring has coefficients: 2^11, or 2^12.
        counts.iter().for_each(|&count| bytes.extend((count as u16).to_le_bytes()));
    }
    responses.iter().flatten().for_each(|response| bytes.extend(response.to_bytes()));
    append_checksum(&mut bytes);
    bytes
}

fn append_versions(bytes: &mut Vec<u8>, versions: [u32; 2]) {
    bytes.extend(versions.iter().flat_map(|version| version.to_le_bytes()));
}

/// Whether documents of this version have all documents that an answer with scores can name, except those that were
/// removed since. Neither is encrypted.
pub(crate) fn has_version_of(answer: &[u8], version: u64) -> bool {
    let Some((id, after)) = answer.split_first_chunk::<ID_BYTES>() else { return false };
    let Some((versions, _)) = after.split_first_chunk::<VERSION_BYTES>() else { return false };
    let [first, last] = read_versions(versions);
    // The version after the last only adds documents, which the index of this answer does not know, or, if nothing is
    // added, only removes some. Answers of shards that have not all taken up a change may leave one version, or none.
    let fitting = u64::from(first)..=u64::from(last) + 1;
    let (build, version) = (version >> u32::BITS, version & u64::from(u32::MAX));
    build == u64::from(build_number(*id)) && fitting.contains(&version)
}

fn read_versions(bytes: &[u8; VERSION_BYTES]) -> [u32; 2] {
    let (numbers, _) = bytes.as_chunks();
    [u32::from_le_bytes(numbers[0]), u32::from_le_bytes(numbers[1])]
}

/// The groups of a shard: the first one, and their number.
fn name_of(part: &Range<usize>) -> [u8; PART_BYTES] {
    let [first, count] = [part.start, part.len()].map(|number| (number as u32).to_le_bytes());
    let mut name = [0; PART_BYTES];
    name[..4].copy_from_slice(&first);
    name[4..].copy_from_slice(&count);
    name
}

/// An answer to a number of questions, after checks of all that is not encrypted.
pub(crate) struct AnswerContent<'a> {
    /// Versions of the documents that belong to it, the first and the last.
    versions: [u32; 2],
    /// Columns of each cluster that have or had a document: the first ones.
    pub(crate) counts: Vec<usize>,
    /// The bytes of the responses to the queries.
    pub(crate) responses: &'a [u8],
}

impl<'a> AnswerContent<'a> {
    /// Reads an answer from untrusted bytes.
    pub(crate) fn read(description: &Description, bytes: &'a [u8], questions: usize) -> Result<Self, SearchError> {
        let content = of_index(description, checked("answer", bytes)?)?;
        check_length(bytes, description.answer_bytes(questions))?;
        Self::split(description, description.shape().groups(), content)
    }

    /// Reads the answer of a shard with these groups from untrusted bytes.
    pub(crate) fn read_part(
        description: &Description,
        part: Range<usize>,
        bytes: &'a [u8],
        questions: usize,
    ) -> Result<Self, SearchError> {
        let content = of_index(description, checked("answer", bytes)?)?;
        check_length(bytes, description.part_answer_bytes(part.len(), questions))?;
        match content.split_first_chunk::<PART_BYTES>() {
            Some((name, content)) if *name == name_of(&part) => Self::split(description, part.len(), content),
            _ => {
                let needed = format!("{} to {}", part.start, part.end);
                Err(SearchError::mismatch("answer of a shard", "other groups", needed))
            }
        }
    }

    /// The parts of a content of the right length, of so many groups.
    fn split(description: &Description, groups: usize, content: &'a [u8]) -> Result<Self, SearchError> {
        let (versions, content) = content.split_first_chunk().expect("an answer of this length has versions");
        let versions = read_versions(versions);
        let (counts, responses) = content.split_at(description.shape().blocks() * groups * COUNT_BYTES);
        let (counts, _) = counts.as_chunks::<COUNT_BYTES>();
        let counts: Vec<usize> = counts.iter().map(|&count| usize::from(u16::from_le_bytes(count))).collect();
        let room = ScoreShape::cluster_documents(description.parameters());
        match counts.iter().find(|&&count| count > room) {
            None => Ok(AnswerContent { versions, counts, responses }),
            Some(count) => {
                let found = format!("{count} documents in a cluster");
                Err(SearchError::mismatch("answer", found, format!("at most {room}")))
            }
        }
    }
}

fn check_length(answer: &[u8], needed: usize) -> Result<(), SearchError> {
    match answer.len() {
        found if found == needed => Ok(()),
        found => Err(SearchError::mismatch("answer", format!("{found} bytes"), format!("{needed} bytes"))),
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
/// `questions` questions that the whole index gives. Its versions of the documents are those that belong to the scores
/// of all shards: none, perhaps, as long as not all of them have taken up a change.
pub(crate) fn join_answers(
    description: &Description,
    answers: &[(usize, AnswerContent<'_>)],
    questions: usize,
) -> Vec<u8> {
    let (blocks, queries) = (description.shape().blocks(), questions * description.directory().asked());
    let each = ScoreResponse::byte_len(description.parameters());
    let versions = || answers.iter().map(|(_, answer)| answer.versions);
    let first = versions().map(|[first, _]| first).max().unwrap_or_default();
    let last = versions().map(|[_, last]| last).min().unwrap_or_default();
    let mut bytes = description.id().to_vec();
    append_versions(&mut bytes, [first, last]);
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
