//! Noise on results that are shared.

use ndarray::Array3;
use unspoken_protocol::SharingNoise;

use crate::error::MatrixError;

/// Adds noise to the values.
pub(crate) fn add_noise(values: &Array3<f64>, noise: &SharingNoise) -> Result<Array3<f64>, MatrixError> {
    let mut shared: Vec<f64> = values.iter().copied().collect();
    noise.add(&mut shared)?;
    Array3::from_shape_vec(values.dim(), shared)
        .map_err(|error| MatrixError::mismatch("share a result", error.to_string(), "its own shape; this is a bug"))
}
