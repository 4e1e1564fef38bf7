//! Parameter sets of what is offered.

use unspoken_ckks::{CkksParameters, Preset};

/// The preset of text classifiers unless told otherwise.
pub const DEFAULT_PRESET: &str = "n15_depth8_scale50";

/// The preset for compact queries unless told otherwise.
pub const COMPACT_PRESET: &str = "n16_boot_depth8_scale50";

/// The preset for images of digits unless told otherwise: five levels, and the fewest bytes of those that have them.
pub const DIGITS_PRESET: &str = "n14_real_depth8_scale30";

/// A preset by name, unless it is one for tests.
pub fn secure(preset: &str) -> anyhow::Result<CkksParameters> {
    let parameters = Preset::find(preset)?.build()?;
    anyhow::ensure!(!parameters.rlwe().is_insecure(), "preset {preset} is for tests; choose a secure one");
    Ok(parameters)
}
