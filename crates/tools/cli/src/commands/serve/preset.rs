//! Parameter sets of the served applications.

use unspoken_ckks::{CkksParameters, Preset};

/// Default preset of text classifiers.
pub const DEFAULT_PRESET: &str = "n15_depth8_scale50";

/// Default preset for short compact queries.
pub const SHORT_COMPACT_PRESET: &str = "n16_query_depth11_scale40";

/// Default preset for full compact queries.
pub const COMPACT_PRESET: &str = "n16_boot_depth9_scale50";

/// Default preset for images of digits: of the presets with five levels, the one with the fewest bytes.
pub const DIGITS_PRESET: &str = "n14_real_depth8_scale30";

/// Default preset for language models: many levels between two bootstraps.
pub const LLAMA_PRESET: &str = "n16_boot_depth14_scale40";

/// A preset by name; presets for tests are refused.
pub fn secure(preset: &str) -> anyhow::Result<CkksParameters> {
    let parameters = Preset::find(preset)?.build()?;
    anyhow::ensure!(!parameters.rlwe().is_insecure(), "preset {preset} is for tests; choose a secure one");
    Ok(parameters)
}
