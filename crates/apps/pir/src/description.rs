//! The description of a database, which client and service must both know.

use prost::Message;
use unspoken_pir_scheme::dense::{self, MaskSeed};
use unspoken_pir_scheme::encrypted::ENCRYPTED_FORMAT;
use unspoken_pir_scheme::{ENTRY_FORMAT, Layout, Length, Mode, PirParameters, QUERY_FORMAT, TableKind, Tables};
use unspoken_protocol::{
    ApplicationDescription, Handshake, KeySetId, PirPresets, Protocol, ProtocolError, append_description_checksum,
    checked_description, limits,
};

use crate::error::PirError;
use crate::frame::ANSWER_OVERHEAD_BYTES;
use crate::proto::{self, description};

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 3;

/// Kind and version of the messages. The kind is the word of earlier releases, which their clients read; people know
/// the application as `pir`.
const PROTOCOL: Protocol = Protocol { kind: "retrieve", version: PROTOCOL_VERSION };

/// Maximum number of queries in one request, if its answer stays below [`MAX_ANSWER_BYTES`].
fn most_queries(kind: TableKind) -> u32 {
    match kind {
        TableKind::Transformed => 16,
        TableKind::Dense | TableKind::Wide => 4,
        // Each reads all entries.
        TableKind::Encrypted => 4,
    }
}

/// Length of an answer, in bytes, above which a request has fewer queries.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Data that a client needs to ask questions: made by the service, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    tables: Tables,
    most_queries: u32,
    sealing: Option<[u8; 16]>,
}

impl Description {
    /// The description of a database.
    ///
    /// # Errors
    /// If answers would be too long.
    pub fn new(tables: &Tables) -> Result<Self, PirError> {
        let answer = tables.planes() * tables.response_bytes();
        let fitting = (MAX_ANSWER_BYTES / answer).min(most_queries(tables.kind()) as usize) as u32;
        Self::checked(tables.clone(), fitting.max(tables.queries() as u32))
    }

    /// The description of a database whose records are sealed with this id, or not sealed.
    pub fn with_sealing(self, sealing: Option<[u8; 16]>) -> Self {
        Description { sealing, ..self }
    }

    fn checked(tables: Tables, queries: u32) -> Result<Self, PirError> {
        let (least, most) = (tables.queries() as u32, most_queries(tables.kind()));
        let answer = tables.planes() * tables.response_bytes();
        if queries > least && (queries as usize).saturating_mul(answer) > MAX_ANSWER_BYTES {
            let needed = format!("as many as answers of {MAX_ANSWER_BYTES} bytes are for; do not trust this service");
            return Err(PirError::mismatch("description: queries of a request", queries, needed));
        }
        if !(least..=most).contains(&queries) {
            let needed = format!("{least} to {most}");
            return Err(PirError::mismatch("description: queries of a request", queries, needed));
        }
        let description = Description { tables, most_queries: queries, sealing: None };
        let bytes = description.answer_bytes(queries as usize);
        limits::check_answer_bytes(bytes as u64).map_err(ProtocolError::from)?;
        Ok(description)
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::Description {
            version: PROTOCOL_VERSION,
            preset: self.parameters().name().into(),
            fingerprint: self.parameters().fingerprint().to_vec(),
            layout: Some(layout_message(self.layout())),
            most_queries: self.most_queries,
            query_format: query_format(self.tables.kind(), self.tables.masks()),
            tables: kind_message(self.tables.kind()).into(),
            mask_seed: mask_bytes(&self.tables),
            sealing: self.sealing.map(|id| id.to_vec()).unwrap_or_default(),
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        self.tables.parameters()
    }

    /// How records are stored in cells.
    pub fn layout(&self) -> Layout {
        self.tables.layout()
    }

    /// How cells are stored in tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Id of the sealing of the records, if the service says that they are sealed. Services of earlier releases do not.
    pub fn sealing(&self) -> Option<[u8; 16]> {
        self.sealing
    }

    /// Maximum number of queries in one request.
    pub fn most_queries(&self) -> usize {
        self.most_queries as usize
    }

    /// Maximum number of questions in one request: a question by key needs a query for each candidate bucket of its
    /// record.
    pub fn most_questions(&self) -> usize {
        self.most_queries as usize / self.tables.queries()
    }

    /// Length in bytes of a query of this kind.
    pub fn query_bytes(&self, mode: Mode) -> usize {
        self.tables.query_bytes(mode)
    }

    /// Length in bytes of the answer to a request of `queries` queries.
    pub fn answer_bytes(&self, queries: usize) -> usize {
        queries * self.tables.planes() * self.tables.response_bytes() + ANSWER_OVERHEAD_BYTES
    }

    /// Hash that distinguishes layouts, kinds of tables and public masks, so that no answer is read with another
    /// layout, kind or masks than it was computed for.
    pub(crate) fn layout_id(&self) -> [u8; 8] {
        let (layout, tables) = (Some(layout_message(self.layout())), kind_message(self.tables.kind()).into());
        let message = proto::Description { layout, tables, mask_seed: mask_bytes(&self.tables), ..Default::default() };
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 layout of a retrieval database");
        hasher.update(&self.parameters().fingerprint()).update(&message.encode_to_vec());
        let mut id = [0; 8];
        hasher.finalize_xof().fill(&mut id);
        id
    }
}

impl ApplicationDescription for Description {
    type Error = PirError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, PirError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::Description::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, PROTOCOL_VERSION, version_of)?;
        let message = proto::Description::decode(bytes)
            .map_err(|error| PirError::mismatch("description", error, "a protobuf message"))?;
        let handshake =
            Handshake { version: message.version, preset: &message.preset, fingerprint: &message.fingerprint };
        let parameters = handshake.accept::<PirPresets>(PROTOCOL_VERSION, accept_insecure)?;
        let kind = match proto::TableKind::try_from(message.tables) {
            Ok(proto::TableKind::Transformed) => TableKind::Transformed,
            Ok(proto::TableKind::Dense) => TableKind::Dense,
            Ok(proto::TableKind::Wide) => TableKind::Wide,
            Ok(proto::TableKind::Encrypted) => TableKind::Encrypted,
            Err(_) => {
                let needed = "a kind that this release knows; update the older side";
                return Err(PirError::mismatch("kind of tables", message.tables, needed));
            }
        };
        let masks = read_mask_seed(kind, &message.mask_seed)?;
        let format = query_format(kind, masks);
        if message.query_format != format {
            let needed = format!("version {format}; update the older side");
            return Err(PirError::mismatch("queries", format!("version {}", message.query_format), needed));
        }
        let tables = Tables::new(&parameters, read_layout(message.layout)?, kind).map_err(PirError::Layout)?;
        let tables = match masks {
            Some(masks) => tables.with_masks(masks)?,
            None => tables,
        };
        let sealing = read_sealing(&message.sealing)?;
        Ok(Self::checked(tables, message.most_queries)?.with_sealing(sealing))
    }

    fn key_set(&self) -> KeySetId {
        KeySetId::new("private retrieval", &self.parameters().fingerprint())
    }
}

