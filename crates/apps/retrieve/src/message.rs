//! Serialisation of requests and answers. Both end with a checksum, the first 8 bytes of BLAKE3 of the bytes before it:
//! a request is not much longer, and damage stays unnoticed once in 2^64.

use unspoken_pir::{Mode, Query, Response};
use unspoken_protocol::ProtocolError;

use crate::description::Description;
use crate::error::RetrieveError;

/// Bytes before the responses of an answer: the version, and the id of the layout.
pub(crate) const HEADER_BYTES: usize = 16;

/// Bytes of the checksum of a request or an answer.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// Bytes of a request beside its queries.
pub const REQUEST_OVERHEAD_BYTES: usize = CHECKSUM_BYTES;

/// Bytes of an answer beside its responses.
pub const ANSWER_OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;

/// Bytes of the first number of session queries, and of the body of each.
const WORD: usize = size_of::<u32>();

/// Maximum length of a request of any kind, in bytes.
pub(crate) fn most_request_bytes(description: &Description) -> usize {
    let longest = Mode::ALL.into_iter().map(|mode| description.query_bytes(mode)).max().unwrap_or_default();
    longest * description.most_queries() + REQUEST_OVERHEAD_BYTES
}

fn append_checksum(bytes: &mut Vec<u8>) {
    let hash = blake3::hash(bytes);
    bytes.extend(&hash.as_bytes()[..CHECKSUM_BYTES]);
}

/// The bytes before the checksum, after a comparison with it.
fn checked<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], RetrieveError> {
    match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((content, checksum)) if blake3::hash(content).as_bytes().starts_with(checksum) => Ok(content),
        _ => Err(ProtocolError::Damaged { what }.into()),
    }
}

/// Length of a request of that many queries, in bytes.
pub(crate) fn request_bytes(description: &Description, mode: Mode, queries: usize) -> usize {
    let repeated = if mode == Mode::Session { WORD * queries.saturating_sub(1) } else { 0 };
    description.query_bytes(mode) * queries - repeated + REQUEST_OVERHEAD_BYTES
}

/// Concatenates queries. Those of a session must have consecutive numbers, of which only the first is written.
pub(crate) fn write_request(description: &Description, queries: &[Query]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for query in queries {
        let query_bytes = query.to_bytes(description.parameters());
        let repeated = if query.mode() == Mode::Session && !bytes.is_empty() { WORD } else { 0 };
        bytes.extend(query_bytes.into_iter().skip(repeated));
    }
    append_checksum(&mut bytes);
    bytes
}

/// Reads a request from untrusted bytes.
///
/// # Errors
/// If it is damaged, is not a whole number of queries of that kind, has no queries or too many, or one is malformed.
pub(crate) fn read_request(description: &Description, mode: Mode, bytes: &[u8]) -> Result<Vec<Query>, RetrieveError> {
    let bytes = checked("request", bytes)?;
    let length = description.query_bytes(mode);
    let first = if mode == Mode::Session { WORD } else { 0 };
    let each = length - first;
    let count = bytes.len().saturating_sub(first) / each;
    if bytes.len() != first + count * each || !(1..=description.most_queries()).contains(&count) {
        let needed = format!("1 to {} {mode} queries of {length} bytes each", description.most_queries());
        return Err(RetrieveError::mismatch("request", format!("{} bytes", bytes.len()), needed));
    }
    let parameters = description.parameters();
    let (front, queries) = bytes.split_at(first);
    let read = |(number, query): (usize, &[u8])| {
        let counted = front.first_chunk().map(|&front| u32::from_le_bytes(front).checked_add(number as u32));
        let front = match counted {
            None => vec![],
            Some(Some(counter)) => counter.to_le_bytes().to_vec(),
            Some(None) => {
                let needed = "numbers below 2^32; make new keys with a new secret";
                return Err(RetrieveError::mismatch("number of a session query", "one too large", needed));
            }
        };
        Ok(Query::from_bytes(parameters, mode, description.shape(), &[&front, query].concat())?)
    };
    queries.chunks_exact(each).enumerate().map(read).collect()
}

/// The answer computed from a version: the responses to all queries, in the order of the queries.
pub(crate) fn write_answer<'a>(
    description: &Description,
    version: u64,
    responses: impl Iterator<Item = &'a Response>,
) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(description.layout_id());
    responses.for_each(|response| bytes.extend(response.to_bytes(description.parameters())));
    append_checksum(&mut bytes);
    bytes
}

/// Reads the answer to a request of that many queries from untrusted bytes: the version, and the responses to each
/// query.
///
/// # Errors
/// If it is damaged, has another length, was computed for another layout, or a response is malformed.
pub(crate) fn read_answer(
    description: &Description,
    queries: usize,
    bytes: &[u8],
) -> Result<(u64, Vec<Vec<Response>>), RetrieveError> {
    let needed = description.answer_bytes(queries);
    let wrong = || {
        let needed = format!("{needed} bytes for {queries} queries");
        RetrieveError::mismatch("answer", format!("{} bytes", bytes.len()), needed)
    };
    let content = checked("answer", bytes)?;
    let (version, rest) = content.split_first_chunk().ok_or_else(wrong)?;
    let (id, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
    if *id != description.layout_id() {
        let needed = "one computed for the description's; connect again";
        return Err(RetrieveError::mismatch("answer", "one computed for another layout of the records", needed));
    }
    if bytes.len() != needed {
        return Err(wrong());
    }
    let parameters = description.parameters();
    let response = |bytes: &[u8]| Ok(Response::from_bytes(parameters, bytes)?);
    let length = Response::byte_len(parameters);
    let responses = |bytes: &[u8]| bytes.chunks_exact(length).map(response).collect::<Result<Vec<_>, _>>();
    let all = rest.chunks_exact(description.responses() * length).map(responses);
    Ok((u64::from_le_bytes(*version), all.collect::<Result<_, RetrieveError>>()?))
}
