//! Decodes messages, with a check of the length first.

use std::fmt;
use std::marker::PhantomData;

use prost::Message;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

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
    /// Not a JSON object of this message. What was found is not repeated: it could be anything.
    #[error(
        "decode {message}: {problem} at line {line}, column {column}; send a JSON object with the fields of the \
         message, each once, and no others"
    )]
    MalformedJson {
        /// The message's name.
        message: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// Line of the place, from 1.
        line: usize,
        /// Column of the place, from 1.
        column: usize,
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
    check_length(message, bytes, limit)?;
    M::decode(bytes).map_err(|source| WireError::Malformed { message, source })
}

/// Decodes one message of at most `limit` bytes from JSON.
///
/// ```
/// use unspoken_wire::{decode_json, v1::KeyDeclaration};
///
/// let hash = "09".repeat(32);
/// let text = format!(r#"{{"application": "a/b", "key_format": 1, "length": 1000, "blake3": "{hash}"}}"#);
/// assert_eq!(decode_json::<KeyDeclaration>(text.as_bytes(), 1000)?.blake3, [9; 32]);
/// assert!(decode_json::<KeyDeclaration>(text.as_bytes(), 10).is_err());
/// # Ok::<(), unspoken_wire::WireError>(())
/// ```
///
/// # Errors
/// [`WireError::TooLong`] before anything is read, [`WireError::MalformedJson`] if the bytes are not such a message.
pub fn decode_json<M: Message + DeserializeOwned>(bytes: &[u8], limit: usize) -> Result<M, WireError> {
    let message = short_name::<M>();
    check_length(message, bytes, limit)?;
    let read = serde_json::from_slice(bytes).map(|Object(message)| message);
    read.map_err(|error| {
        let problem = match error.classify() {
            Category::Data => "a field is missing, unknown, given twice, or not of its type",
            Category::Eof => "the JSON is cut off",
            Category::Syntax | Category::Io => "the bytes are not JSON",
        };
        WireError::MalformedJson { message, problem, line: error.line(), column: error.column() }
    })
}

/// A message in the form of an object. Derived code would also read an array of its fields.
struct Object<M>(M);

impl<'de, M: DeserializeOwned> Deserialize<'de> for Object<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<M>(PhantomData<M>);

impl<'de, M: DeserializeOwned> Visitor<'de> for ObjectVisitor<M> {
    type Value = Object<M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<M>, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

fn check_length(message: &'static str, bytes: &[u8], limit: usize) -> Result<(), WireError> {
    match bytes.len() {
        found if found > limit => Err(WireError::TooLong { message, found, limit }),
        _ => Ok(()),
    }
}

fn short_name<M>() -> &'static str {
    let path = std::any::type_name::<M>();
    path.rsplit("::").next().unwrap_or(path)
}
