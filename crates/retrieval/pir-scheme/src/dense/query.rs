//! Dense queries as they are sent.

use unspoken_ring::{Domain, Poly, Seed};

use crate::dense::shape::DenseShape;
use crate::dense::{QUERY_BITS, SELECTION, selection_gadgets};
use crate::error::SchemeError;
use crate::packed_bits::PackedBits;
use crate::packing::{packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// An encrypted vector over the rows of a table, under a secret of its own, and the keys that bring the packed sums of
/// products with it to the client's lasting secret.
#[derive(Clone, Debug)]
pub struct RowsQuery {
    /// The bodies of the encrypted vector, the highest 28 bits of each.
    pub(crate) words: Vec<u32>,
    /// Number of the highest of these bits that words are rounded to; the others are zero.
    pub(crate) word_bits: u32,
    /// Bodies of the keys that switch from `sigma(z)` to `z`, for `X -> X^5` and for `X -> X^-1`.
    pub(crate) rotation: Poly,
    pub(crate) conjugation: Poly,
    /// The key that switches from `z` to the client's lasting secret.
    pub(crate) switch: (Seed, Poly),
}

/// A query to a dense table. It does not reveal the number of the cell.
#[derive(Clone, Debug)]
pub struct DenseQuery {
    /// The unit vector of the cell's row.
    pub(crate) rows: RowsQuery,
    /// The bits that select the group and the place.
    pub(crate) selection: PackedBits,
}

impl RowsQuery {
    /// Bytes of a query to a table of a number of rows.
    pub fn byte_len(parameters: &PirParameters, rows: usize) -> usize {
        Self::byte_len_of(parameters, rows, QUERY_BITS)
    }

    /// Serialises the query, with the bits that its words are rounded to: all of them for scores, which take
    /// [`RowsQuery::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let words: Vec<u32> = self.words.iter().map(|word| word >> (QUERY_BITS - self.word_bits)).collect();
        let mut bytes = packed(&words, self.word_bits);
        bytes.extend(self.switch.0.0);
        let polys = [&self.rotation, &self.conjugation, &self.switch.1];
        polys.into_iter().for_each(|poly| parameters.ring().write_residues(poly, &mut bytes));
        bytes
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, bits that are not used are not zero, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, rows: usize, bytes: &[u8]) -> Result<Self, SchemeError> {
        Self::read(parameters, rows, QUERY_BITS, bytes)
    }

    /// Bytes of a query whose words have this number of bits: words, a seed, and three polynomials.
    fn byte_len_of(parameters: &PirParameters, rows: usize, word_bits: u32) -> usize {
        let poly = parameters.ring().residue_bytes(parameters.ring().basis());
        packed_bytes(rows, word_bits) + size_of::<Seed>() + 3 * poly
    }

    /// Reads a query whose words have this number of bits.
    fn read(parameters: &PirParameters, rows: usize, word_bits: u32, bytes: &[u8]) -> Result<Self, SchemeError> {
        let (ring, needed) = (parameters.ring(), Self::byte_len_of(parameters, rows, word_bits));
        let wrong = || SchemeError::format("dense query", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        if bytes.len() != needed {
            return Err(wrong());
        }
        let (words, rest) = bytes.split_at(packed_bytes(rows, word_bits));
        let unused = || SchemeError::format("dense query", "bits that are not used", "zeros there");
        let mut words: Vec<u32> = unpacked(words, word_bits, rows).ok_or_else(unused)?;
        words.iter_mut().for_each(|word| *word <<= QUERY_BITS - word_bits);
        let (seed, polys) = rest.split_first_chunk().ok_or_else(wrong)?;
        let read = |bytes| ring.read_residues(bytes, ring.basis(), Domain::Evaluation);
        let mut polys = polys.chunks_exact(ring.residue_bytes(ring.basis())).map(read);
        let mut poly = || Ok::<_, SchemeError>(polys.next().ok_or_else(wrong)??);
        let [rotation, conjugation, switch] = [poly()?, poly()?, poly()?];
        Ok(RowsQuery { words, word_bits, rotation, conjugation, switch: (Seed(*seed), switch) })
    }
}

impl DenseQuery {
    /// Bytes of a query to a table of a shape.
    pub fn byte_len(parameters: &PirParameters, shape: DenseShape) -> usize {
        let weights = SELECTION.levels * shape.selection_bits(parameters) as usize;
        RowsQuery::byte_len_of(parameters, shape.rows, shape.word_bits()) + PackedBits::byte_len(weights)
    }

    /// Serialises the query to [`DenseQuery::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        [self.rows.to_bytes(parameters), self.selection.to_bytes()].concat()
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, bits that are not used are not zero, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, shape: DenseShape, bytes: &[u8]) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(parameters, shape);
        let wrong = || SchemeError::format("dense query", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        let bits = shape.word_bits();
        let rows = RowsQuery::byte_len_of(parameters, shape.rows, bits);
        let (rows, selection) = bytes.split_at_checked(rows).filter(|_| bytes.len() == needed).ok_or_else(wrong)?;
        Ok(DenseQuery {
            rows: RowsQuery::read(parameters, shape.rows, bits, rows)?,
            selection: PackedBits::from_bytes(&selection_gadgets(parameters, shape)?, selection)?,
        })
    }
}
