//! The description of a database, which client and service must both know.

use prost::Message;
use unspoken_pir::{DatabaseShape, ENTRY_FORMAT, Layout, Length, Mode, PirParameters, Preset, Query, Response};
use unspoken_protocol::{
    ApplicationDescription, Handshake, KeySetId, ParameterFamily, Protocol, ProtocolError, append_description_checksum,
    checked_description, limits,
};

use crate::error::RetrieveError;
use crate::message::ANSWER_OVERHEAD_BYTES;
use crate::proto::{self, description};

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 2;

/// Kind and version of the application.
const PROTOCOL: Protocol = Protocol { kind: "retrieve", version: PROTOCOL_VERSION };

/// Maximum number of queries in one request, if its answer stays below [`MOST_ANSWER_BYTES`].
const MOST_QUERIES: u32 = 16;

/// Length of an answer, in bytes, above which a request has fewer queries.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// Data that a client needs to ask questions: made by the service, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    parameters: PirParameters,
    layout: Layout,
    shape: DatabaseShape,
    most_queries: u32,
}

impl Description {
    /// The description of a database.
    ///
    /// # Errors
    /// If the parameters allow no tables for the layout.
    pub fn new(parameters: &PirParameters, layout: Layout) -> Result<Self, RetrieveError> {
        layout.check(parameters)?;
        let answer = layout.planes(parameters) * Response::byte_len(parameters);
        let fitting = (MOST_ANSWER_BYTES / answer).min(MOST_QUERIES as usize) as u32;
        Self::checked(parameters.clone(), layout, fitting.max(candidates(layout)))
    }

    fn checked(parameters: PirParameters, layout: Layout, most_queries: u32) -> Result<Self, RetrieveError> {
        layout.check(&parameters)?;
        let shape = layout.shape(&parameters)?;
        let answer = layout.planes(&parameters) * Response::byte_len(&parameters);
        if most_queries > candidates(layout) && most_queries as usize * answer > MOST_ANSWER_BYTES {
            let needed = format!("as many as answers of {MOST_ANSWER_BYTES} bytes are for; do not trust this service");
            return Err(RetrieveError::mismatch("description: queries of a request", most_queries, needed));
        }
        if !(candidates(layout)..=MOST_QUERIES).contains(&most_queries) {
            let needed = format!("{} to {MOST_QUERIES}", candidates(layout));
            return Err(RetrieveError::mismatch("description: queries of a request", most_queries, needed));
        }
        let description = Description { parameters, layout, shape, most_queries };
        let bytes = description.answer_bytes(most_queries as usize);
        limits::check_answer_bytes(bytes as u64).map_err(ProtocolError::from)?;
        Ok(description)
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::Description {
            version: PROTOCOL_VERSION,
            preset: self.parameters.name().into(),
            fingerprint: self.parameters.fingerprint().to_vec(),
            layout: Some(layout_message(self.layout)),
            most_queries: self.most_queries,
            entry_format: ENTRY_FORMAT,
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// How records are stored in cells.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The shape of the tables.
    pub fn shape(&self) -> DatabaseShape {
        self.shape
    }

    /// Maximum number of queries in one request.
    pub fn most_queries(&self) -> usize {
        self.most_queries as usize
    }

    /// Maximum number of questions in one request: a question by key needs a query for each candidate bucket of its
    /// record.
    pub fn most_questions(&self) -> usize {
        (self.most_queries / candidates(self.layout)) as usize
    }

    /// Length in bytes of a query of this kind.
    pub fn query_bytes(&self, mode: Mode) -> usize {
        Query::byte_len(&self.parameters, mode, self.shape)
    }

    /// Length in bytes of the answer to a request of that many queries.
    pub fn answer_bytes(&self, queries: usize) -> usize {
        let responses = queries * self.responses() * Response::byte_len(&self.parameters);
        responses + ANSWER_OVERHEAD_BYTES
    }

    /// Number of responses to each query.
    pub(crate) fn responses(&self) -> usize {
        self.layout.planes(&self.parameters)
    }

    /// Hash that distinguishes layouts, so that an answer for one layout is not read as an answer for another.
    pub(crate) fn layout_id(&self) -> [u8; 8] {
        let message = proto::Description { layout: Some(layout_message(self.layout)), ..Default::default() };
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 layout of a retrieval database");
        hasher.update(&self.parameters.fingerprint()).update(&message.encode_to_vec());
        let mut id = [0; 8];
        hasher.finalize_xof().fill(&mut id);
        id
    }
}

/// The presets of private retrieval.
struct PirPresets;

impl ParameterFamily for PirPresets {
    type Parameters = PirParameters;
    type Error = RetrieveError;

    fn build(name: &str) -> Result<PirParameters, RetrieveError> {
        Ok(Preset::find(name)?.build()?)
    }

    fn fingerprint(parameters: &PirParameters) -> [u8; 16] {
        parameters.fingerprint()
    }

    fn is_insecure(parameters: &PirParameters) -> bool {
        parameters.is_insecure()
    }
}

impl ApplicationDescription for Description {
    type Error = RetrieveError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, RetrieveError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::Description::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, PROTOCOL_VERSION, version_of)?;
        let message = proto::Description::decode(bytes)
            .map_err(|error| RetrieveError::mismatch("description", error, "a protobuf message"))?;
        let handshake =
            Handshake { version: message.version, preset: &message.preset, fingerprint: &message.fingerprint };
        let parameters = handshake.accept::<PirPresets>(PROTOCOL_VERSION, accept_insecure)?;
        if message.entry_format != ENTRY_FORMAT {
            let needed = format!("version {ENTRY_FORMAT}; update the older side");
            return Err(RetrieveError::mismatch("entries", format!("version {}", message.entry_format), needed));
        }
        Self::checked(parameters, read_layout(message.layout)?, message.most_queries)
    }

    fn key_set(&self) -> KeySetId {
        KeySetId::new("private retrieval", &self.parameters.fingerprint())
    }
}

/// Number of queries that one question needs.
pub(crate) fn candidates(layout: Layout) -> u32 {
    match layout {
        Layout::Index { .. } => 1,
        Layout::Keys { candidates, .. } => candidates,
    }
}

fn layout_message(layout: Layout) -> description::Layout {
    match layout {
        Layout::Index { records, length } => {
            let (bytes, variable) = match length {
                Length::Fixed(bytes) => (bytes, false),
                Length::Variable { max } => (max, true),
            };
            description::Layout::ByIndex(proto::ByIndex { records, bytes, variable })
        }
        Layout::Keys { buckets, bucket_bytes, candidates, seed } => {
            description::Layout::ByKey(proto::ByKey { buckets, bucket_bytes, candidates, seed: seed.to_vec() })
        }
    }
}

/// Converts the layout without checking it.
fn read_layout(message: Option<description::Layout>) -> Result<Layout, RetrieveError> {
    match message {
        Some(description::Layout::ByIndex(proto::ByIndex { records, bytes, variable })) => {
            let length = if variable { Length::Variable { max: bytes } } else { Length::Fixed(bytes) };
            Ok(Layout::Index { records, length })
        }
        Some(description::Layout::ByKey(proto::ByKey { buckets, bucket_bytes, candidates, seed })) => {
            let found = seed.len();
            let wrong = |_| RetrieveError::mismatch("layout: seed", format!("{found} bytes"), "16 bytes");
            let seed = seed.try_into().map_err(wrong)?;
            Ok(Layout::Keys { buckets, bucket_bytes, candidates, seed })
        }
        None => Err(RetrieveError::mismatch("layout", "none", "one by index or by key; update the older side")),
    }
}
