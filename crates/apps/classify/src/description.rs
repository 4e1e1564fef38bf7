//! The description of a classifier, which client and server must both know.

use unspoken_ckks::CkksParameters;
use unspoken_protocol::{ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol};
use unspoken_query::{IndexDescription, IndexFields, QueryForm};

use crate::error::ClassifyError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 5;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "classify", version: PROTOCOL_VERSION };

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    /// The header, and the form and shape of the queries.
    pub(crate) index: IndexDescription,
    pub(crate) own: proto::Description,
}

impl Description {
    pub(crate) fn new(header: CkksHeader, own: proto::Description) -> Result<Self, ClassifyError> {
        Ok(Description { index: IndexDescription::new(header, fields(&own))?, own })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// Those of [`CkksHeader::read`], also for an insecure preset, or if the model's shape is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// Those of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.index.header().to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.index.parameters()
    }

    /// Maximum number of messages in one query.
    pub fn batch(&self) -> usize {
        self.index.batch()
    }

    /// Maximum number of tokens in a message. Shorter messages are padded, which the server cannot see.
    pub fn max_tokens(&self) -> usize {
        self.own.max_tokens as usize
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.own.classes as usize
    }

    /// Whether queries of few messages may be small: much shorter than [`Description::query_bytes`], and longer with
    /// more messages, in steps of a factor of two.
    pub fn has_small_queries(&self) -> bool {
        self.index.has_small_queries()
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.index.full_query_bytes()
    }

    /// Form of queries.
    pub fn query_form(&self) -> QueryForm {
        self.index.form()
    }
}

fn fields(own: &proto::Description) -> IndexFields<'_> {
    IndexFields {
        subtables: own.subtables,
        columns: own.columns,
        query_level: own.query_level,
        query_form: &own.query_form,
        small_period: own.small_period,
        question_slots: own.max_tokens as usize,
        // Two scores share a slot.
        outputs: (own.classes as usize).div_ceil(2),
    }
}

impl ApplicationDescription for Description {
    type Error = ClassifyError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ClassifyError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        let plausible = (2..=1024).contains(&own.classes)
            && own.max_tokens.is_power_of_two()
            && own.max_tokens as usize <= header.parameters().slots()
            && header.bound() > 0.0
            && (own.small_period == 0
                || own.small_period == own.max_tokens
                || own.query_form == QueryForm::Compact.to_string());
        if !plausible {
            return Err(ClassifyError::mismatch("model shape", format!("{own:?}"), "one that fits the preset"));
        }
        Ok(Description { index: IndexDescription::checked(header, fields(&own))?, own })
    }

    fn key_set(&self) -> KeySetId {
        self.index.header().key_set()
    }

    fn keep_error_bound(&mut self, earlier: &Self) {
        self.index.keep_error_bound(&earlier.index);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        self.index.header()
    }
}
