//! Tables of vectors, and the error of scores.

use std::ops::Range;

use unspoken_gsw::Noise;

use crate::dense::failure::{packing_noise, rows_noise_of};
use crate::dense::rounded::Rounding;
use crate::dense::shape::{MAX_GROUP_BITS, MAX_ROWS};
use crate::dense::{DensePart, DenseShape, MaskSeed, QUERY_BITS};
use crate::error::{SchemeError, range};
use crate::parameters::PirParameters;

/// What responses are rounded to: the error of it is smaller than the error of the packing.
const MASK_BITS: u32 = 19;
const BODY_BITS: u32 = 14;

/// Part of the modulus that a score of the largest norm has. Noise has the rest, so scores do not wrap.
pub(super) const RANGE: f64 = 15.0 / 32.0;

/// The shape of a table of vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreShape {
    width: usize,
    blocks: usize,
    groups: usize,
    norm: u32,
    masks: MaskSeed,
}

impl ScoreShape {
    /// Most groups of columns.
    pub const MAX_GROUPS: usize = 1 << MAX_GROUP_BITS;

    /// A table for vectors of `width` coordinates from -127 to 127 whose Euclidean norm is at most `norm`: `blocks`
    /// blocks above each other, and `groups` groups of columns beside each other.
    ///
    /// # Errors
    /// If a number is zero, there are too many rows or groups, or no vector has this norm.
    pub fn new([width, blocks, groups]: [usize; 3], norm: u32, masks: MaskSeed) -> Result<Self, SchemeError> {
        let check = |what, found: usize, most: u64| match (1..=most).contains(&(found as u64)) {
            true => Ok(()),
            false => Err(range(what, found as u64, format!("1 to {most}"))),
        };
        check("lay out a table of vectors: coordinates of a vector", width, MAX_ROWS)?;
        check("lay out a table of vectors: blocks of rows", blocks, MAX_ROWS / width as u64)?;
        check("lay out a table of vectors: groups of columns", groups, Self::MAX_GROUPS as u64)?;
        // The column of the check has a one in each row at least.
        let least = (width as f64).sqrt();
        let most = (127.0 * least).ceil();
        if !(least..=most).contains(&f64::from(norm)) {
            let needed = format!("{} to {most}: coordinates are from -127 to 127", least.ceil());
            return Err(range("lay out a table of vectors: largest norm", norm.into(), needed));
        }
        Ok(ScoreShape { width, blocks, groups, norm, masks })
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Blocks of rows.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Groups of columns: clusters of a block.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The largest Euclidean norm of a vector.
    pub fn norm(&self) -> u32 {
        self.norm
    }

    /// The seed of the public masks of queries.
    pub fn masks(&self) -> MaskSeed {
        self.masks
    }

    /// Number of rows, and of words of a query.
    pub fn rows(&self) -> usize {
        self.width * self.blocks
    }

    /// Documents of a cluster, at most: all columns of a group but one.
    pub fn cluster_documents(parameters: &PirParameters) -> usize {
        parameters.ring().degree() - 1
    }

    /// The coordinate of each row in the last column of a cluster.
    pub fn check_coordinate(&self) -> i8 {
        // At least one and at most 127, as the norm is.
        (f64::from(self.norm) / (self.width as f64).sqrt()) as i8
    }

    /// Some groups of the table, as a part of a dense table with one cell in a row of a group: byte `i` of the cell is
    /// the coordinate of the document in column `i`.
    ///
    /// # Errors
    /// If there are no such groups.
    pub fn part(&self, parameters: &PirParameters, groups: Range<usize>) -> Result<DensePart, SchemeError> {
        if groups.end > self.groups {
            let needed = format!("at most {}", self.groups);
            return Err(range("take a part of a table of vectors: end of the groups", groups.end as u64, needed));
        }
        let group_bits = self.groups.next_power_of_two().ilog2();
        let shape = DenseShape {
            cells: (self.rows() as u64) << group_bits,
            cell_bytes: parameters.ring().degree(),
            rows: self.rows(),
            group_bits,
            masks: Some(self.masks),
        };
        DensePart::new(parameters, shape, 0..self.rows(), groups)
    }

    /// Predicted standard deviation of a score, as a part of the largest norm. The noise of the rows is that of a
    /// column whose vectors all have the largest norm.
    ///
    /// # Errors
    /// If a gadget does not fit the ring, which does not happen with the named parameters.
    pub fn deviation(&self, parameters: &PirParameters) -> Result<f64, SchemeError> {
        let squares = self.blocks as f64 * f64::from(self.norm).powi(2);
        let body = Noise((-2.0 * f64::from(BODY_BITS)).exp2() / 12.0);
        let rounded = Noise::switching(parameters.ring().degree(), f64::from(MASK_BITS)).plus(body);
        let noise = rows_noise_of(parameters, QUERY_BITS, squares).plus(packing_noise(parameters)?).plus(rounded);
        Ok(noise.0.sqrt() / RANGE)
    }

    pub(super) fn rounding() -> Rounding {
        Rounding { mask_bits: MASK_BITS, body_bits: BODY_BITS, step: 1 }
    }
}
