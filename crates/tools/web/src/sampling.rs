//! How tokens are chosen, as JavaScript says it.

use serde::Deserialize;
use unspoken_chat::random_seed;
use unspoken_llama_model::{Sampling, StopStream};
use wasm_bindgen::JsValue;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::values::parsed;

/// Options of one text.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct SamplingOptions {
    temperature: Option<f64>,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: f64,
    presence_penalty: f64,
    frequency_penalty: f64,
    logit_bias: Vec<(u32, f64)>,
    seed: Option<u64>,
    pub(crate) stop: Vec<String>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        let Sampling { repetition_penalty, presence_penalty, frequency_penalty, .. } = Sampling::default();
        SamplingOptions {
            temperature: None,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias: Vec::new(),
            seed: None,
            stop: Vec::new(),
        }
    }
}

impl SamplingOptions {
    /// The options that JavaScript wrote, or none.
    pub(crate) fn read(options: JsValue) -> Result<Self, JsValue> {
        if options.is_undefined() {
            return Ok(SamplingOptions::default());
        }
        let options: SamplingOptions = parsed("sampling", options)?;
        let random = options.top_k.is_some() || options.top_p.is_some() || options.min_p.is_some();
        if (random || options.seed.is_some()) && options.temperature.is_none() {
            let needed = "one above 0: without it the most likely token is chosen".into();
            return Err(Failure::Argument { what: "sampling", found: "no temperature".into(), needed }.into());
        }
        Ok(options)
    }

    /// The options of the library.
    pub(crate) fn sampling(&self) -> Sampling {
        let default = Sampling::default();
        Sampling {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.iter().copied().collect(),
            log_probabilities: None,
        }
    }

    /// The seed, or a new one.
    pub(crate) fn seed(&self) -> Result<u64, Failure> {
        self.seed.map_or_else(|| random_seed().map_err(Failure::of), Ok)
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
