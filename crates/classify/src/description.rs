//! The agreement between client and server: which parameters, which model, which keys.

use prost::Message;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_lookup::query::{Form, Frame, Query, requested_keys};
use unspoken_rlwe::{KeyKind, KeyPlan};

use crate::error::ClassifyError;
use crate::proto;

/// Most columns of a subtable, padding included.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 2;

/// What a client must know to ask: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    pub(crate) parameters: CkksParameters,
    pub(crate) message: proto::Description,
    pub(crate) key_plan: KeyPlan,
    /// How codes travel.
    pub(crate) query: Query,
    form: Form,
}

impl Description {
    pub(crate) fn new(
        parameters: &CkksParameters,
        key_plan: KeyPlan,
        message: proto::Description,
    ) -> Result<Self, ClassifyError> {
        let form: Form = message.query_form.parse()?;
        let frame = Frame {
            parameters: parameters.clone(),
            subtables: message.subtables as usize,
            columns: message.columns as usize,
            level: message.query_level as usize,
        };
        Ok(Description { parameters: parameters.clone(), query: Query::new(form, frame)?, message, key_plan, form })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// If it is malformed, of another version, names an unknown or insecure preset, or this build's numbers of the preset
    /// differ from the server's.
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

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ClassifyError> {
        let message = proto::Description::decode(bytes)
            .map_err(|e| ClassifyError::mismatch("description", e, "a protobuf message"))?;
        if message.version != PROTOCOL_VERSION {
            let needed = format!("version {PROTOCOL_VERSION}; update the older side");
            return Err(ClassifyError::mismatch("protocol", format!("version {}", message.version), needed));
        }
        let parameters = Preset::find(&message.preset)?.build()?;
        if parameters.rlwe().is_insecure() && !accept_insecure {
            return Err(ClassifyError::mismatch("preset", &message.preset, "a secure one"));
        }
        if message.fingerprint != parameters.rlwe().fingerprint().0 {
            return Err(ClassifyError::mismatch(
                "preset",
                "other numbers under the same name",
                "the same release on both sides",
            ));
        }
        let batch = parameters.slots() as u64 / u64::from(message.max_tokens.max(1));
        let plausible = (1..=64).contains(&message.subtables)
            && (2..=MAX_COLUMNS as u32).contains(&message.columns)
            && (2..=1024).contains(&message.classes)
            && message.max_tokens.is_power_of_two()
            && batch >= 1
            && message.query_level as usize <= parameters.max_level()
            && message.columns.is_power_of_two()
            && message.score_bound.is_finite()
            && message.score_bound > 0.0;
        if !plausible {
            return Err(ClassifyError::mismatch("model shape", format!("{message:?}"), "one that fits the preset"));
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

    /// Messages one query holds.
    pub fn batch(&self) -> usize {
        self.parameters.slots() / self.max_tokens()
    }

    /// Tokens of a message; shorter ones are padded, invisibly to the server.
    pub fn max_tokens(&self) -> usize {
        self.message.max_tokens as usize
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.message.classes as usize
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
        self.form
    }
}

pub(crate) fn key_requirements(plan: &KeyPlan) -> Vec<proto::KeyRequirement> {
    let requirement =
        |(kind, chain): (KeyKind, usize)| proto::KeyRequirement { galois_element: kind.code(), chain: chain as u32 };
    plan.iter().map(requirement).collect()
}
