//! The scaling of rotations in a configuration.

use serde::Deserialize;

/// `rope_scaling`, or `rope_parameters`.
#[derive(Deserialize)]
pub(super) struct JsonScaling {
    pub(super) rope_type: Option<String>,
    /// The older name.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) factor: Option<f64>,
    pub(super) low_freq_factor: Option<f64>,
    pub(super) high_freq_factor: Option<f64>,
    pub(super) original_max_position_embeddings: Option<f64>,
    pub(super) rope_theta: Option<f64>,
    pub(super) partial_rotary_factor: Option<f64>,
}
