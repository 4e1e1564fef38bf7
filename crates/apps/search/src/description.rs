//! The description of an index, which client and service must both know.

use ndarray::Array2;
use prost::Message;
use unspoken_pir_scheme::PirParameters;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape};
use unspoken_pir_scheme::dense::{MaskSeed, RowsQuery};
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, Handshake, KeySetId, PirPresets, Protocol, ProtocolError, Registration,
    append_description_checksum, checked_description, limits,
};
use unspoken_search_index::{Directory, ID_BYTES, MAX_ASKED, StoredIndex};

use crate::error::SearchError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Kind and version of the messages.
const PROTOCOL: Protocol = Protocol { kind: "search", version: PROTOCOL_VERSION };

/// Bytes of the number of columns of a cluster in an answer.
pub(crate) const COUNT_BYTES: usize = size_of::<u16>();

/// Bytes of the versions of the documents in an answer.
pub(crate) const VERSION_BYTES: usize = 2 * size_of::<u32>();

/// Bytes that name the groups of a shard in its answer.
pub(crate) const PART_BYTES: usize = 2 * size_of::<u32>();

/// Largest scale: 127 for coordinates of which none is cut off, times the root of the largest width.
const MAX_SCALE: f32 = 1e6;

/// Longest name of an application with documents, or of an embedder, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Queries of a request, at most: the service answers them in one pass.
pub(crate) const MAX_QUERIES: usize = MAX_ASKED;

/// Data that a client needs to ask questions: made by the service, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    parameters: PirParameters,
    shape: ScoreShape,
    directory: Directory,
    document_count: u64,
    id: [u8; ID_BYTES],
    documents: String,
    embedder: String,
}

impl Description {
    /// The description of an index, whose documents are fetched from an application of this name.
    ///
    /// # Errors
    /// If a question would be too long, or a number of the index is out of its range.
    pub fn new(index: &StoredIndex, documents: String) -> Result<Self, SearchError> {
        let description = Description {
            parameters: index.parameters().clone(),
            shape: *index.shape(),
            directory: index.directory().clone(),
            document_count: index.documents(),
            id: index.id(),
            documents,
            embedder: index.about().embedder.clone().unwrap_or_default(),
        };
        description.checked()
    }

