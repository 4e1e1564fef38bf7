//! Parameter sets of the served applications.

use unspoken_ckks::{CkksParameters, Preset};
use unspoken_query::QueryForm;

use crate::offer::Offer;

/// Default preset of text classifiers with direct queries.
pub const DEFAULT_PRESET: &str = "n15_depth8_scale50";

/// Default preset of text classifiers, by the form of queries and whether they may be short.
pub fn for_scores(query: QueryForm, short: bool) -> &'static str {
    match query {
        QueryForm::Compact if short => "n16_query_depth11_scale40",
        QueryForm::Compact => "n16_boot_depth10_scale50",
        QueryForm::Direct | QueryForm::OneHot => DEFAULT_PRESET,
    }
}

/// Default preset for images of digits: of the presets with five levels, the preset with the fewest bytes.
pub const DIGITS_PRESET: &str = "n14_real_depth8_scale30";

/// Default preset for language models: many levels between two bootstraps.
pub const LLAMA_PRESET: &str = "n16_boot_depth15_scale40";

/// A preset by name; presets for tests are refused.
pub fn secure(preset: &str) -> anyhow::Result<CkksParameters> {
    let parameters = Preset::find(preset)?.build()?;
    anyhow::ensure!(!parameters.rlwe().is_insecure(), "preset {preset} is for tests; choose a secure one");
    Ok(parameters)
}

/// An insecure preset by name, and a warning in the log.
pub fn for_tests(offer: &Offer, preset: &str) -> anyhow::Result<CkksParameters> {
    let parameters = Preset::find(preset)?.build()?;
    anyhow::ensure!(parameters.rlwe().is_insecure(), "preset {preset} is secure: name it with option preset");
    tracing::warn!(application = offer.name(), preset, "this preset is for tests: the service can read all questions");
    Ok(parameters)
}
