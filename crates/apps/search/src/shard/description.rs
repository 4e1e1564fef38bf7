//! The description of a shard, which routers read.

use std::ops::Range;

use prost::Message;
use unspoken_protocol::{ApplicationDescription, KeySetId, Protocol, append_description_checksum, checked_description};

use crate::description::Description;
use crate::error::SearchError;
use crate::proto;

/// Version of the protocol between routers and shards.
pub const SHARD_PROTOCOL_VERSION: u32 = 1;

const PROTOCOL: Protocol = Protocol { kind: "search-shard", version: SHARD_PROTOCOL_VERSION };

/// What a router must know of a shard.
#[derive(Clone, Debug)]
pub struct ShardDescription {
    index: Description,
    range: Range<usize>,
}

impl ShardDescription {
    /// The description of a shard of an index with these groups of its columns.
    pub(crate) fn new(index: Description, range: Range<usize>) -> Self {
        ShardDescription { index, range }
    }

    /// The description of the whole index.
    pub fn index(&self) -> &Description {
        &self.index
    }

    /// Its groups of columns.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Serialises the description, with a checksum as its last field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let message = proto::ShardDescription {
            version: SHARD_PROTOCOL_VERSION,
            index: self.index.to_bytes(),
            first: self.range.start as u32,
            groups: self.range.len() as u32,
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }
}

impl ApplicationDescription for ShardDescription {
    type Error = SearchError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, SearchError> {
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::ShardDescription::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, SHARD_PROTOCOL_VERSION, version_of)?;
        let message = proto::ShardDescription::decode(bytes)
            .map_err(|error| SearchError::mismatch("description of a shard", error, "a protobuf message"))?;
        if message.version != SHARD_PROTOCOL_VERSION {
            let needed = format!("{SHARD_PROTOCOL_VERSION}; update the older side");
            return Err(SearchError::mismatch("protocol version of a shard", message.version, needed));
        }
        let index = Description::read(&message.index, accept_insecure)?;
        let (first, groups, all) = (message.first as usize, message.groups as usize, index.shape().groups());
        if groups == 0 || first.saturating_add(groups) > all {
            let found = format!("{groups} from {first}");
            return Err(SearchError::mismatch("groups of a shard", found, format!("one or more of 0 to {all}")));
        }
        Ok(ShardDescription { index, range: first..first + groups })
    }

    fn key_set(&self) -> KeySetId {
        self.index.key_set()
    }
}
