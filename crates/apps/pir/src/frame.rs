//! Bytes of requests and answers beside their content.

/// Bytes before the responses of an answer: the version, and the id of the layout.
pub(crate) const HEADER_BYTES: usize = 16;

/// Bytes of the checksum of a request or an answer.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// Bytes of a request beside its queries.
pub const REQUEST_OVERHEAD_BYTES: usize = CHECKSUM_BYTES;

/// Bytes of an answer beside its responses.
pub const ANSWER_OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;
