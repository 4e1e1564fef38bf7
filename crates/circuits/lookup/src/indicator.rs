//! The one-hot vector of the baseline: an encrypted indicator per column.

use unspoken_ckks::{Arithmetic, CkksError, Complex64};

use crate::plan::indicator_squarings;

/// The encrypted indicator of `x = k/p`: near 1 if `x = k/p`, and near 0 at all other multiples of `1/p` in `[0, 1)`.
///
/// # Errors
/// If levels or the relinearisation key are missing.
pub fn indicator<A: Arithmetic>(
    arithmetic: &A,
    x: &A::Vector,
    k: usize,
    columns: usize,
) -> Result<A::Vector, CkksError> {
    let shifted = arithmetic.add_constant(x, Complex64::from(-(k as f64) / columns as f64))?;
    near_zero(arithmetic, &shifted, columns)
}

/// `(1 - y^2)^(2^r)`: near 1 at `y = 0`, and near 0 at all other multiples of `1/p` up to 1.
pub(crate) fn near_zero<A: Arithmetic>(arithmetic: &A, y: &A::Vector, columns: usize) -> Result<A::Vector, CkksError> {
    let square = arithmetic.multiply(y, y)?;
    let negated = arithmetic.mul_constant(&square, Complex64::from(-1.0), arithmetic.scale(&square))?;
    let mut value = arithmetic.add_constant(&negated, Complex64::from(1.0))?;
    for _ in 0..indicator_squarings(columns) {
        value = arithmetic.multiply(&value, &value)?;
    }
    Ok(value)
}
