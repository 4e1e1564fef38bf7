//! Retrieval from dense tables: a byte of table and half a byte of packings for each byte of data, and larger queries.
//!
//! A table has a row of bytes for each word of a query. The first step multiplies it with the query, modulo 2^32, at
//! the speed of memory, as in SimplePIR (Henzinger et al., USENIX Security 2023). Its results are LWE ciphertexts whose
//! masks depend on the table and on public randomness alone, so clients need not download them: the service packs the
//! ciphertexts into RLWE ciphertexts (Mahdavi et al., "InsPIRe", 2025). All work on masks is done when the table is
//! built ([`DenseTable`]), and a query pays for the bodies only. Last, encrypted bits select one of the packed
//! ciphertexts and a place in it, as in packed queries ([`crate::Mode::Packed`]), with the same keys.
//!
//! 1. The client draws a fresh secret `z` for each query. Masks are public and the same for all clients, so a secret
//!    must not be used twice. The words are bodies of RLWE ciphertexts of a unit vector over the rows, rounded.
//! 2. The sum over rows gives for each column `l` of a group of `n` columns a body and a mask `m_l`, a polynomial: the
//!    constant coefficient of `m_l z` is the mask's share of the phase.
//! 3. Packing: `sum_l X^l const(m_l z)` is the sum over all automorphisms of `1/n sum_l X^l sigma(m_l) sigma(z)`. A
//!    chain of key switches, from `sigma^i(z)` to `sigma^(i-1)(z)`, brings all terms under `z`. All of them use images
//!    of one key. A last switch goes to the client's lasting secret.
//! 4. Selection of the group and of the place, rounding.

mod answer;
mod client;
mod packing;
mod query;
mod response;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use answer::{DensePhaseTimes, answer, answer_memory_bytes};
pub use packing::{LastFactors, Packing, PackingView};
pub use query::DenseQuery;
pub use response::DenseResponse;
pub use shape::{CellPlace, DenseShape};
pub use table::DenseTable;
pub use view::{CellChange, GroupView};

use unspoken_gsw::{GadgetLiteral, Noise};
use unspoken_ring::{DigitGadget, Seed, derive_bytes};

use crate::error::{PirError, range};
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters};

/// Version of the order of the bytes of a table, and of its packings.
pub const TABLE_FORMAT: u32 = 1;

/// Bits of data in each coefficient.
const PLAINTEXT_BITS: u32 = 8;

/// Bits of the words of a query.
const QUERY_BITS: u32 = 28;

/// Gadget of the switches of a packing: one digit. More digits would make tables larger and queries slower.
const PACKING: GadgetLiteral = GadgetLiteral { log2_base: 25, levels: 1 };

/// Bits that the components of a response are rounded to.
const MASK_BITS: u32 = 17;
const BODY_BITS: u32 = 12;

/// Streams of the public seed: the masks of the key for `X -> X^5`, of the key for `X -> X^-1`, and from here on those
/// of blocks of rows.
const ROTATION_STREAM: u32 = 0;
const CONJUGATION_STREAM: u32 = 1;
const FIRST_ROW_STREAM: u32 = 2;

/// Seed of the masks that all clients share. It is public, and the same for all services, so that keys and queries do
/// not depend on a service. An attacker could spend a precomputation on these masks once, for all queries.
fn public_seed(parameters: &PirParameters) -> Seed {
    let mut seed = Seed([0; 32]);
    derive_bytes("unspoken 2026 masks of dense retrieval tables", &[&parameters.fingerprint()], &mut seed.0);
    seed
}

/// The gadget of the switches of a packing.
fn packing_gadget(parameters: &PirParameters) -> Result<DigitGadget, PirError> {
    Ok(parameters.ring().gadget(PACKING)?)
}

/// Predicted noise of a response, as a fraction of the modulus, for the worst content of the table that was chosen
/// without regard to the public masks.
fn response_noise(parameters: &PirParameters, shape: DenseShape) -> Result<Noise, PirError> {
    let ring = parameters.ring();
    let most = f64::from(1 << (PLAINTEXT_BITS - 1));
    let packed = packed_noise(parameters, shape, most * most)?;
    let selected =
        Noise::bootstrapped_product(parameters.bootstrap()).times(f64::from(shape.selection_bits(parameters)));
    let body = Noise((-2.0 * f64::from(BODY_BITS)).exp2() / 12.0);
    let rounded = Noise::switching(ring.degree(), f64::from(MASK_BITS)).plus(body);
    Ok(packed.plus(selected).plus(rounded))
}

/// Noise of a packed ciphertext, for bytes of this mean square.
fn packed_noise(parameters: &PirParameters, shape: DenseShape, bytes_square: f64) -> Result<Noise, PirError> {
    let ring = parameters.ring();
    let rounding = Noise((-2.0 * f64::from(QUERY_BITS)).exp2() / 12.0);
    let rows = Noise::fresh(ring).plus(rounding).times(shape.rows as f64 * bytes_square);
    let switch = Noise::product(ring, packing_gadget(parameters)?, 1, Noise::fresh(ring));
    Ok(rows.plus(switch.times(ring.degree() as f64)))
}

/// `log2` of the probability that the response to a query is wrong.
///
/// # Errors
/// If a gadget does not fit the ring, which does not happen with the named parameters.
pub fn log2_failure(parameters: &PirParameters, shape: DenseShape) -> Result<f64, PirError> {
    let bound = (-f64::from(PLAINTEXT_BITS + 1)).exp2();
    Ok(unspoken_gsw::log2_failure(response_noise(parameters, shape)?, bound, shape.cell_bytes as f64))
}

/// Noise above which a response is rejected: five standard deviations, and at most a third of the noise of a response
/// that was not computed from the query, which is uniform. Noise varies from response to response, because the errors
/// of rounding the mask multiply a binary secret, whose mean is one half: a quarter of the noise is common to all
/// coefficients.
fn unreadable(parameters: &PirParameters, shape: DenseShape) -> Result<Noise, PirError> {
    let uniform = Noise((-2.0 * f64::from(PLAINTEXT_BITS)).exp2() / 12.0);
    let (planned, most) = (response_noise(parameters, shape)?.times(25.0), uniform.times(1.0 / 3.0));
    Ok(if planned < most { planned } else { most })
}

/// Checks that queries fail at most once in 2^40.
fn check_failure(parameters: &PirParameters, shape: DenseShape) -> Result<(), PirError> {
    match log2_failure(parameters, shape)? <= MAX_LOG2_FAILURE {
        true => Ok(()),
        false => {
            let needed = format!("so few that a query fails at most once in 2^{:.0}", -MAX_LOG2_FAILURE);
            Err(range("lay out a dense table: rows", shape.rows as u64, needed))
        }
    }
}
