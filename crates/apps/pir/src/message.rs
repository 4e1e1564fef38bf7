//! Serialisation of requests and answers. Both end with a checksum of 8 bytes: a request is not much longer, and damage
//! stays unnoticed once in 2^64. The checksum of a request depends on the mode of its queries and tells it.

use unspoken_pir_scheme::dense::{DenseQuery, DenseResponse};
use unspoken_pir_scheme::{Mode, PlaneShape, Query, Response};
use unspoken_protocol::{Group, ProtocolError};

use crate::REQUEST_OVERHEAD_BYTES;
use crate::description::Description;
use crate::error::PirError;
use crate::frame::CHECKSUM_BYTES;

/// The queries of a request, by the kind of the tables.
#[derive(Debug)]
pub(crate) enum Queries {
    /// To transformed tables or encrypted entries, all of one mode.
    Transformed(Vec<Query>),
    /// To dense tables.
    Dense(Vec<DenseQuery>),
}

impl Queries {
    /// Number of queries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Queries::Transformed(queries) => queries.len(),
            Queries::Dense(queries) => queries.len(),
        }
    }
}

/// The response of one plane.
#[derive(Debug)]
pub(crate) enum PlaneResponse {
    /// From transformed tables or encrypted entries.
    Transformed(Response),
    /// From dense tables.
    Dense(DenseResponse),
}

/// Maximum number of queries that are answered in one pass over dense tables. A pass of 64 has hardly more throughput,
/// and all of its queries wait for its end.
pub(crate) const DENSE_PASS: usize = 16;

/// Maximum number of requests to dense tables that wait for a pass: the requests of one pass, and the same number that
/// arrives meanwhile.
pub(crate) const DENSE_WAITING: usize = 2 * DENSE_PASS;

/// Bytes of the first number of session queries, and of the body of each.
const WORD: usize = size_of::<u32>();

/// Maximum length of a request of any kind, in bytes.
pub(crate) fn most_request_bytes(description: &Description) -> usize {
    let modes = description.tables().kind().modes().iter();
    let longest = modes.map(|&mode| description.query_bytes(mode)).max().unwrap_or_default();
    longest * description.most_queries() + REQUEST_OVERHEAD_BYTES
}

/// The group of a request to dense tables: requests are answered together up to the queries of one pass.
pub(crate) fn dense_group(description: &Description, request: &[u8]) -> Group {
    let weight = (request.len() / description.query_bytes(Mode::Packed)).max(1);
    Group { id: 0, weight, most: DENSE_PASS }
}

/// Checksum of a request whose queries are of a mode.
fn request_checksum(mode: Mode, content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let context = match mode {
        Mode::Compact => "unspoken 2026 request of private retrieval, compact queries",
        Mode::Session => "unspoken 2026 request of private retrieval, session queries",
        Mode::Bits => "unspoken 2026 request of private retrieval, bits queries",
        Mode::Packed => "unspoken 2026 request of private retrieval, packed queries",
    };
    let mut checksum = [0; CHECKSUM_BYTES];
    blake3::Hasher::new_derive_key(context).update(content).finalize_xof().fill(&mut checksum);
    checksum
}

/// The mode of the queries of a request, and the bytes before the checksum, after a comparison with it.
pub(crate) fn mode_of<'a>(description: &Description, bytes: &'a [u8]) -> Result<(Mode, &'a [u8]), PirError> {
    let (content, checksum) =
        bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(ProtocolError::Damaged { what: "request" })?;
    let modes = description.tables().kind().modes();
    // The modes of this kind of tables come first: requests may be long.
    let found = modes.iter().copied().chain(Mode::ALL).find(|&mode| request_checksum(mode, content) == *checksum);
    let mode = found.ok_or(ProtocolError::Damaged { what: "request" })?;
    if !modes.contains(&mode) {
        return Err(other_tables(description, mode));
    }
    Ok((mode, content))
}

/// The error of queries of a mode that the tables do not answer.
pub(crate) fn other_tables(description: &Description, mode: Mode) -> PirError {
    let kind = description.tables().kind();
    let modes: Vec<String> = kind.modes().iter().map(Mode::to_string).collect();
    let needed = format!("{}: the database has {kind} tables", modes.join(" or "));
    PirError::mismatch("kind of queries", mode, needed)
}

/// Appends the checksum of an answer.
pub(crate) fn append_checksum(bytes: &mut Vec<u8>) {
    let hash = blake3::hash(bytes);
    bytes.extend(&hash.as_bytes()[..CHECKSUM_BYTES]);
}

/// The bytes of an answer before the checksum, after a comparison with it.
pub(crate) fn checked(bytes: &[u8]) -> Result<&[u8], PirError> {
    match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((content, checksum)) if blake3::hash(content).as_bytes().starts_with(checksum) => Ok(content),
        _ => Err(ProtocolError::Damaged { what: "answer" }.into()),
    }
}

/// Length of a request of `queries` queries, in bytes.
pub(crate) fn request_bytes(description: &Description, mode: Mode, queries: usize) -> usize {
    let repeated = if mode == Mode::Session { WORD * queries.saturating_sub(1) } else { 0 };
    description.query_bytes(mode) * queries - repeated + REQUEST_OVERHEAD_BYTES
}

