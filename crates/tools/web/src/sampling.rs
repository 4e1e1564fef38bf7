//! How tokens are chosen, as JavaScript says it.

use serde::Deserialize;
use unspoken_chat::Wanted;
use unspoken_llama_model::Sampling;
use wasm_bindgen::JsValue;

use crate::values::parsed;

/// Options of one text.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct SamplingOptions {
    temperature: Option<f64>,
    top_k: usize,
    top_p: f64,
    min_p: f64,
    repetition_penalty: f64,
    presence_penalty: f64,
    frequency_penalty: f64,
    logit_bias: Vec<(u32, f64)>,
    seed: Option<u64>,
    stop: Vec<String>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        let Sampling { temperature, top_k, top_p, min_p, seed, .. } = Sampling::default();
        let Sampling { repetition_penalty, presence_penalty, frequency_penalty, .. } = Sampling::default();
        let (logit_bias, stop) = (Vec::new(), Vec::new());
        SamplingOptions {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias,
            seed,
            stop,
        }
    }
}

impl SamplingOptions {
    /// The options that JavaScript wrote, or none.
    pub(crate) fn read(options: JsValue) -> Result<Self, JsValue> {
        if options.is_undefined() {
            return Ok(SamplingOptions::default());
        }
        parsed("sampling", options)
    }

    /// These options for a text of at most `tokens` tokens.
    pub(crate) fn wanted(self, tokens: usize) -> Wanted {
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.into_iter().collect(),
            log_probabilities: None,
        };
        Wanted { tokens, sampling, stops: self.stop }
    }
}
