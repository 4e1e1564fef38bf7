//! Questions and answers of all applications, as values that JavaScript reads and writes.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::failure::Failure;

/// A question as JavaScript writes it: an object with one of these fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Written {
    /// A text to classify.
    Text(String),
    /// The pixels of an image, row by row.
    Pixels(ByteBuf),
    /// The key of a record.
    Key(String),
    /// The index of a record.
    Index(u64),
}

/// A question. Wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) enum Question {
    /// A text to classify.
    Text(String),
    /// The pixels of an image, row by row.
    Pixels(Vec<u8>),
    /// The key of a record.
    Key(Vec<u8>),
    /// The index of a record.
    Index(u64),
    /// The next question of a text that is continued. Only [`Client::ask_next`](crate::Client::ask_next) makes it.
    #[zeroize(skip)]
    Next(Box<unspoken_chat::Question>),
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Question::Text(text),
            Written::Pixels(pixels) => Question::Pixels(pixels.into_vec()),
            Written::Key(key) => Question::Key(key.into_bytes()),
            Written::Index(index) => Question::Index(index),
        })
    }
}

impl Question {
    /// The error for a question of another kind than an application answers.
    pub(crate) fn refused(&self, needed: &'static str) -> Failure {
        let found = match self {
            Question::Text(_) => "a text",
            Question::Pixels(_) => "pixels",
            Question::Key(_) => "a key",
            Question::Index(_) => "an index",
            Question::Next(_) => "a text to continue",
        };
        Failure::Argument { what: "question", found: found.into(), needed: needed.into() }
    }
}

/// The answer to a question, as JavaScript reads it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase", untagged)]
pub(crate) enum Answer {
    /// The label of a text, and one score for each class.
    Classified {
        /// The label of the largest score.
        label: String,
        /// One score for each class.
        scores: Vec<f64>,
        /// The labels of the classes.
        labels: Vec<String>,
    },
    /// A digit, and one score for each digit.
    Recognised {
        /// The digit of the largest score.
        digit: u8,
        /// One score for each digit.
        scores: Vec<f64>,
    },
    /// A record.
    Retrieved {
        /// Its bytes; none, if the database has no such record.
        #[serde(serialize_with = "bytes")]
        record: Option<Zeroizing<Vec<u8>>>,
        /// The version of the database from which it is.
        version: u64,
    },
    /// The answer to a question of a text that is continued, for [`Client::take`](crate::Client::take).
    #[serde(skip)]
    Next(unspoken_chat::Answer),
}

/// Writes bytes as a `Uint8Array`.
fn bytes<S: serde::Serializer>(record: &Option<Zeroizing<Vec<u8>>>, serializer: S) -> Result<S::Ok, S::Error> {
    match record {
        Some(record) => serializer.serialize_some(serde_bytes::Bytes::new(record)),
        None => serializer.serialize_none(),
    }
}
