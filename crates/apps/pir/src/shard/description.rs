//! The description of a shard, which routers read.

use prost::Message;
use unspoken_pir_scheme::ShardId;
use unspoken_protocol::{ApplicationDescription, KeySetId, Protocol, append_description_checksum, checked_description};

use crate::description::Description;
use crate::error::PirError;
use crate::proto;

/// Version of the protocol between routers and shards.
pub const SHARD_PROTOCOL_VERSION: u32 = 1;

const PROTOCOL: Protocol = Protocol { kind: "retrieve-shard", version: SHARD_PROTOCOL_VERSION };

/// What a router must know of a shard.
#[derive(Clone, Debug)]
pub struct ShardDescription {
    database: Description,
    id: ShardId,
    version: u64,
}

impl ShardDescription {
    /// The description of a shard of a version of a database.
    pub fn new(database: Description, id: ShardId, version: u64) -> Self {
        ShardDescription { database, id, version }
    }

    /// The description of the whole database.
    pub fn database(&self) -> &Description {
        &self.database
    }

    /// Which shard it is.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Version of the database.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::ShardDescription {
            version: SHARD_PROTOCOL_VERSION,
            database: self.database.to_bytes(),
            database_version: self.version,
            split: self.id.split.to_vec(),
            number: self.id.number,
            shards: self.id.shards,
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }
}

impl ApplicationDescription for ShardDescription {
    type Error = PirError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, PirError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::ShardDescription::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, SHARD_PROTOCOL_VERSION, version_of)?;
        let message = proto::ShardDescription::decode(bytes)
            .map_err(|error| PirError::mismatch("description of a shard", error, "a protobuf message"))?;
        if message.version != SHARD_PROTOCOL_VERSION {
            let needed = format!("{SHARD_PROTOCOL_VERSION}; update the older side");
            return Err(PirError::mismatch("protocol version of a shard", message.version, needed));
        }
        let database = Description::read(&message.database, accept_insecure)?;
        let (found, count) = (message.split.len(), message.shards);
        let wrong = |_| PirError::mismatch("id of the split", format!("{found} bytes"), "16 bytes");
        let id = ShardId { split: message.split.try_into().map_err(wrong)?, number: message.number, shards: count };
        if !(1..=count).contains(&id.number) {
            return Err(PirError::mismatch("number of a shard", id.number, format!("1 to {count}")));
        }
        // Also refuses tables that cannot be cut.
        database.tables().split(count as usize)?;
        Ok(ShardDescription { database, id, version: message.database_version })
    }

    fn key_set(&self) -> KeySetId {
        self.database.key_set()
    }
}
