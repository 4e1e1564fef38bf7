//! The agreement between client and server: which parameters, which table, which keys.

use prost::Message;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_lookup::OutputForm;
use unspoken_lookup::query::{Form, Frame, Query, requested_keys};
use unspoken_rlwe::{KeyKind, KeyPlan};

use crate::error::EmbedError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// What a client must know to ask: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    pub(crate) parameters: CkksParameters,
    pub(crate) message: proto::Description,
    pub(crate) key_plan: KeyPlan,
    /// How codes travel.
    pub(crate) query: Query,
    query_form: Form,
}

impl Description {
    pub(crate) fn new(
        parameters: &CkksParameters,
        key_plan: KeyPlan,
        message: proto::Description,
    ) -> Result<Self, EmbedError> {
        let query_form: Form = message.query_form.parse()?;
        let frame = Frame {
            parameters: parameters.clone(),
            subtables: message.subtables as usize,
            columns: message.columns as usize,
            level: message.query_level as usize,
        };
        let query = Query::new(query_form, frame)?;
        Ok(Description { parameters: parameters.clone(), message, key_plan, query, query_form })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// If it is malformed, of another version, names an unknown or insecure preset, or this build's numbers of the preset
    /// differ from the server's.
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

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, EmbedError> {
        let message = proto::Description::decode(bytes)
            .map_err(|e| EmbedError::mismatch("description", e, "a protobuf message"))?;
        if message.version != PROTOCOL_VERSION {
            let needed = format!("version {PROTOCOL_VERSION}; update the older side");
            return Err(EmbedError::mismatch("protocol", format!("version {}", message.version), needed));
        }
        let parameters = Preset::find(&message.preset)?.build()?;
        if parameters.rlwe().is_insecure() && !accept_insecure {
            return Err(EmbedError::mismatch("preset", &message.preset, "a secure one"));
        }
        if message.fingerprint != parameters.rlwe().fingerprint().0 {
            return Err(EmbedError::mismatch(
                "preset",
                "other numbers under the same name",
                "the same release on both sides",
            ));
        }
        let plausible = (1..=16).contains(&message.subtables)
            && (4..=4096).contains(&message.columns)
            && message.columns.is_power_of_two()
            && (1..=4096).contains(&message.width)
            && message.query_level as usize <= parameters.max_level()
            && message.bound.is_finite()
            && message.bound >= 0.0;
        if !plausible {
            return Err(EmbedError::mismatch("table shape", format!("{message:?}"), "one that fits the preset"));
        }
        let form: Form = message.query_form.parse()?;
        let keys = message.keys.iter().map(|key| (key.galois_element, key.chain as usize));
        let description = Self::new(&parameters, requested_keys(&parameters, form, keys)?, message)?;
        description.query.check_size()?;
        Ok(description)
    }

    /// As bytes for the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// The keys the server needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.key_plan
    }

    /// Tokens one query holds; fewer are padded, invisibly to the server.
    pub fn batch(&self) -> usize {
        self.parameters.slots()
    }

    /// Numbers of an embedding.
    pub fn width(&self) -> usize {
        self.message.width as usize
    }

    /// How the numbers of an embedding lie in the vectors of an answer.
    pub fn form(&self) -> OutputForm {
        if self.message.pairs { OutputForm::Pairs } else { OutputForm::Rows }
    }

    /// Vectors of an answer.
    pub fn vectors(&self) -> usize {
        match self.form() {
            OutputForm::Rows => self.width(),
            OutputForm::Pairs => self.width().div_ceil(2),
        }
    }

    /// Name of the lookup plan.
    pub fn plan(&self) -> &str {
        &self.message.plan
    }

    /// Bytes of one query.
    pub fn query_bytes(&self) -> usize {
        // Each field: a tag and a length of at most five bytes each.
        self.query.byte_len() + 10 * self.query.vectors() + self.message.model_id.len() + 64
    }

    /// How codes travel.
    pub fn query_form(&self) -> Form {
        self.query_form
    }
}

pub(crate) fn key_requirements(plan: &KeyPlan) -> Vec<proto::KeyRequirement> {
    let requirement =
        |(kind, chain): (KeyKind, usize)| proto::KeyRequirement { galois_element: kind.code(), chain: chain as u32 };
    plan.iter().map(requirement).collect()
}
