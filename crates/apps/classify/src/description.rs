//! What client and server of a classifier agree on.

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_protocol::{CkksDescribed, Described, Terms};
use unspoken_query::{QueryCodec, QueryForm, QueryShape};

use crate::error::ClassifyError;
use crate::proto;

/// Most columns of a subtable, padding included.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 2;

/// What a client must know to ask: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    terms: Terms,
    pub(crate) own: proto::Description,
    /// How codes travel.
    pub(crate) query: QueryCodec,
    form: QueryForm,
}

impl Description {
    pub(crate) fn new(terms: Terms, own: proto::Description) -> Result<Self, ClassifyError> {
        let form: QueryForm = own.query_form.parse()?;
        let shape = QueryShape {
            parameters: terms.parameters().clone(),
            subtables: own.subtables as usize,
            columns: own.columns as usize,
            level: own.query_level as usize,
        };
        Ok(Description { terms, own, query: QueryCodec::new(form, shape)?, form })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// As for [`Terms::open`], an insecure preset included, or if the model's shape makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, false)
    }

    /// As [`Description::from_bytes`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Description::from_bytes`].
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Self::read(bytes, true)
    }

    /// As bytes for the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.terms.to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.terms.parameters()
    }

    /// Messages one query holds.
    pub fn batch(&self) -> usize {
        self.parameters().slots() / self.max_tokens()
    }

    /// Tokens of a message; shorter ones are padded, invisibly to the server.
    pub fn max_tokens(&self) -> usize {
        self.own.max_tokens as usize
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.own.classes as usize
    }

    /// Most bytes of one query.
    pub fn query_bytes(&self) -> usize {
        self.terms.packed_bytes(self.query.vectors(), self.query.byte_len())
    }

    /// How codes travel.
    pub fn query_form(&self) -> QueryForm {
        self.form
    }
}

impl Described for Description {
    type Error = ClassifyError;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ClassifyError> {
        let terms = Terms::open(bytes, PROTOCOL_VERSION, accept_insecure)?;
        let own = proto::Description::decode(bytes)
            .map_err(|error| ClassifyError::mismatch("description", error, "a protobuf message"))?;
        let batch = terms.parameters().slots() as u64 / u64::from(own.max_tokens.max(1));
        let plausible = (1..=64).contains(&own.subtables)
            && (2..=MAX_COLUMNS as u32).contains(&own.columns)
            && (2..=1024).contains(&own.classes)
            && own.max_tokens.is_power_of_two()
            && batch >= 1
            && own.query_level as usize <= terms.parameters().max_level()
            && own.columns.is_power_of_two()
            && terms.bound() > 0.0;
        if !plausible {
            return Err(ClassifyError::mismatch("model shape", format!("{own:?}"), "one that fits the preset"));
        }
        let description = Self::new(terms, own)?;
        description.terms.check_use(description.form == QueryForm::Compact)?;
        Terms::check_query_bytes(description.query.byte_len())?;
        Ok(description)
    }

    fn fingerprint(&self) -> [u8; 16] {
        self.terms.fingerprint()
    }
}

impl CkksDescribed for Description {
    fn terms(&self) -> &Terms {
        &self.terms
    }
}