    /// The description, if its parts fit each other.
    fn checked(self) -> Result<Self, SearchError> {
        let Description { shape, directory, .. } = &self;
        let clusters = self.clusters();
        let check = |what, found: usize, needed: usize| match found == needed {
            true => Ok(()),
            false => Err(SearchError::mismatch(what, found, needed)),
        };
        check("description: coordinates of the centres", directory.centres().ncols(), shape.width())?;
        check("description: centres", directory.centres().nrows(), clusters)?;
        let most = shape.blocks().min(MAX_QUERIES);
        if !(1..=most).contains(&directory.asked()) {
            return Err(SearchError::mismatch(
                "description: blocks that are asked",
                directory.asked(),
                format!("1 to {most}"),
            ));
        }
        if !(directory.scale() > 0.0 && directory.scale() <= MAX_SCALE) {
            let needed = format!("a positive number up to {MAX_SCALE}");
            return Err(SearchError::mismatch("description: scale", directory.scale(), needed));
        }
        for (what, name) in [("description: documents", &self.documents), ("description: embedder", &self.embedder)] {
            if name.len() > MAX_NAME_BYTES {
                let found = format!("a name of {} bytes", name.len());
                return Err(SearchError::mismatch(what, found, format!("at most {MAX_NAME_BYTES}")));
            }
        }
        limits::check_query_bytes(self.query_bytes(1) as u64).map_err(ProtocolError::from)?;
        limits::check_answer_bytes(self.answer_bytes(1) as u64).map_err(ProtocolError::from)?;
        Ok(self)
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::Description {
            version: PROTOCOL_VERSION,
            preset: self.parameters.name().into(),
            fingerprint: self.parameters.fingerprint().to_vec(),
            width: self.shape.width() as u32,
            blocks: self.shape.blocks() as u32,
            groups: self.shape.groups() as u32,
            norm: self.shape.norm(),
            mask_seed: self.shape.masks().0.to_vec(),
            scale: self.directory.scale(),
            asked: self.directory.asked() as u32,
            centres: self.directory.centres().iter().map(|coordinate| coordinate.cast_unsigned()).collect(),
            document_count: self.document_count,
            index_id: self.id.to_vec(),
            documents: self.documents.clone(),
            embedder: self.embedder.clone(),
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }

    /// The same index, whose documents are fetched from another application.
    pub(crate) fn with_documents(self, documents: String) -> Self {
        Description { documents, ..self }
    }

    /// Whether the other one describes the same build. The number of its documents and where they are may differ.
    pub(crate) fn is_same_index(&self, other: &Description) -> bool {
        let named = |description: &Description| {
            let documents = other.documents.clone();
            Description { document_count: 0, documents, ..description.clone() }.to_bytes()
        };
        named(self) == named(other)
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// The shape of the table.
    pub fn shape(&self) -> &ScoreShape {
        &self.shape
    }

    /// The centres of the clusters, and the blocks that a question asks.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Number of documents when the service described the index. It changes while clients ask.
    pub fn document_count(&self) -> u64 {
        self.document_count
    }

    /// Number of clusters, in all blocks.
    pub(crate) fn clusters(&self) -> usize {
        self.shape.blocks() * self.shape.groups()
    }

    /// Identifies the build of the index.
    pub fn id(&self) -> [u8; ID_BYTES] {
        self.id
    }

    /// Name of the application from which documents are fetched, by position; empty if there is none.
    pub fn documents(&self) -> &str {
        &self.documents
    }

    /// Name of the embedder that made the vectors of the documents, which must make those of queries, too; empty if it
    /// is not known.
    pub fn embedder(&self) -> &str {
        &self.embedder
    }

    /// Predicted standard deviation of the cosine that a client computes, from the noise of encryption alone.
    pub fn cosine_deviation(&self) -> f64 {
        let deviation = self.shape.deviation(&self.parameters).unwrap_or(f64::INFINITY);
        deviation * f64::from(self.shape.norm()) / f64::from(self.directory.scale())
    }

    /// Maximum number of questions in one request.
    pub fn most_questions(&self) -> usize {
        (MAX_QUERIES / self.directory.asked()).max(1)
    }

    /// Length in bytes of a request of `questions` questions.
    pub fn query_bytes(&self, questions: usize) -> usize {
        let query = RowsQuery::byte_len(&self.parameters, self.shape.rows());
        ID_BYTES + questions * self.directory.asked() * query + CHECKSUM_BYTES
    }

    /// Length in bytes of the answer to a request of `questions` questions.
    pub fn answer_bytes(&self, questions: usize) -> usize {
        self.answer_bytes_of(self.shape.groups(), questions)
    }

    /// As [`Description::answer_bytes`], of a shard with so many groups, which names them.
    pub(crate) fn part_answer_bytes(&self, groups: usize, questions: usize) -> usize {
        PART_BYTES + self.answer_bytes_of(groups, questions)
    }

    /// The answer with the scores of so many groups.
    fn answer_bytes_of(&self, groups: usize, questions: usize) -> usize {
        let responses = self.directory.asked() * groups;
        let counts = self.shape.blocks() * groups * COUNT_BYTES;
        let responses = questions * responses * ScoreResponse::byte_len(&self.parameters);
        ID_BYTES + VERSION_BYTES + counts + responses + CHECKSUM_BYTES
    }
}

impl ApplicationDescription for Description {
    type Error = SearchError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, SearchError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::Description::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, PROTOCOL_VERSION, version_of)?;
        let message = proto::Description::decode(bytes)
            .map_err(|error| SearchError::mismatch("description", error, "a protobuf message"))?;
        let handshake =
            Handshake { version: message.version, preset: &message.preset, fingerprint: &message.fingerprint };
        let parameters = handshake.accept::<PirPresets>(PROTOCOL_VERSION, accept_insecure)?;
        let sixteen = |what, bytes: &[u8]| -> Result<[u8; 16], SearchError> {
            bytes.try_into().map_err(|_| SearchError::mismatch(what, format!("{} bytes", bytes.len()), "16 bytes"))
        };
        let masks = MaskSeed(sixteen("description: seed of the masks", &message.mask_seed)?);
        let sizes = [message.width, message.blocks, message.groups].map(|size| size as usize);
        let shape = ScoreShape::new(sizes, message.norm, masks)?;
        let [width, blocks, groups] = sizes;
        let needed = width * blocks * groups;
        if message.centres.len() != needed {
            let found = format!("{} bytes", message.centres.len());
            return Err(SearchError::mismatch("description: centres", found, format!("{needed} bytes")));
        }
        let centres: Vec<i8> = message.centres.iter().map(|byte| byte.cast_signed()).collect();
        let centres = Array2::from_shape_vec((blocks * groups, width), centres).expect("as many bytes as coordinates");
        let directory = Directory::described(centres, message.scale, groups, message.asked as usize);
        let id = sixteen("description: id of the index", &message.index_id)?;
        let (document_count, documents, embedder) = (message.document_count, message.documents, message.embedder);
        Description { parameters, shape, directory, document_count, id, documents, embedder }.checked()
    }

    fn key_set(&self) -> KeySetId {
        Registration::key_set()
    }
}
