//! Serialisation of partial answers.

use unspoken_pir_scheme::ShardId;
use unspoken_pir_scheme::dense::PartialResponse;
use unspoken_protocol::ShardProblem;

use crate::description::Description;
use crate::error::PirError;
use crate::frame::CHECKSUM_BYTES;
use crate::message::{append_checksum, checked};
use crate::shard::description::ShardDescription;

/// Bytes before the partial responses: the version, the id of the layout, the id of the split, the number of the shard.
const HEADER_BYTES: usize = 8 + 8 + 16 + 4;

/// Length of a partial answer to a request of `queries` queries, in bytes.
pub(crate) fn partial_answer_bytes(description: &Description, queries: usize) -> usize {
    let tables = description.tables();
    let responses = queries * tables.planes() * PartialResponse::byte_len(tables.parameters());
    HEADER_BYTES + responses + CHECKSUM_BYTES
}

/// The bytes before the partial responses.
fn header(shard: &ShardDescription) -> Vec<u8> {
    let ShardId { split, number, .. } = shard.id();
    let layout = shard.database().layout_id();
    [&shard.version().to_le_bytes()[..], &layout, &split, &number.to_le_bytes()].concat()
}

/// The partial answer of a shard: the partial responses to all queries, in the order of the queries.
pub(crate) fn write_partial_answer<'a>(
    shard: &ShardDescription,
    responses: impl Iterator<Item = &'a PartialResponse>,
) -> Vec<u8> {
    let mut bytes = header(shard);
    responses.for_each(|response| bytes.extend(response.to_bytes(shard.database().parameters())));
    append_checksum(&mut bytes);
    bytes
}

/// Reads the partial answer of a shard to a request of `queries` queries from untrusted bytes: the partial responses of
/// all planes to the first query, then to the next.
///
/// # Errors
/// If it is damaged, has another length, is of another shard, split or version, or a response is malformed.
pub(crate) fn read_partial_answer(
    shard: &ShardDescription,
    queries: usize,
    bytes: &[u8],
) -> Result<Vec<PartialResponse>, PirError> {
    let content = checked(bytes)?;
    let header = header(shard);
    let responses = match content.split_at_checked(HEADER_BYTES) {
        Some((front, responses)) if front == header => responses,
        Some(_) => return Err(replaced(shard.id()).into()),
        None => return Err(wrong_length(shard, queries, bytes)),
    };
    if bytes.len() != partial_answer_bytes(shard.database(), queries) {
        return Err(wrong_length(shard, queries, bytes));
    }
    let parameters = shard.database().parameters();
    let read = |bytes| Ok(PartialResponse::from_bytes(parameters, bytes)?);
    responses.chunks_exact(PartialResponse::byte_len(parameters)).map(read).collect()
}

/// A shard of another version or split came in place of this one.
fn replaced(id: ShardId) -> ShardProblem {
    ShardProblem::differs(
        (id.number, id.shards),
        "another version of the database, or another way of cutting it into shards",
        "that of the other shards: serve shards of one split",
    )
}

fn wrong_length(shard: &ShardDescription, queries: usize, bytes: &[u8]) -> PirError {
    let needed = partial_answer_bytes(shard.database(), queries);
    let needed = format!("{needed} bytes for {queries} queries");
    PirError::mismatch("partial answer", format!("{} bytes", bytes.len()), needed)
}
