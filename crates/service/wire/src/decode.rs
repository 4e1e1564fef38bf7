//! Decodes messages, with a check of the length first.

use prost::Message;

/// Longest control message either side reads, in bytes. Keys, queries and
/// answers are not control messages; the application limits them.
pub const MAX_CONTROL_BYTES: usize = 1 << 20;

/// Why bytes are not the message that was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// More bytes than the reader accepts.
    #[error("decode {message}: {found} bytes, at most {limit} are accepted; send less")]
    TooLong {
        /// The message's name.
        message: &'static str,
        /// Bytes given.
        found: usize,
        /// Bytes accepted.
        limit: usize,
    },
    /// Not a protobuf message of this kind.
    #[error("decode {message}: {source}; send the protobuf message named")]
    Malformed {
        /// The message's name.
        message: &'static str,
        /// What prost found.
        source: prost::DecodeError,
    },
    /// A field has an invalid value.
    #[error("read {message}: {field} is {found}, needed {needed}")]
    Field {
        /// The message's name.
        message: &'static str,
        /// The field's name.
        field: &'static str,
        /// The value found, shortened.
        found: String,
        /// The value needed.
        needed: &'static str,
    },
}

/// Decodes one message of at most `limit` bytes.
///
/// # Errors
/// [`WireError::TooLong`] before anything is read, [`WireError::Malformed`]
/// if the bytes are not such a message.
pub fn decode<M: Message + Default>(bytes: &[u8], limit: usize) -> Result<M, WireError> {
    let message = short_name::<M>();
    if bytes.len() > limit {
        return Err(WireError::TooLong { message, found: bytes.len(), limit });
    }
    M::decode(bytes).map_err(|source| WireError::Malformed { message, source })
}

fn short_name<M>() -> &'static str {
    let path = std::any::type_name::<M>();
    path.rsplit("::").next().unwrap_or(path)
}
