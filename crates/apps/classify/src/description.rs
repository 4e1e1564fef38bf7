//! The description of a classifier, which client and server must both know.

use unspoken_ckks::CkksParameters;
use unspoken_protocol::{ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol};
use unspoken_query::QueryForm;
use unspoken_scores::ScoreDescription;

use crate::error::ClassifyError;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 5;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "classify", version: PROTOCOL_VERSION };

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description(pub(crate) ScoreDescription);

impl Description {
    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`ScoreDescription::read`], also for an insecure preset.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes(&[])
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.0.parameters()
    }

    /// Maximum number of messages in one query.
    pub fn batch(&self) -> usize {
        self.0.batch()
    }

    /// Maximum number of tokens in a message. Shorter messages are padded, which the server cannot see.
    pub fn max_tokens(&self) -> usize {
        self.0.max_tokens()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.0.classes()
    }

    /// Whether queries of few messages may be small: much shorter than [`Description::query_bytes`], and longer with
    /// more messages, in steps of a factor of two.
    pub fn has_short_queries(&self) -> bool {
        self.0.has_short_queries()
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.0.query_bytes()
    }

    /// Form of queries.
    pub fn query_form(&self) -> QueryForm {
        self.0.query_form()
    }
}

impl ApplicationDescription for Description {
    type Error = ClassifyError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ClassifyError> {
        Ok(Description(ScoreDescription::read(bytes, PROTOCOL, accept_insecure)?))
    }

    fn key_set(&self) -> KeySetId {
        self.0.header().key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.0.keep_error_bound(&earlier.0);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        self.0.header()
    }
}
