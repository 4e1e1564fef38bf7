//! The description of a sealed database, which client and service must both know.

use prost::Message;
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, KeySetId, Protocol, Registration, append_description_checksum,
    checked_description,
};
use unspoken_symmetric_pir::{Sealing, request_bytes, response_bytes};

use crate::allowance::Allowance;
use crate::error::OprfError;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Kind and version of the messages. The kind is the word of earlier releases, which their clients read; people know
/// the application as `oprf`.
const PROTOCOL: Protocol = Protocol { kind: "unseal", version: PROTOCOL_VERSION };

/// Data that a client needs to ask for keys: made by the service, checked by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    sealing: Sealing,
    allowance: Allowance,
}

impl Description {
    /// The description of a sealed database.
    pub fn new(sealing: Sealing, allowance: Allowance) -> Self {
        Description { sealing, allowance }
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::Description {
            version: PROTOCOL_VERSION,
            database_id: self.sealing.id().to_vec(),
            public_key: self.sealing.public_key().to_vec(),
            record_bytes: self.sealing.record_bytes(),
            evaluations: self.allowance.evaluations(),
            window_seconds: self.allowance.window_seconds(),
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }

    /// The sealed database: its id, its public key, and the length of its records.
    pub fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// How many keys a client may ask for.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Length in bytes of a query with `questions` questions.
    pub fn query_bytes(&self, questions: usize) -> usize {
        request_bytes(questions) + CHECKSUM_BYTES
    }

    /// Length in bytes of the answer to a query with `questions` questions.
    pub fn answer_bytes(&self, questions: usize) -> usize {
        response_bytes(questions) + CHECKSUM_BYTES
    }
}

impl ApplicationDescription for Description {
    type Error = OprfError;

    const PROTOCOL: Protocol = PROTOCOL;

    /// There are no insecure parameters.
    fn read(bytes: &[u8], _accept_insecure: bool) -> Result<Self, OprfError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::Description::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, PROTOCOL_VERSION, version_of)?;
        let message = proto::Description::decode(bytes)
            .map_err(|error| OprfError::mismatch("description", error, "a protobuf message"))?;
        if message.version != PROTOCOL_VERSION {
            let needed = format!("version {PROTOCOL_VERSION}; update the older side");
            return Err(OprfError::mismatch("protocol", format!("version {}", message.version), needed));
        }
        let found = message.database_id.len();
        let wrong = |_| OprfError::mismatch("id of a sealed database", format!("{found} bytes"), "16 bytes");
        let id = message.database_id.try_into().map_err(wrong)?;
        let sealing = Sealing::new(id, &message.public_key, message.record_bytes)?;
        Ok(Description { sealing, allowance: Allowance::new(message.evaluations, message.window_seconds)? })
    }

    fn key_set(&self) -> KeySetId {
        Registration::key_set()
    }
}
