//! Requests and answers: the id of the index, queries or responses, a checksum.

use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::ScoreResponse;
use unspoken_protocol::{append_checksum, checked};

use crate::description::{Description, ID_BYTES};
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

/// Writes the responses to all queries, those of each query one after the other.
pub(crate) fn write_answer(description: &Description, responses: &[Vec<ScoreResponse>]) -> Vec<u8> {
    let mut bytes = description.id().to_vec();
    responses.iter().flatten().for_each(|response| bytes.extend(response.to_bytes()));
    append_checksum(&mut bytes);
    bytes
}

/// The bytes of the responses of an answer to a number of questions, after checks of all that is not encrypted.
pub(crate) fn answer_content<'a>(
    description: &Description,
    bytes: &'a [u8],
    questions: usize,
) -> Result<&'a [u8], SearchError> {
    let (found, needed) = (bytes.len(), description.answer_bytes(questions));
    let content = of_index(description, checked("answer", bytes)?)?;
    match found == needed {
        true => Ok(content),
        false => Err(SearchError::mismatch("answer", format!("{found} bytes"), format!("{needed} bytes"))),
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
