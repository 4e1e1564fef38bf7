//! The version of the formats.

/// Version of the client's two files. A reader refuses other versions.
pub(crate) const VERSION: u32 = 1;
