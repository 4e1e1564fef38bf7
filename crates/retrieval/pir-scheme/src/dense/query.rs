//! Dense queries as they are sent.

use unspoken_ring::{Domain, Poly, Seed};

use crate::dense::QUERY_BITS;
use crate::dense::shape::DenseShape;
use crate::error::SchemeError;
use crate::packing::{packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// A query to a dense table. It does not reveal the number of the cell.
#[derive(Clone, Debug)]
pub struct DenseQuery {
    /// The bodies of an encrypted unit vector over the rows, the highest 28 bits of each.
    pub(crate) words: Vec<u32>,
    /// Bodies of the keys that switch from `sigma(z)` to `z`, for `X -> X^5` and for `X -> X^-1`.
    pub(crate) rotation: Poly,
    pub(crate) conjugation: Poly,
    /// The key that switches from `z` to the client's lasting secret.
    pub(crate) switch: (Seed, Poly),
    /// The bits that select the group and the place.
    pub(crate) selection: (Seed, Poly),
}

impl DenseQuery {
    /// Bytes of a query to a table of a shape.
    pub fn byte_len(parameters: &PirParameters, shape: DenseShape) -> usize {
        let poly = parameters.ring().residue_bytes(parameters.ring().basis());
        packed_bytes(shape.rows, QUERY_BITS) + 4 * poly + 2 * size_of::<Seed>()
    }

    /// Serialises the query to [`DenseQuery::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let mut bytes = packed(&self.words, QUERY_BITS);
        bytes.extend(self.switch.0.0);
        bytes.extend(self.selection.0.0);
        for poly in [&self.rotation, &self.conjugation, &self.switch.1, &self.selection.1] {
            parameters.ring().write_residues(poly, &mut bytes);
        }
        bytes
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, shape: DenseShape, bytes: &[u8]) -> Result<Self, SchemeError> {
        let ring = parameters.ring();
        let needed = Self::byte_len(parameters, shape);
        let wrong = || SchemeError::format("dense query", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        if bytes.len() != needed {
            return Err(wrong());
        }
        let (words, rest) = bytes.split_at(packed_bytes(shape.rows, QUERY_BITS));
        let unused = || SchemeError::format("dense query", "bits that are not used", "zeros there");
        let words = unpacked(words, QUERY_BITS, shape.rows).ok_or_else(unused)?;
        let (switch, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (selection, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let polys = rest.chunks_exact(ring.residue_bytes(ring.basis()));
        let read = |bytes| ring.read_residues(bytes, ring.basis(), Domain::Evaluation);
        let polys: Vec<Poly> = polys.map(read).collect::<Result<_, _>>()?;
        let [rotation, conjugation, switch_body, bits]: [Poly; 4] = polys.try_into().map_err(|_| wrong())?;
        let (switch, selection) = ((Seed(*switch), switch_body), (Seed(*selection), bits));
        Ok(DenseQuery { words, rotation, conjugation, switch, selection })
    }
}
