//! The description of a recogniser, which client and server must both know.

use unspoken_ckks::{CkksParameters, SeededCiphertext};
use unspoken_cnn::ImageLayout;
use unspoken_digits_model::Shape;
use unspoken_protocol::limits::Bootstraps;
use unspoken_protocol::{
    ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol, ProtocolError, output_bytes,
};

use crate::error::DigitsError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 3;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "digits", version: PROTOCOL_VERSION };

/// Name of the circuit, which determines the layout of images.
pub(crate) const CIRCUIT: &str = "owner";

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    header: CkksHeader,
    own: proto::Description,
    layout: ImageLayout,
}

impl Description {
    /// The description of a server whose circuit needs images in this layout, at this level.
    pub(crate) fn new(header: CkksHeader, layout: &ImageLayout, query_level: usize) -> Self {
        let shape = layout.shape();
        let own = proto::Description {
            channels: shape.channels as u32,
            hidden: shape.hidden as u32,
            batch: layout.batch() as u32,
            query_level: query_level as u32,
            circuit: CIRCUIT.into(),
        };
        Description { header, own, layout: layout.clone() }
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if no network has the shape or no query the
    /// batch.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DigitsError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, DigitsError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.header.to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.header.parameters()
    }

    /// Layout of images in a query and of scores in an answer.
    pub fn layout(&self) -> &ImageLayout {
        &self.layout
    }

    /// Number of images in one query. Fewer are padded, which the server cannot see.
    pub fn batch(&self) -> usize {
        self.layout.batch()
    }

    /// The shape of the server's network.
    pub fn shape(&self) -> Shape {
        self.layout.shape()
    }

    /// The level of a query's vectors.
    pub fn query_level(&self) -> usize {
        self.own.query_level as usize
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.header.packed_bytes(self.layout.vectors(), self.vector_bytes())
    }

    /// Maximum length of an answer in bytes: one vector, of no higher level than the query.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.header.packed_bytes(1, output_bytes(self.parameters(), self.query_level()))
    }

    /// Bytes of all vectors of a query; `usize::MAX` if there are more.
    fn vector_bytes(&self) -> usize {
        self.layout.vectors().saturating_mul(SeededCiphertext::byte_len(self.parameters(), self.query_level()))
    }
}

impl ApplicationDescription for Description {
    type Error = DigitsError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, DigitsError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        if own.circuit != CIRCUIT {
            let found = format!("circuit {:?}", own.circuit.chars().take(20).collect::<String>());
            return Err(ProtocolError::mismatch("description", found, "\"owner\", of a recogniser of digits").into());
        }
        let shape = Shape { channels: own.channels as usize, hidden: own.hidden as usize };
        let layout = ImageLayout::new(shape, header.parameters().slots(), own.batch as usize)?;
        let top = header.parameters().max_level();
        if own.query_level as usize > top {
            let needed = format!("at most {top} with preset {}", header.parameters().name());
            return Err(ProtocolError::mismatch("query level", own.query_level, needed).into());
        }
        header.check_use(Bootstraps::Nothing)?;
        let description = Description { header, own, layout };
        CkksHeader::check_query_bytes(description.vector_bytes())?;
        CkksHeader::check_answer_bytes(description.answer_bytes())?;
        Ok(description)
    }

    fn key_set(&self) -> KeySetId {
        self.header.key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.header.keep_error_bound(&earlier.header);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        &self.header
    }
}
