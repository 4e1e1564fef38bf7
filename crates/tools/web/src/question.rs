//! Questions and answers of all applications, as values that JavaScript reads and writes.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::failure::Failure;
use crate::model::Output;

/// Documents that an answer of a search has, if its question does not say how many.
const DOCUMENTS: usize = 10;

/// A question as JavaScript writes it: an object with one of these fields, for a search also `most`, for a model
/// `clip`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    /// A text to classify, or whose vector is searched.
    text: Option<String>,
    /// The pixels of an image, row by row.
    pixels: Option<ByteBuf>,
    /// The key of a record.
    key: Option<String>,
    /// The index of a record.
    index: Option<u64>,
    /// A vector to search.
    vector: Option<Vec<f32>>,
    /// Documents that the answer of a search has at most.
    most: Option<usize>,
    /// The numbers of a row of a model, by the names of its inputs.
    inputs: Option<BTreeMap<String, Vec<f64>>>,
    /// Whether numbers of the row are moved into their ranges.
    clip: bool,
}

/// A question, and how many documents its answer has at most, if it is a search.
pub(crate) struct Wish {
    pub(crate) question: Question,
    pub(crate) most: usize,
}

impl<'de> Deserialize<'de> for Wish {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { text, pixels, key, index, vector, most, inputs, clip } = Written::deserialize(deserializer)?;
        let found = [
            text.map(Question::Text),
            pixels.map(|pixels| Question::Pixels(pixels.into_vec())),
            key.map(|key| Question::Key(key.into_bytes())),
            index.map(Question::Index),
            vector.map(Question::Vector),
            inputs.map(|inputs| Question::Row { inputs: inputs.into_iter().collect(), clip }),
        ];
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(question), None) => Ok(Wish { question, most: most.unwrap_or(DOCUMENTS) }),
            (first, _) => {
                let found = if first.is_none() { "none" } else { "several" };
                Err(D::Error::custom(format!(
                    "{found} of the fields text, pixels, key, index, vector and inputs; one is needed"
                )))
            }
        }
    }
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
    /// A vector to search.
    Vector(Vec<f32>),
    /// A row of a model: numbers by the names of inputs, and whether they are moved into their ranges.
    Row { inputs: Vec<(String, Vec<f64>)>, clip: bool },
    /// The next question of a text that is continued. Only [`Client::ask_next`](crate::Client::ask_next) makes it.
    #[zeroize(skip)]
    Next(Box<unspoken_chat::Question>),
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Wish::deserialize(deserializer)?.question)
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
            Question::Vector(_) => "a vector",
            Question::Row { .. } => "inputs of a model",
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
        /// The version of the database from which it is: the lower half of its bits, so that JavaScript has the number.
        version: u32,
        /// The upper half: the number of the build of a collection; 0 of other databases.
        build: u32,
    },
    /// Documents that a search found, the nearest first.
    Found {
        /// Their positions and cosines.
        hits: Vec<Hit>,
    },
    /// The outputs of a model, in its order.
    Predicted {
        /// The outputs.
        outputs: Vec<Output>,
    },
    /// Why a row of a model has no answer, which the service must not learn.
    Unanswered {
        /// The reason.
        error: String,
    },
    /// The answer to a question of a text that is continued, for [`Client::take`](crate::Client::take).
    #[serde(skip)]
    Next(unspoken_chat::Answer),
}

impl Answer {
    /// With the first `most` documents alone, if it is the answer of a search.
    pub(crate) fn with_most(mut self, most: usize) -> Self {
        if let Answer::Found { hits } = &mut self {
            hits.truncate(most);
        }
        self
    }
}

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Hit {
    /// Its position, by which it is fetched.
    pub(crate) position: u64,
    /// The cosine of its vector and the query's.
    pub(crate) cosine: f32,
}

/// Writes bytes as a `Uint8Array`.
fn bytes<S: serde::Serializer>(record: &Option<Zeroizing<Vec<u8>>>, serializer: S) -> Result<S::Ok, S::Error> {
    match record {
        Some(record) => serializer.serialize_some(serde_bytes::Bytes::new(record)),
        None => serializer.serialize_none(),
    }
}
