//! What client and server of an embedding lookup agree on.

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_lookup::OutputForm;
use unspoken_protocol::{CkksDescribed, Described, Terms};
use unspoken_query::{QueryCodec, QueryForm, QueryShape};

use crate::error::EmbedError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// What a client must know to ask: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    terms: Terms,
    pub(crate) own: proto::Description,
    /// How codes travel.
    pub(crate) query: QueryCodec,
    query_form: QueryForm,
}

impl Description {
    pub(crate) fn new(terms: Terms, own: proto::Description) -> Result<Self, EmbedError> {
        let query_form: QueryForm = own.query_form.parse()?;
        let shape = QueryShape {
            parameters: terms.parameters().clone(),
            subtables: own.subtables as usize,
            columns: own.columns as usize,
            level: own.query_level as usize,
        };
        Ok(Description { terms, own, query: QueryCodec::new(query_form, shape)?, query_form })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// As for [`Terms::open`], an insecure preset included, or if the table's shape makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EmbedError> {
        Self::read(bytes, false)
    }

    /// As [`Description::from_bytes`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Description::from_bytes`].
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, EmbedError> {
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

    /// Tokens one query holds; fewer are padded, invisibly to the server.
    pub fn batch(&self) -> usize {
        self.parameters().slots()
    }

    /// Numbers of an embedding.
    pub fn width(&self) -> usize {
        self.own.width as usize
    }

    /// How the numbers of an embedding lie in the vectors of an answer.
    pub fn form(&self) -> OutputForm {
        if self.own.pairs { OutputForm::Pairs } else { OutputForm::Rows }
    }

    /// Vectors of an answer.
    pub fn vectors(&self) -> usize {
        match self.form() {
            OutputForm::Rows => self.width(),
            OutputForm::Pairs => self.width().div_ceil(2),
        }
    }

    /// Most bytes of one query.
    pub fn query_bytes(&self) -> usize {
        self.terms.packed_bytes(self.query.vectors(), self.query.byte_len())
    }

    /// How codes travel.
    pub fn query_form(&self) -> QueryForm {
        self.query_form
    }
}

impl Described for Description {
    type Error = EmbedError;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, EmbedError> {
        let terms = Terms::open(bytes, PROTOCOL_VERSION, accept_insecure)?;
        let own = proto::Description::decode(bytes)
            .map_err(|error| EmbedError::mismatch("description", error, "a protobuf message"))?;
        let plausible = (1..=16).contains(&own.subtables)
            && (4..=4096).contains(&own.columns)
            && own.columns.is_power_of_two()
            && (1..=4096).contains(&own.width)
            && own.query_level as usize <= terms.parameters().max_level();
        if !plausible {
            return Err(EmbedError::mismatch("table shape", format!("{own:?}"), "one that fits the preset"));
        }
        let description = Self::new(terms, own)?;
        description.terms.check_use(description.query_form == QueryForm::Compact)?;
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
