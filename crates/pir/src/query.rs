//! Queries as they are sent.

use unspoken_ring::{Poly, Seed};

use crate::keys::Mode;

/// A query: seeds, and what they do not determine. It does not show the index.
#[derive(Debug)]
pub enum Query {
    /// 36 bytes: the index in one LWE ciphertext.
    Compact {
        /// Of the mask.
        seed: Seed,
        /// The body.
        body: u32,
    },
    /// An LWE ciphertext for each bit of the index, the lowest first.
    Bits {
        /// Of the masks.
        seed: Seed,
        /// The bodies.
        bodies: Vec<u32>,
    },
    /// All gadget weights of all bits in one RLWE ciphertext.
    Packed {
        /// Of the second component.
        seed: Seed,
        /// The first component.
        body: Poly,
    },
}

impl Query {
    /// Its mode.
    pub fn mode(&self) -> Mode {
        match self {
            Query::Compact { .. } => Mode::Compact,
            Query::Bits { .. } => Mode::Bits,
            Query::Packed { .. } => Mode::Packed,
        }
    }
}
