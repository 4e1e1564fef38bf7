//! Noise on results that are shared.
//!
//! A decrypted number is the exact number plus an error that depends on the secret key. `MatrixClient::share` and
//! `Secret::decrypt_to_share` add Gaussian noise of standard deviation `2^bits` times a bound of the error, and round;
//! `SharingNoise` in `unspoken-protocol` states the guarantee. The bound is `Program::precision`; a server computes it
//! when it starts and sends it to its clients. The bound holds for honest servers, and with high probability. The noise
//! is no defence against a server that returns wrong ciphertexts and then sees what they decrypt to.

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
