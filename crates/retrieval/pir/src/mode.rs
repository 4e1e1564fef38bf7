//! Kinds of queries.

use std::fmt;

use crate::error::PirError;

/// How an index is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// 36 bytes (Pirouette).
    Compact,
    /// 4 bytes a query and 4 for all of a request: the seed was sent once, and a counter takes its place (the closing
    /// remark of Pirouette). The client must never use a number twice.
    Session,
    /// 4 bytes for each bit of the index (Pirouette^H).
    Bits,
    /// Some 13 KB, and keys of a few MB (in the manner of Respire).
    Packed,
}

impl Mode {
    /// All of them, that with the largest keys first.
    pub const ALL: [Mode; 4] = [Mode::Compact, Mode::Session, Mode::Bits, Mode::Packed];

    /// Whether it takes keys to bootstrap bits, and keys to take bits off an index.
    pub(crate) fn keys(self) -> (bool, bool) {
        (self != Mode::Packed, matches!(self, Mode::Compact | Mode::Session))
    }

    /// Its number in streams of keys.
    pub(crate) fn code(self) -> u8 {
        Mode::ALL.iter().position(|&mode| mode == self).unwrap_or_default() as u8
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Compact => "compact",
            Mode::Session => "session",
            Mode::Bits => "bits",
            Mode::Packed => "packed",
        })
    }
}

impl std::str::FromStr for Mode {
    type Err = PirError;

    fn from_str(name: &str) -> Result<Self, PirError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| PirError::format("kind of queries", name, "compact, session, bits or packed"))
    }
}
