//! The versions of the formats.

/// Version of the server's files, and of client's files whose words are runs of ASCII letters.
pub(crate) const VERSION: u32 = 1;

/// Version of client's files that state what a word is.
pub(crate) const WORD_RULE_VERSION: u32 = 2;
