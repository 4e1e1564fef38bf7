//! How tokens are chosen, as JavaScript says it.

use serde::Deserialize;
use unspoken_llama_model::{Sampling, StopStream};
use wasm_bindgen::JsValue;
use zeroize::Zeroizing;

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
    pub(crate) stop: Vec<String>,
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

    /// The options of the library.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.iter().copied().collect(),
            log_probabilities: None,
        }
    }

    /// A text as it is shown: it ends before the first stop string, and without what may be the beginning of one unless
    /// the text has ended. Also whether a stop string has come.
    pub(crate) fn shown(&self, text: &str, ended: bool) -> (Zeroizing<String>, bool) {
        let mut stream = StopStream::new(self.stop.iter().cloned());
        let mut shown = Zeroizing::new(stream.push(text));
        if ended {
            shown.push_str(&stream.rest());
        }
        (shown, stream.is_stopped())
    }
}
