//! Checks of scales, and constants rounded to a scale.

use num_complex::Complex64;

use crate::error::CkksError;

/// Relative difference up to which two scales count as equal. The resulting error is far below the noise of any
/// encryption.
pub const SCALE_TOLERANCE: f64 = 1e-12;

/// Checks that two scales are equal up to [`SCALE_TOLERANCE`].
pub(crate) fn check_scales(operation: &'static str, needed: f64, found: f64) -> Result<(), CkksError> {
    if (found / needed - 1.0).abs() < SCALE_TOLERANCE {
        Ok(())
    } else {
        Err(CkksError::Scale { operation, found, needed })
    }
}

/// Checks that a scale is a positive, finite number.
pub(crate) fn check_scale(operation: &'static str, scale: f64) -> Result<(), CkksError> {
    if scale > 0.0 && scale.is_finite() {
        return Ok(());
    }
    Err(CkksError::Value { operation, index: 0, needed: "a positive, finite scale" })
}

/// The Gaussian integer nearest to `constant * factor`.
pub(crate) fn round_constant(
    operation: &'static str,
    constant: Complex64,
    factor: f64,
    real: bool,
) -> Result<(i128, i128), CkksError> {
    let scaled = constant * factor;
    let fits = |x: f64| x.is_finite() && x.abs() < 2f64.powi(126);
    if !fits(scaled.re) || !fits(scaled.im) || (real && constant.im != 0.0) {
        let needed = "a finite number that fits its scale, real in the conjugate-invariant ring";
        return Err(CkksError::Value { operation, index: 0, needed });
    }
    Ok((scaled.re.round() as i128, scaled.im.round() as i128))
}
