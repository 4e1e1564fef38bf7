//! The tags of keys.

/// Tag of a key: 12 bytes of a hash. Finding an absent key with the tag of one of `n` records needs `2^96 / n` hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub [u8; TAG_BYTES]);

/// Bytes of a tag.
pub(super) const TAG_BYTES: usize = 12;
