//! Plaintext vectors that are encoded once for products with encrypted vectors.

use std::sync::OnceLock;

use num_complex::Complex64;
use unspoken_ring::{Poly, SubringPoly};

use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::parameters::CkksParameters;
use crate::scale::{check_scale, check_scales};

const OPERATION: &str = "multiply by a prepared vector";

/// A plaintext vector by which many encrypted vectors are multiplied, such as a mask or a weight. The first encrypted
/// use encodes it, and later uses share the encoding. A simulator never encodes it.
pub struct PreparedVector {
    values: Vec<Complex64>,
    level: usize,
    scale: f64,
    encoded: OnceLock<Poly>,
    /// The encoding over the extended basis, for products with undivided rotations.
    extended: OnceLock<SubringPoly>,
}

impl PreparedVector {
    /// Prepares values for products at `level`, encoded at scale `scale`. The values are repeated to fill the slots.
    ///
    /// # Errors
    /// If there are no values, or the scale is not a positive number.
    pub fn new(values: Vec<Complex64>, level: usize, scale: f64) -> Result<Self, CkksError> {
        check_scale(OPERATION, scale)?;
        if values.is_empty() {
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one value".into() });
        }
        Ok(PreparedVector { values, level, scale, encoded: OnceLock::new(), extended: OnceLock::new() })
    }

    /// The values.
    pub fn values(&self) -> &[Complex64] {
        &self.values
    }

    /// The level of its products. The other factor may be at a higher level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Bytes of memory it takes for [`sum_products`](crate::Arithmetic::sum_products), counted whether it is encoded
    /// yet or not.
    pub fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        let basis = parameters.basis(self.level);
        (parameters.ring().poly_bytes(basis) + size_of_val(self.values.as_slice())) as u64
    }

    /// The scale of its encoding. A product multiplies the scale of the other factor by it.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    pub(crate) fn encoded(&self, encoder: &Encoder) -> Result<&Poly, CkksError> {
        if let Some(encoded) = self.encoded.get() {
            return Ok(encoded);
        }
        let poly = encoder.encode_public(&self.values, self.level, self.scale)?;
        Ok(self.encoded.get_or_init(|| poly))
    }

    pub(crate) fn encoded_extended(&self, encoder: &Encoder) -> Result<&SubringPoly, CkksError> {
        if let Some(encoded) = self.extended.get() {
            return Ok(encoded);
        }
        let parameters = encoder.parameters();
        let basis = parameters.ring().switching_basis(parameters.basis(self.level));
        let poly = encoder.encode_subring(&self.values, (self.level, basis), self.scale, 1)?;
        Ok(self.extended.get_or_init(|| poly))
    }

    /// Checks every pair of a sum of products and returns the common level.
    ///
    /// # Errors
    /// If there are no pairs, they are prepared for different levels, or a level is too low.
    pub(crate) fn common_level<'a>(
        pairs: impl IntoIterator<Item = (usize, &'a PreparedVector)>,
    ) -> Result<usize, CkksError> {
        let mut common = None;
        for (level, prepared) in pairs {
            let needed = *common.get_or_insert(prepared.level);
            if prepared.level != needed {
                return Err(CkksError::Level { operation: OPERATION, found: prepared.level, needed });
            }
            if level < needed {
                return Err(CkksError::Level { operation: OPERATION, found: level, needed });
            }
        }
        let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one product".into() };
        common.ok_or_else(none)
    }
}

/// The checked shape of [`Arithmetic::rotation_products`](crate::Arithmetic::rotation_products).
pub(crate) struct RotationProducts {
    pub(crate) level: usize,
    pub(crate) scale: f64,
    pub(crate) products: usize,
}

impl RotationProducts {
    pub(crate) fn new(steps: &[i64], rows: &[Vec<(usize, &PreparedVector)>]) -> Result<Self, CkksError> {
        const OPERATION: &str = "products of rotations";
        let refuse = |found, needed: &str| CkksError::Shape { operation: OPERATION, found, needed: needed.into() };
        let first = rows.first().and_then(|row| row.first()).ok_or_else(|| refuse(0, "at least one product"))?.1;
        if rows.iter().any(Vec::is_empty) {
            return Err(refuse(0, "at least one product in every row"));
        }
        for (index, factor) in rows.iter().flatten() {
            if *index >= steps.len() {
                return Err(refuse(*index, "the index of one of the rotation steps"));
            }
            check_scales(OPERATION, first.scale, factor.scale)?;
        }
        let level = PreparedVector::common_level(rows.iter().flatten().map(|&(_, f)| (usize::MAX, f)))?;
        if level == 0 {
            return Err(CkksError::Level { operation: OPERATION, found: 0, needed: 1 });
        }
        let products = rows.iter().map(Vec::len).sum();
        Ok(RotationProducts { level, scale: first.scale, products })
    }
}
