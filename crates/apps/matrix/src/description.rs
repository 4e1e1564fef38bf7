//! The description of a served program, which client and server must both know.

use prost::Message;
use unspoken_ckks::CkksParameters;
use unspoken_protocol::{
    ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol, ProtocolError, output_bytes,
};

use crate::error::MatrixError;
use crate::precision::Precision;
use crate::program::Program;
use crate::proto;
use crate::shape::{ArrayShape, Axes};
use crate::signature::{Input, Signature, SignatureParts};

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 2;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "matrix", version: PROTOCOL_VERSION };

/// Context of the hash that identifies a program.
const ID_CONTEXT: &str = "unspoken 2026 shapes, layout and keys of a matrix program";

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone)]
pub struct Description {
    header: CkksHeader,
    own: proto::Description,
    signature: Signature,
}

impl Description {
    /// The description of a program with this `precision`.
    pub(crate) fn new(program: &Program, precision: Precision) -> Self {
        let signature = program.signature();
        let own = proto::Description {
            tile: signature.layout().dim() as u32,
            tile_rows: signature.layout().tile().0 as u32,
            blocks: signature.layout().blocks() as u32,
            query_level: signature.level() as u32,
            output_level: program.output_level() as u32,
            batch: signature.batch() as u32,
            inputs: signature
                .inputs()
                .iter()
                .map(|input| proto::Input { name: input.name.clone(), shape: Some(write_shape(input.shape)) })
                .collect(),
            output: Some(write_shape(signature.output())),
            largest_input: signature.largest(),
        };
        let parameters = signature.preset.parameters();
        let id = program_id(signature, &own);
        let bound = precision.limit();
        let keys = signature.key_plan().clone();
        let header = CkksHeader::new(PROTOCOL, parameters, &id, keys, PROTOCOL.kind.into(), bound)
            .with_error_bound(precision.error);
        Description { header, own, signature: signature.clone() }
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if no program has such a signature.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MatrixError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, MatrixError> {
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

    /// Shapes, layout and keys of the program.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Bound of the error of a result's entries, from a simulation by the server. It holds if no entry of an input
    /// exceeds [`Description::largest_input`].
    pub fn error_bound(&self) -> f64 {
        self.header.error_bound().unwrap_or(0.0)
    }

    /// The largest entry of inputs, for which the error bound holds. Zeros are sent in place of larger ones, and their
    /// answer is an error.
    pub fn largest_input(&self) -> f64 {
        self.own.largest_input
    }

    /// Maximum length of a query in bytes.
    pub(crate) fn query_bytes(&self) -> usize {
        let bytes = usize::try_from(self.signature.input_bytes()).unwrap_or(usize::MAX);
        self.header.packed_bytes(self.signature.input_vectors(), bytes)
    }

    /// Maximum length of an answer in bytes.
    pub(crate) fn answer_bytes(&self) -> usize {
        let vectors = self.signature.output_vectors();
        let vector = output_bytes(self.parameters(), self.own.output_level as usize);
        self.header.packed_bytes(vectors, vectors.saturating_mul(vector))
    }
}

impl ApplicationDescription for Description {
    type Error = MatrixError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        let input = |input: &proto::Input| Input { name: input.name.clone(), shape: read_shape(input.shape) };
        let parts = SignatureParts {
            tile: (own.tile_rows as usize, own.tile as usize),
            blocks: own.blocks as usize,
            level: own.query_level as usize,
            batch: own.batch as usize,
            inputs: own.inputs.iter().map(input).collect(),
            output: read_shape(own.output),
            keys: header.key_plan().clone(),
            largest: own.largest_input,
            magnitude: header.bound(),
        };
        let signature = Signature::checked(header.parameters().name(), parts)?;
        if header.error_bound().is_none() || !(own.largest_input > 0.0 && own.largest_input.is_finite()) {
            let found = format!("error bound {:?} for inputs up to {}", header.error_bound(), own.largest_input);
            return Err(ProtocolError::mismatch("description", found, "positive finite numbers").into());
        }
        if own.output_level > own.query_level {
            let needed = format!("at most {}, the level of queries", own.query_level);
            return Err(ProtocolError::mismatch("output level", own.output_level, needed).into());
        }
        let description = Description { header, own, signature };
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

/// Hash that identifies the public part of a program. It does not include constants, so that clients cannot test
/// guesses of them, nor the precision, so that the id stays the same when constants change.
fn program_id(signature: &Signature, own: &proto::Description) -> [u8; 16] {
    let public = proto::Description { largest_input: 0.0, ..own.clone() };
    let mut hasher = blake3::Hasher::new_derive_key(ID_CONTEXT);
    hasher.update(&signature.preset.parameters().rlwe().fingerprint().0);
    for (kind, chain) in signature.key_plan().iter() {
        hasher.update(&kind.code().to_le_bytes());
        hasher.update(&(chain as u64).to_le_bytes());
    }
    hasher.update(&public.encode_to_vec());
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    id
}

fn write_shape(shape: ArrayShape) -> proto::ArrayShape {
    proto::ArrayShape {
        rows: shape.matrix.0 as u32,
        columns: shape.matrix.1 as u32,
        batch_axis: shape.axes.batch,
        row_axis: shape.axes.rows,
        column_axis: shape.axes.columns,
    }
}

/// Converts a shape without checking it. A missing shape becomes an empty one.
fn read_shape(shape: Option<proto::ArrayShape>) -> ArrayShape {
    let shape = shape.unwrap_or_default();
    ArrayShape {
        matrix: (shape.rows as usize, shape.columns as usize),
        axes: Axes { batch: shape.batch_axis, rows: shape.row_axis, columns: shape.column_axis },
    }
}
