//! Kinds of queries.

use std::fmt;

/// The kind of a query: how it encrypts the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The whole index in one LWE ciphertext, 36 bytes (Pirouette).
    Compact,
    /// As `Compact`, in 4 bytes per query and 4 per request: the seed is sent once with the keys, and a counter
    /// replaces it in queries (closing remark of Pirouette). The client must never use a counter value twice.
    Session,
    /// A seed and a few bits for each bit of the index: 45 bytes for 20 bits (Pirouette^H).
    Bits,
    /// A seed and up to 80 coefficients of an RLWE ciphertext, at most 352 bytes, and keys of a few MB (similar to
    /// Respire).
    Packed,
}

impl Mode {
    /// All modes, the largest keys first.
    pub const ALL: [Mode; 4] = [Mode::Compact, Mode::Session, Mode::Bits, Mode::Packed];

    /// Whether the mode needs keys for bootstrapping bits, and keys for extracting bits from an index.
    pub(crate) fn keys(self) -> (bool, bool) {
        (self != Mode::Packed, matches!(self, Mode::Compact | Mode::Session))
    }

    /// Whether keys for this mode serve queries of another one too.
    pub fn keys_serve(self, queries: Mode) -> bool {
        let ((bits, compact), (needs_bits, needs_compact)) = (self.keys(), queries.keys());
        bits >= needs_bits && compact >= needs_compact
    }

    /// Code of the mode in streams of keys.
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