/// Concatenates queries. Session queries must have consecutive numbers; only the first number is written.
pub(crate) fn write_request(description: &Description, mode: Mode, queries: &Queries) -> Vec<u8> {
    let (mut bytes, parameters) = (Vec::new(), description.parameters());
    match queries {
        Queries::Transformed(queries) => {
            for query in queries {
                let repeated = if mode == Mode::Session && !bytes.is_empty() { WORD } else { 0 };
                bytes.extend(query.to_bytes(parameters).into_iter().skip(repeated));
            }
        }
        Queries::Dense(queries) => queries.iter().for_each(|query| bytes.extend(query.to_bytes(parameters))),
    }
    let checksum = request_checksum(mode, &bytes);
    bytes.extend(checksum);
    bytes
}

/// Reads a request from untrusted bytes.
///
/// # Errors
/// If it is damaged, is not a whole number of queries of a mode that the tables answer, has no queries or too many, or
/// one is malformed.
pub(crate) fn read_request(description: &Description, bytes: &[u8]) -> Result<Queries, PirError> {
    let (mode, bytes) = mode_of(description, bytes)?;
    let length = description.query_bytes(mode);
    let first = if mode == Mode::Session { WORD } else { 0 };
    let each = length - first;
    let count = bytes.len().saturating_sub(first) / each;
    if bytes.len() != first + count * each || !(1..=description.most_queries()).contains(&count) {
        let needed = format!("1 to {} {mode} queries of {length} bytes each", description.most_queries());
        return Err(PirError::mismatch("request", format!("{} bytes", bytes.len()), needed));
    }
    let (parameters, (front, queries)) = (description.parameters(), bytes.split_at(first));
    match description.tables().shape() {
        PlaneShape::Transformed(shape) | PlaneShape::Encrypted(shape) => {
            let read = |(number, query): (usize, &[u8])| {
                let front = numbered(front, number)?;
                Ok(Query::from_bytes(parameters, mode, shape, &[&front, query].concat())?)
            };
            let read: Result<_, PirError> = queries.chunks_exact(each).enumerate().map(read).collect();
            Ok(Queries::Transformed(read?))
        }
        PlaneShape::Dense(shape) => {
            let read = |query| Ok(DenseQuery::from_bytes(parameters, shape, query)?);
            Ok(Queries::Dense(queries.chunks_exact(each).map(read).collect::<Result<_, PirError>>()?))
        }
    }
}

/// The number of a session query, from the number of the first query of its request. Empty for queries of other modes.
fn numbered(first: &[u8], position: usize) -> Result<Vec<u8>, PirError> {
    match first.first_chunk().map(|&first| u32::from_le_bytes(first).checked_add(position as u32)) {
        None => Ok(Vec::new()),
        Some(Some(number)) => Ok(number.to_le_bytes().to_vec()),
        Some(None) => {
            let needed = "numbers below 2^32; make new keys with a new secret";
            Err(PirError::mismatch("number of a session query", "one too large", needed))
        }
    }
}

/// The answer computed from a version: the responses to all queries, in the order of the queries.
pub(crate) fn write_answer<'a>(
    description: &Description,
    version: u64,
    responses: impl Iterator<Item = &'a PlaneResponse>,
) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(description.layout_id());
    responses.for_each(|response| match response {
        PlaneResponse::Transformed(response) => bytes.extend(response.to_bytes(description.parameters())),
        PlaneResponse::Dense(response) => bytes.extend(response.to_bytes()),
    });
    append_checksum(&mut bytes);
    bytes
}

/// The version from which an answer was computed.
pub(crate) fn version_of(answer: &[u8]) -> Option<u64> {
    answer.first_chunk().map(|version| u64::from_le_bytes(*version))
}

/// Reads the answer to a request of `queries` queries from untrusted bytes: the version, and the responses to each
/// query.
///
/// # Errors
/// If the answer is damaged, has another length or another layout, or a response is malformed.
pub(crate) fn read_answer(
    description: &Description,
    queries: usize,
    bytes: &[u8],
) -> Result<(u64, Vec<Vec<PlaneResponse>>), PirError> {
    let needed = description.answer_bytes(queries);
    let wrong = || {
        let needed = format!("{needed} bytes for {queries} queries");
        PirError::mismatch("answer", format!("{} bytes", bytes.len()), needed)
    };
    let content = checked(bytes)?;
    let (version, rest) = content.split_first_chunk().ok_or_else(wrong)?;
    let (id, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
    if *id != description.layout_id() {
        let needed = "one computed for the description's; connect again";
        return Err(PirError::mismatch("answer", "one computed for another layout of the records", needed));
    }
    if bytes.len() != needed {
        return Err(wrong());
    }
    let (parameters, length) = (description.parameters(), description.tables().response_bytes());
    let response = |bytes: &[u8]| -> Result<PlaneResponse, PirError> {
        Ok(match description.tables().shape() {
            PlaneShape::Transformed(_) | PlaneShape::Encrypted(_) => {
                PlaneResponse::Transformed(Response::from_bytes(parameters, bytes)?)
            }
            PlaneShape::Dense(shape) => PlaneResponse::Dense(DenseResponse::from_bytes(parameters, shape, bytes)?),
        })
    };
    let responses = |bytes: &[u8]| bytes.chunks_exact(length).map(response).collect::<Result<Vec<_>, _>>();
    let all = rest.chunks_exact(description.tables().planes() * length).map(responses);
    Ok((u64::from_le_bytes(*version), all.collect::<Result<_, PirError>>()?))
}
