//! The noise of responses from dense tables, the probability that one is wrong, and shapes that keep it low.

use unspoken_gsw::Noise;

use crate::dense::shape::{DenseShape, DenseSplit, MAX_GROUP_BITS, MAX_ROWS, ROWS, WIDE_ROWS};
use crate::dense::{BODY_BITS, MASK_BITS, PLAINTEXT_BITS, packing_gadget, selection_gadget};
use crate::error::{SchemeError, range};
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters};

impl DenseShape {
    /// The shape for a number of cells, with the masks that databases of earlier releases share.
    ///
    /// # Errors
    /// If there are no cells or too many, or the bytes of a cell are not a power of two from 32 to the ring's degree.
    pub fn new(parameters: &PirParameters, cells: u64, cell_bytes: usize) -> Result<Self, SchemeError> {
        Self::of_rows(parameters, ROWS, cells, cell_bytes)
    }

    /// As [`DenseShape::new`], with half as many rows and twice as many groups: shorter queries, and twice as many
    /// packings.
    ///
    /// # Errors
    /// As for [`DenseShape::new`].
    pub fn wide(parameters: &PirParameters, cells: u64, cell_bytes: usize) -> Result<Self, SchemeError> {
        Self::of_rows(parameters, WIDE_ROWS, cells, cell_bytes)
    }

    /// The shape with at most `planned` rows, if there are groups enough.
    fn of_rows(parameters: &PirParameters, planned: u64, cells: u64, cell_bytes: usize) -> Result<Self, SchemeError> {
        let degree = parameters.ring().degree();
        if !cell_bytes.is_power_of_two() || !(Self::MIN_CELL_BYTES..=degree).contains(&cell_bytes) {
            let needed = format!("a power of two from {} to {degree}", Self::MIN_CELL_BYTES);
            return Err(range("lay out a dense table: bytes of a cell", cell_bytes as u64, needed));
        }
        let places = (degree / cell_bytes) as u64;
        let all_rows = cells.div_ceil(places);
        let group_bits = all_rows.div_ceil(planned).next_power_of_two().ilog2().min(MAX_GROUP_BITS);
        let rows = all_rows.div_ceil(1 << group_bits);
        if cells == 0 || rows > MAX_ROWS {
            let most = (MAX_ROWS << MAX_GROUP_BITS) * places;
            return Err(range("lay out a dense table: cells", cells, format!("1 to {most}")));
        }
        let shape = DenseShape { cells, cell_bytes, rows: rows as usize, group_bits, masks: None };
        check_failure(parameters, DenseSplit::whole(shape))?;
        Ok(shape)
    }
}

/// Predicted noise of a response that is added from the parts of a table, as a fraction of the modulus, for the worst
/// content that was chosen without regard to the public masks. Each range of rows has a packing of its own, and each
/// part its selections.
pub(super) fn response_noise(parameters: &PirParameters, split: DenseSplit) -> Result<Noise, SchemeError> {
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

/// `log2` of the probability that the response to a query, added from the parts of a table, is wrong.
///
/// # Errors
/// If a gadget does not fit the ring, which does not happen with the named parameters.
pub fn log2_failure(parameters: &PirParameters, split: DenseSplit) -> Result<f64, SchemeError> {
    let bound = (-f64::from(PLAINTEXT_BITS + 1)).exp2();
    Ok(unspoken_gsw::log2_failure(response_noise(parameters, split)?, bound, split.shape.cell_bytes as f64))
}

/// Checks that queries fail at most once in 2^40.
pub(super) fn check_failure(parameters: &PirParameters, split: DenseSplit) -> Result<(), SchemeError> {
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
pub(super) fn check_readable(parameters: &PirParameters, split: DenseSplit) -> Result<(), SchemeError> {
    let found = response_noise(parameters, split)?.times(6.0);
    match found <= unreadable(parameters, split.shape)? {
        true => Ok(()),
        false => {
            let needed = "so few that clients do not reject the answers as too noisy";
            Err(range("cut a dense table: shards", split.parts() as u64, needed))
        }
    }
}

/// Noise of the sums over all rows, for bytes of this mean square.
pub(super) fn rows_noise(parameters: &PirParameters, shape: DenseShape, bytes_square: f64) -> Noise {
    rows_noise_of(parameters, shape.word_bits(), shape.rows as f64 * bytes_square)
}

/// Noise of the sum over the rows of a column, for words of a number of bits and bytes whose squares have this sum.
pub(super) fn rows_noise_of(parameters: &PirParameters, word_bits: u32, squares: f64) -> Noise {
    let rounding = Noise((-2.0 * f64::from(word_bits)).exp2() / 12.0);
    Noise::fresh(parameters.ring()).plus(rounding).times(squares)
}

/// Noise that packing the sums of a group adds.
pub(super) fn packing_noise(parameters: &PirParameters) -> Result<Noise, SchemeError> {
    let ring = parameters.ring();
    let switch = Noise::product(ring, packing_gadget(parameters)?, 1, Noise::fresh(ring));
    Ok(switch.times(ring.degree() as f64))
}

/// Noise above which a response is rejected: five standard deviations, and at most a third of the noise of a response
/// that was not computed from the query, which is uniform. Noise varies from response to response, because the errors
/// of rounding the mask multiply a binary secret, whose mean is one half: a quarter of the noise is common to all
/// coefficients. It does not depend on how the table is cut, which clients do not know.
pub(super) fn unreadable(parameters: &PirParameters, shape: DenseShape) -> Result<Noise, SchemeError> {
    let uniform = Noise((-2.0 * f64::from(PLAINTEXT_BITS)).exp2() / 12.0);
    let planned = response_noise(parameters, DenseSplit::whole(shape))?.times(25.0);
    let most = uniform.times(1.0 / 3.0);
    Ok(if planned < most { planned } else { most })
}
