//! Queries as they are sent.

use unspoken_ring::Seed;

use crate::error::SchemeError;
use crate::mode::Mode;
use crate::packed_bits::{PackedBits, weights};
use crate::packing::{packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;
use crate::shape::DatabaseShape;

/// Version of queries to transformed tables and to encrypted entries, and of the mapping from records to these: it
/// rises with [`ENTRY_FORMAT`](crate::ENTRY_FORMAT) and
/// [`ENCRYPTED_FORMAT`](crate::encrypted::ENCRYPTED_FORMAT).
pub const QUERY_FORMAT: u32 = 2;

/// A query: seeds and the ciphertext parts that they do not determine. It does not reveal the index.
#[derive(Clone, Debug)]
pub enum Query {
    /// 36 bytes: the index in one LWE ciphertext.
    Compact {
        /// Seed of the mask.
        seed: Seed,
        /// The body.
        body: u32,
    },
    /// The index in one LWE ciphertext. Its mask is determined by a counter value and the seed sent with the keys.
    Session {
        /// The counter value. A second query with it would reveal the difference of the two indices.
        counter: u32,
        /// The body.
        body: u32,
    },
    /// An LWE ciphertext for each bit of the index, the lowest first. Bodies are rounded.
    Bits {
        /// Seed of the masks.
        seed: Seed,
        /// The highest [`PirLiteral::bit_body_bits`](crate::PirLiteral::bit_body_bits) bits of each body.
        bodies: Vec<u32>,
    },
    /// All gadget weights of all bits in one RLWE ciphertext.
    Packed(PackedBits),
}

impl Query {
    /// Mode of the query.
    pub fn mode(&self) -> Mode {
        match self {
            Query::Compact { .. } => Mode::Compact,
            Query::Session { .. } => Mode::Session,
            Query::Bits { .. } => Mode::Bits,
            Query::Packed(_) => Mode::Packed,
        }
    }

    /// Bytes of a query of a mode to a database of a shape: seeds and bodies, nothing else.
    pub fn byte_len(parameters: &PirParameters, mode: Mode, shape: DatabaseShape) -> usize {
        let word = size_of::<u32>();
        match mode {
            Mode::Compact => size_of::<Seed>() + word,
            Mode::Session => 2 * word,
            Mode::Bits => {
                let bits = parameters.literal().bit_body_bits;
                size_of::<Seed>() + packed_bytes(shape.index_bits() as usize, bits)
            }
            Mode::Packed => PackedBits::byte_len(weights(&parameters.gadgets(shape))),
        }
    }

    /// Serialises the query to [`Query::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        match self {
            Query::Compact { seed, body } => [&seed.0[..], &body.to_le_bytes()].concat(),
            Query::Session { counter, body } => [counter.to_le_bytes(), body.to_le_bytes()].concat(),
            Query::Bits { seed, bodies } => [&seed.0[..], &packed(bodies, parameters.literal().bit_body_bits)].concat(),
            Query::Packed(bits) => bits.to_bytes(),
        }
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or bits that are not used are not zero.
    pub fn from_bytes(
        parameters: &PirParameters,
        mode: Mode,
        shape: DatabaseShape,
        bytes: &[u8],
    ) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(parameters, mode, shape);
        let wrong = || {
            let needed = format!("{needed} bytes for a {mode} query");
            SchemeError::format("query", format!("{} bytes", bytes.len()), needed)
        };
        if bytes.len() != needed {
            return Err(wrong());
        }
        let words = |bytes: &[u8]| -> Vec<u32> { bytes.as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect() };
        if mode == Mode::Session {
            let [counter, body] = words(bytes)[..] else { return Err(wrong()) };
            return Ok(Query::Session { counter, body });
        }
        let (seed, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
        let seed = Seed(*seed);
        match mode {
            Mode::Compact | Mode::Session => {
                let [body] = words(rest)[..] else { return Err(wrong()) };
                Ok(Query::Compact { seed, body })
            }
            Mode::Bits => {
                let (bits, count) = (parameters.literal().bit_body_bits, shape.index_bits() as usize);
                let unused = || SchemeError::format("query", "bits that are not used", "zeros there");
                Ok(Query::Bits { seed, bodies: unpacked(rest, bits, count).ok_or_else(unused)? })
            }
            Mode::Packed => Ok(Query::Packed(PackedBits::from_bytes(&parameters.gadgets(shape), bytes)?)),
        }
    }
}
