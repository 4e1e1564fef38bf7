//! `config.json`.

use serde::Deserialize;
use unspoken_llama_model::{Attention, Config};

use super::json_scaling::JsonScaling;

/// The part of `config.json` that matters.
#[derive(Deserialize)]
pub(super) struct Json {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: Option<usize>,
    /// Tokens that a token sees, itself among them.
    sliding_window: Option<usize>,
    /// Whether a model of Qwen has a window. Files of all Qwen models state its length.
    use_sliding_window: Option<bool>,
    rms_norm_eps: Option<f32>,
    pub rope_theta: Option<f64>,
    pub rope_scaling: Option<JsonScaling>,
    /// What newer files have in place of the two above.
    pub rope_parameters: Option<JsonScaling>,
    pub partial_rotary_factor: Option<f64>,
    pub tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    hidden_act: Option<String>,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Option<Ids>,
}

/// The families that are read, by their `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Llama,
    /// Llama with a window.
    Mistral,
    /// Llama with biases of queries, keys and values.
    Qwen2,
    /// Llama with a norm of each head of queries and keys.
    Qwen3,
}

const FAMILIES: [(&str, Family); 4] =
    [("llama", Family::Llama), ("mistral", Family::Mistral), ("qwen2", Family::Qwen2), ("qwen3", Family::Qwen3)];

/// What Hugging Face's Llama has where `config.json` does not say it.
const DEFAULT_CONTEXT: usize = 2048;
const DEFAULT_NORM_EPSILON: f32 = 1e-6;

/// One id or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Ids {
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    pub fn list(&self) -> Vec<u32> {
        match self {
            Ids::One(id) => vec![*id],
            Ids::Many(ids) => ids.clone(),
        }
    }
}

impl Json {
    /// Dimensions and constants. The vocabulary is the number of rows of the embedding.
    pub fn config(&self) -> Result<Config, (String, String)> {
        let refuse = |found: String, needed: &str| Err((found, needed.to_owned()));
        let Some((_, family)) = FAMILIES.iter().find(|(name, _)| *name == self.model_type) else {
            let names: Vec<String> = FAMILIES.iter().map(|(name, _)| format!("{name:?}")).collect();
            return Err((format!("model_type {:?}", self.model_type), format!("one of {}", names.join(", "))));
        };
        if self.mlp_bias == Some(true) {
            return refuse("mlp_bias true".into(), "a model whose feed-forward network has no biases");
        }
        if let Some(activation) = self.hidden_act.as_ref().filter(|activation| *activation != "silu") {
            return refuse(format!("hidden_act {activation:?}"), "\"silu\"");
        }
        let heads = self.num_attention_heads;
        let head_width = match (self.head_dim, family) {
            (Some(width), _) => width,
            (None, Family::Qwen3) => return refuse("no head_dim".into(), "it, as files of \"qwen3\" have it"),
            (None, _) => self.hidden_size.checked_div(heads).unwrap_or(0),
        };
        if head_width > 1 << 16 {
            return refuse(format!("head_dim {head_width}"), "at most 65536");
        }
        Ok(Config {
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads,
            kv_heads: self.num_key_value_heads.unwrap_or(heads),
            head_width,
            ffn_width: self.intermediate_size,
            vocabulary: self.vocab_size,
            // Within the window a token sees all tokens before it.
            context: self
                .max_position_embeddings
                .unwrap_or(DEFAULT_CONTEXT)
                .min(self.window(*family).unwrap_or(usize::MAX)),
            norm_epsilon: self.rms_norm_eps.unwrap_or(DEFAULT_NORM_EPSILON),
            rope_frequencies: self.frequencies(head_width)?,
            attention: self.attention(*family)?,
        })
    }

    fn attention(&self, family: Family) -> Result<Attention, (String, String)> {
        let stated = self.attention_bias == Some(true);
        match family {
            Family::Llama => Ok(Attention { input_biases: stated, output_bias: stated, head_norms: false }),
            Family::Qwen3 => Ok(Attention { input_biases: stated, output_bias: stated, head_norms: true }),
            Family::Mistral if stated => {
                Err(("attention_bias true".into(), "false: models of Mistral have no biases".into()))
            }
            Family::Mistral => Ok(Attention::default()),
            Family::Qwen2 => Ok(Attention { input_biases: true, ..Attention::default() }),
        }
    }

    /// The length of the window, if there is one.
    fn window(&self, family: Family) -> Option<usize> {
        let has = match family {
            Family::Llama | Family::Mistral => true,
            Family::Qwen2 | Family::Qwen3 => self.use_sliding_window == Some(true),
        };
        self.sliding_window.filter(|_| has)
    }
}
