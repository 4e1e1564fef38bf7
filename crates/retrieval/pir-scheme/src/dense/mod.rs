//! Retrieval from dense tables: a byte of table and half a byte of packings for each byte of data (a byte of them for
//! [`DenseShape::wide`], whose queries are shorter), and larger queries.
//!
//! A table has a row of bytes for each word of a query. The first step multiplies it with the query, modulo 2^32, at
//! the speed of memory, as in SimplePIR (Henzinger et al., USENIX Security 2023). Its results are LWE ciphertexts whose
//! masks depend on the table and on public randomness alone, so clients need not download them: the service packs the
//! ciphertexts into RLWE ciphertexts (Mahdavi et al., "InsPIRe", 2025). All work on masks is done when the table is
//! built ([`DenseTable`]), and a query pays for the bodies only. Last, encrypted bits select one of the packed
//! ciphertexts and a place in it, as in packed queries ([`crate::Mode::Packed`]), with the same keys.
//!
//! 1. The client draws a fresh secret `z` for each query. Masks are public and the same for all clients of a database
//!    ([`MaskSeed`]), so a secret must not be used twice. The words are bodies of RLWE ciphertexts of a unit vector
//!    over the rows, rounded.
//! 2. The sum over rows gives for each column `l` of a group of `n` columns a body and a mask `m_l`, a polynomial: the
//!    constant coefficient of `m_l z` is the mask's share of the phase.
//! 3. Packing: `sum_l X^l const(m_l z)` is the sum over all automorphisms of `1/n sum_l X^l sigma(m_l) sigma(z)`. A
//!    chain of key switches, from `sigma^i(z)` to `sigma^(i-1)(z)`, brings all terms under `z`. All of them use images
//!    of one key. A last switch goes to the client's lasting secret.
//! 4. Selection of the group and of the place, rounding.
//!
//! All but the rounding is a sum over parts of the table, up to noise: over ranges of rows, because the sums of the
//! first step are; and over ranges of groups, because a selection among a part of the groups gives an encryption of
//! zero if the group is not among them. So each shard of a table computes steps 2 to 4 without rounding on its part
//! ([`partial_answer`]), and whoever has the partial responses of all shards adds and rounds them
//! ([`DenseResponse::merged`]). That takes no keys and no data.
//!
//! The words of all queries have the same public masks, because packings are made for them. They are expanded from a
//! seed of the database (`dense::MaskSeed`), so that work on the masks of one database is of no use against the queries
//! to another one. The client takes the seed from the service; the documentation of `MaskSeed` says why a dishonest
//! service gains nothing by its choice. Tables without a seed have the constant that earlier releases used for all.
//!
//! A dense table can be cut into parts (`dense::DenseSplit`): ranges of its groups of columns, and of its rows. The
//! first step is a sum over rows. A selection among some of the groups gives an encryption of zero if the record is in
//! another group. So the partial responses of all parts add up to the response, before it is rounded. Each range of
//! rows adds the noise of a packing, and each part adds the noise of its selections. `DenseSplit::new` refuses splits
//! whose responses would be wrong once in 2^40, or be taken for damaged ones. Groups are cut first: each part needs a
//! packing for each of its groups, however few rows it has, so cutting rows multiplies the memory and the time of
//! packings.

mod answer;
mod client;
mod failure;
mod masks;
mod packing;
mod part;
mod partial;
mod query;
mod response;
mod rounded;
pub mod scores;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use answer::{answer, answer_in_phases, answer_memory_bytes, partial_answer};
pub use failure::log2_failure;
pub use masks::MaskSeed;
pub use packing::{LastFactors, Packing, PackingView};
pub use part::DensePart;
pub use partial::PartialResponse;
pub use query::{DenseQuery, RowsQuery};
pub use response::DenseResponse;
pub use shape::{CellPlace, DenseShape, DenseSplit};
pub use table::DenseTable;
pub use view::{CellChange, GroupView};

use unspoken_gsw::GadgetLiteral;
use unspoken_ring::DigitGadget;

use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// Version of the order of the bytes of a table, and of its packings.
pub const TABLE_FORMAT: u32 = 1;

/// Versions of queries to tables, without and with public masks of their own ([`MaskSeed`]), and of the mapping from
/// records to tables: they rise with [`TABLE_FORMAT`]. Releases that know no such queries refuse them.
pub const QUERY_FORMATS: [u32; 2] = [3, 4];

/// Bits of data in each coefficient.
const PLAINTEXT_BITS: u32 = 8;

/// Most bits of the words of a query.
const QUERY_BITS: u32 = 28;

/// Gadget of the switches of a packing: one digit. More digits would make tables larger and queries slower.
const PACKING: GadgetLiteral = GadgetLiteral { log2_base: 25, levels: 1 };

/// Gadget of the encrypted bits that select a group and a place. Their noise is small beside the noise of the packing.
const SELECTION: GadgetLiteral = GadgetLiteral { log2_base: 7, levels: 3 };

/// Bits that the components of a response are rounded to.
const MASK_BITS: u32 = 17;
const BODY_BITS: u32 = 12;

/// The gadget of the switches of a packing.
fn packing_gadget(parameters: &PirParameters) -> Result<DigitGadget, SchemeError> {
    Ok(parameters.ring().gadget(PACKING)?)
}

/// The gadgets of the bits that select a group and a place, the lowest first.
fn selection_gadgets(parameters: &PirParameters, shape: DenseShape) -> Result<Vec<DigitGadget>, SchemeError> {
    Ok(vec![selection_gadget(parameters)?; shape.selection_bits(parameters) as usize])
}

/// The gadget of the selecting bits.
fn selection_gadget(parameters: &PirParameters) -> Result<DigitGadget, SchemeError> {
    Ok(parameters.ring().gadget(SELECTION)?)
}