/// Versions of the mapping from records to tables that the versions below stand for.
const _: () = assert!(ENTRY_FORMAT == 1 && ENCRYPTED_FORMAT == 1 && dense::TABLE_FORMAT == 1);

/// Version of the queries to tables of a kind, and of the mapping from records to them.
fn query_format(kind: TableKind, masks: Option<MaskSeed>) -> u32 {
    match kind {
        TableKind::Transformed | TableKind::Encrypted => QUERY_FORMAT,
        TableKind::Dense | TableKind::Wide => dense::QUERY_FORMATS[usize::from(masks.is_some())],
    }
}

fn kind_message(kind: TableKind) -> proto::TableKind {
    match kind {
        TableKind::Transformed => proto::TableKind::Transformed,
        TableKind::Dense => proto::TableKind::Dense,
        TableKind::Wide => proto::TableKind::Wide,
        TableKind::Encrypted => proto::TableKind::Encrypted,
    }
}

/// The seed of the masks of tables; empty for tables without masks of their own.
fn mask_bytes(tables: &Tables) -> Vec<u8> {
    tables.masks().map(|MaskSeed(seed)| seed.to_vec()).unwrap_or_default()
}

fn read_mask_seed(kind: TableKind, bytes: &[u8]) -> Result<Option<MaskSeed>, PirError> {
    let wrong = |needed| PirError::mismatch("seed of masks", format!("{} bytes", bytes.len()), needed);
    match (kind, bytes) {
        (_, []) => Ok(None),
        (kind, bytes) if kind.is_dense() => {
            let seed = bytes.try_into().map_err(|_| wrong("16 bytes, or none"))?;
            Ok(Some(MaskSeed(seed)))
        }
        _ => Err(wrong("none: only dense tables have public masks")),
    }
}

fn read_sealing(bytes: &[u8]) -> Result<Option<[u8; 16]>, PirError> {
    let wrong = |_| PirError::mismatch("id of a sealing", format!("{} bytes", bytes.len()), "16 bytes, or none");
    if bytes.is_empty() { Ok(None) } else { bytes.try_into().map(Some).map_err(wrong) }
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
fn read_layout(message: Option<description::Layout>) -> Result<Layout, PirError> {
    match message {
        Some(description::Layout::ByIndex(proto::ByIndex { records, bytes, variable })) => {
            let length = if variable { Length::Variable { max: bytes } } else { Length::Fixed(bytes) };
            Ok(Layout::Index { records, length })
        }
        Some(description::Layout::ByKey(proto::ByKey { buckets, bucket_bytes, candidates, seed })) => {
            let found = seed.len();
            let wrong = |_| PirError::mismatch("layout: seed", format!("{found} bytes"), "16 bytes");
            let seed = seed.try_into().map_err(wrong)?;
            Ok(Layout::Keys { buckets, bucket_bytes, candidates, seed })
        }
        None => Err(PirError::mismatch("layout", "none", "one by index or by key; update the older side")),
    }
}
