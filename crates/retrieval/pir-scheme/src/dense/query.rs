//! Dense queries as they are sent.

use unspoken_ring::{Domain, Poly, Seed};

use crate::dense::QUERY_BITS;
use crate::dense::shape::DenseShape;
use crate::error::SchemeError;
use crate::packing::{packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// An encrypted vector over the rows of a table, under a secret of its own, and the keys that bring the packed sums of
/// products with it to the client's lasting secret.
#[derive(Clone, Debug)]
pub struct RowsQuery {
    /// The bodies of the encrypted vector, the highest 28 bits of each.
    pub(crate) words: Vec<u32>,
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
    pub(crate) selection: (Seed, Poly),
}

impl RowsQuery {
    /// Bytes of a query to a table of a number of rows.
    pub fn byte_len(parameters: &PirParameters, rows: usize) -> usize {
        byte_len::<1>(parameters, rows)
    }

    /// Serialises the query to [`RowsQuery::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let polys = [&self.rotation, &self.conjugation, &self.switch.1];
        write(parameters, &self.words, [self.switch.0], &polys)
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, rows: usize, bytes: &[u8]) -> Result<Self, SchemeError> {
        let (words, [seed], polys) = read(parameters, rows, bytes)?;
        let [rotation, conjugation, switch]: [Poly; 3] = polys.try_into().expect("two more than seeds");
        Ok(RowsQuery { words, rotation, conjugation, switch: (seed, switch) })
    }
}

impl DenseQuery {
    /// Bytes of a query to a table of a shape.
    pub fn byte_len(parameters: &PirParameters, shape: DenseShape) -> usize {
        byte_len::<2>(parameters, shape.rows)
    }

    /// Serialises the query to [`DenseQuery::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let RowsQuery { words, rotation, conjugation, switch } = &self.rows;
        let polys = [rotation, conjugation, &switch.1, &self.selection.1];
        write(parameters, words, [switch.0, self.selection.0], &polys)
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, shape: DenseShape, bytes: &[u8]) -> Result<Self, SchemeError> {
        let (words, [of_switch, of_bits], polys) = read(parameters, shape.rows, bytes)?;
        let [rotation, conjugation, switch, bits]: [Poly; 4] = polys.try_into().expect("two more than seeds");
        let rows = RowsQuery { words, rotation, conjugation, switch: (of_switch, switch) };
        Ok(DenseQuery { rows, selection: (of_bits, bits) })
    }
}

/// Bytes of words, seeds, and two polynomials more than seeds: the masks of two of them are public.
fn byte_len<const SEEDS: usize>(parameters: &PirParameters, rows: usize) -> usize {
    let poly = parameters.ring().residue_bytes(parameters.ring().basis());
    packed_bytes(rows, QUERY_BITS) + SEEDS * size_of::<Seed>() + (SEEDS + 2) * poly
}

fn write<const SEEDS: usize>(
    parameters: &PirParameters,
    words: &[u32],
    seeds: [Seed; SEEDS],
    polys: &[&Poly],
) -> Vec<u8> {
    let mut bytes = packed(words, QUERY_BITS);
    seeds.iter().for_each(|seed| bytes.extend(seed.0));
    polys.iter().for_each(|poly| parameters.ring().write_residues(poly, &mut bytes));
    bytes
}

/// Words, seeds, and two polynomials more than seeds.
type Parts<const SEEDS: usize> = (Vec<u32>, [Seed; SEEDS], Vec<Poly>);

/// The inverse of [`write()`], from untrusted bytes.
fn read<const SEEDS: usize>(
    parameters: &PirParameters,
    rows: usize,
    bytes: &[u8],
) -> Result<Parts<SEEDS>, SchemeError> {
    let ring = parameters.ring();
    let needed = byte_len::<SEEDS>(parameters, rows);
    if bytes.len() != needed {
        return Err(SchemeError::format("dense query", format!("{} bytes", bytes.len()), format!("{needed} bytes")));
    }
    let (words, rest) = bytes.split_at(packed_bytes(rows, QUERY_BITS));
    let unused = || SchemeError::format("dense query", "bits that are not used", "zeros there");
    let words = unpacked(words, QUERY_BITS, rows).ok_or_else(unused)?;
    let (seeds, polys) = rest.split_at(SEEDS * size_of::<Seed>());
    let seeds = std::array::from_fn(|number| {
        let start = number * size_of::<Seed>();
        Seed(seeds[start..start + size_of::<Seed>()].try_into().expect("the length of a seed"))
    });
    let read = |bytes| ring.read_residues(bytes, ring.basis(), Domain::Evaluation);
    let polys = polys.chunks_exact(ring.residue_bytes(ring.basis())).map(read).collect::<Result<_, _>>()?;
    Ok((words, seeds, polys))
}
