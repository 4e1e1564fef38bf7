//! Numbers of formats that several files share.

/// Bytes of the id of a contribution.
pub(crate) const ID_BYTES: usize = 16;

/// Id of a contribution: one that is sent again counts once.
pub(crate) type Id = [u8; ID_BYTES];

/// First bytes of the private file of a collector.
pub(crate) const KEY_MAGIC: [u8; 8] = *b"SUMSKEY\x01";
