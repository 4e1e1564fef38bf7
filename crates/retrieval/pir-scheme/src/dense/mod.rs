//! Retrieval from dense tables: a byte of table and half a byte of packings for each byte of data, and larger queries.
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

mod answer;
mod client;
mod masks;
mod packing;
mod part;
mod partial;
mod query;
mod response;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use answer::{answer, answer_in_phases, answer_memory_bytes, partial_answer};
pub use masks::MaskSeed;
pub use packing::{LastFactors, Packing, PackingView};
pub use part::{DensePart, DenseSplit};
pub use partial::PartialResponse;
pub use query::DenseQuery;
pub use response::DenseResponse;
pub use shape::{CellPlace, DenseShape};
pub use table::DenseTable;
pub use view::{CellChange, GroupView};

use unspoken_gsw::{GadgetLiteral, Noise};
use unspoken_ring::DigitGadget;

use crate::error::{SchemeError, range};
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters};

/// Version of the order of the bytes of a table, and of its packings.
pub const TABLE_FORMAT: u32 = 1;

/// Version of queries to tables that have public masks of their own ([`MaskSeed`]); those to tables without have
/// [`TABLE_FORMAT`]. Releases that know no such tables refuse it.
pub const OWN_MASKS_FORMAT: u32 = 2;

/// Bits of data in each coefficient.
const PLAINTEXT_BITS: u32 = 8;

/// Bits of the words of a query.
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

/// Predicted noise of a response that is added from the parts of a table, as a fraction of the modulus, for the worst
/// content that was chosen without regard to the public masks. Each range of rows has a packing of its own, and each
/// part its selections.
fn response_noise(parameters: &PirParameters, split: DenseSplit) -> Result<Noise, SchemeError> {
    let (ring, shape) = (parameters.ring(), split.shape);
    let most = f64::from(1 << (PLAINTEXT_BITS - 1));
    let packed =
        rows_noise(parameters, shape, most * most).plus(packing_noise(parameters)?.times(split.row_parts as f64));
    let product = Noise::rgsw_product(parameters.bootstrap(), selection_gadget(parameters)?);
    let selected = product.times(f64::from(shape.selection_bits(parameters)) * split.parts() as f64);
    let body = Noise((-2.0 * f64::from(BODY_BITS)).exp2() / 12.0);
    let rounded = Noise::switching(ring.degree(), f64::from(MASK_BITS)).plus(body);
    Ok(packed.plus(selected).plus(rounded))
}

/// Noise of the sums over all rows, for bytes of this mean square.
fn rows_noise(parameters: &PirParameters, shape: DenseShape, bytes_square: f64) -> Noise {
    let rounding = Noise((-2.0 * f64::from(QUERY_BITS)).exp2() / 12.0);
    Noise::fresh(parameters.ring()).plus(rounding).times(shape.rows as f64 * bytes_square)
}

/// Noise that packing the sums of a group adds.
fn packing_noise(parameters: &PirParameters) -> Result<Noise, SchemeError> {
    let ring = parameters.ring();
    let switch = Noise::product(ring, packing_gadget(parameters)?, 1, Noise::fresh(ring));
    Ok(switch.times(ring.degree() as f64))
}

/// `log2` of the probability that the response to a query, added from the parts of a table, is wrong.
///
/// # Errors
/// If a gadget does not fit the ring, which does not happen with the named parameters.
pub fn log2_failure(parameters: &PirParameters, split: DenseSplit) -> Result<f64, SchemeError> {
    let bound = (-f64::from(PLAINTEXT_BITS + 1)).exp2();
    Ok(unspoken_gsw::log2_failure(response_noise(parameters, split)?, bound, split.shape.cell_bytes as f64))
}

/// Noise above which a response is rejected: five standard deviations, and at most a third of the noise of a response
/// that was not computed from the query, which is uniform. Noise varies from response to response, because the errors
/// of rounding the mask multiply a binary secret, whose mean is one half: a quarter of the noise is common to all
/// coefficients. It does not depend on how the table is cut, which clients do not know.
fn unreadable(parameters: &PirParameters, shape: DenseShape) -> Result<Noise, SchemeError> {
    let uniform = Noise((-2.0 * f64::from(PLAINTEXT_BITS)).exp2() / 12.0);
    let planned = response_noise(parameters, DenseSplit::whole(shape))?.times(25.0);
    let most = uniform.times(1.0 / 3.0);
    Ok(if planned < most { planned } else { most })
}

/// Checks that queries fail at most once in 2^40.
fn check_failure(parameters: &PirParameters, split: DenseSplit) -> Result<(), SchemeError> {
    match log2_failure(parameters, split)? <= MAX_LOG2_FAILURE {
        true => Ok(()),
        false => {
            let needed = format!("so few that a query fails at most once in 2^{:.0}", -MAX_LOG2_FAILURE);
            let (shape, parts) = (split.shape, split.parts());
            Err(match parts {
                1 => range("lay out a dense table: rows", shape.rows as u64, needed),
                _ => range("cut a dense table: shards", parts as u64, needed),
            })
        }
    }
}

/// Checks that clients do not reject the responses that are added from the parts of a table: their noise is at most a
/// sixth of the noise that is rejected. The noise of 32 coefficients exceeds that once in 2^75.
fn check_readable(parameters: &PirParameters, split: DenseSplit) -> Result<(), SchemeError> {
    let found = response_noise(parameters, split)?.times(6.0);
    match found <= unreadable(parameters, split.shape)? {
        true => Ok(()),
        false => {
            let needed = "so few that clients do not reject the answers as too noisy";
            Err(range("cut a dense table: shards", split.parts() as u64, needed))
        }
    }
}
