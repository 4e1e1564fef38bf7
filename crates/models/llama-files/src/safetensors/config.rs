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
    /// Whether a model of Qwen or SmolLM 3 has a window, whose length many state that have none.
    use_sliding_window: Option<bool>,
    rms_norm_eps: Option<f32>,
    pub rope_theta: Option<f64>,
    pub rope_scaling: Option<JsonScaling>,
    /// What newer files have in place of the two above.
    pub rope_parameters: Option<JsonScaling>,
    pub partial_rotary_factor: Option<f64>,
    pub tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    /// Whether each layer has RoPE (1) or not (0), in models of SmolLM 3.
    no_rope_layers: Option<Vec<u32>>,
    /// Without the list: every how many layers one has none.
    no_rope_layer_interval: Option<usize>,
    mlp_bias: Option<bool>,
    hidden_act: Option<String>,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Option<Ids>,
}

/// The families that are read, by their `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Llama,
    /// Llama with a window.
    Mistral,
    /// Llama with biases of queries, keys and values.
    Qwen2,
    /// Llama with a norm of each head of queries and keys.
    Qwen3,
    /// Llama without RoPE in some layers.
    SmolLm3,
    /// Llama with a window, with RoPE on a part of each head, and with maps of one input in one tensor.
    Phi3,
}

const FAMILIES: [(&str, Family); 6] = [
    ("llama", Family::Llama),
    ("mistral", Family::Mistral),
    ("qwen2", Family::Qwen2),
    ("qwen3", Family::Qwen3),
    ("smollm3", Family::SmolLm3),
    ("phi3", Family::Phi3),
];

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

/// Every how many layers a model of SmolLM 3 has one without RoPE.
const DEFAULT_INTERVAL: usize = 4;

/// Layers that are numbered before the configuration is checked, at most.
const MAX_LAYERS: usize = 1 << 10;

impl Json {
    /// The family of the model.
    pub fn family(&self) -> Result<Family, (String, String)> {
        let found = FAMILIES.iter().find(|(name, _)| *name == self.model_type);
        found.map(|(_, family)| *family).ok_or_else(|| {
            let names: Vec<String> = FAMILIES.iter().map(|(name, _)| format!("{name:?}")).collect();
            (format!("model_type {:?}", self.model_type), format!("one of {}", names.join(", ")))
        })
    }

    /// Dimensions and constants. The vocabulary is the number of rows of the embedding.
    pub fn config(&self) -> Result<Config, (String, String)> {
        let refuse = |found: String, needed: &str| Err((found, needed.to_owned()));
        let family = self.family()?;
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
        let no_base = self.rope_base().is_none();
        if !matches!(family, Family::Llama | Family::Mistral) && (no_base || self.rms_norm_eps.is_none()) {
            let found = if no_base { "no rope_theta" } else { "no rms_norm_eps" };
            return refuse(found.into(), "it: families differ in what it is without");
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
                .min(self.window(family).unwrap_or(usize::MAX)),
            norm_epsilon: self.rms_norm_eps.unwrap_or(DEFAULT_NORM_EPSILON),
            rope_frequencies: self.frequencies(head_width, self.rotated(head_width, family == Family::Phi3)?)?,
            attention: self.attention(family)?,
        })
    }

    fn attention(&self, family: Family) -> Result<Attention, (String, String)> {
        let stated = self.attention_bias == Some(true);
        match family {
            Family::Llama | Family::Qwen3 | Family::SmolLm3 => Ok(Attention {
                input_biases: stated,
                output_bias: stated,
                head_norms: family == Family::Qwen3,
                unrotated: if family == Family::SmolLm3 { self.unrotated()? } else { Vec::new() },
            }),
            Family::Mistral | Family::Phi3 if stated => {
                let needed = format!("false: models of {:?} have no biases", self.model_type);
                Err(("attention_bias true".into(), needed))
            }
            Family::Mistral | Family::Phi3 => Ok(Attention::default()),
            Family::Qwen2 => Ok(Attention { input_biases: true, ..Attention::default() }),
        }
    }

    /// Layers without RoPE.
    fn unrotated(&self) -> Result<Vec<usize>, (String, String)> {
        let layers = self.num_hidden_layers;
        let Some(stated) = &self.no_rope_layers else {
            if layers > MAX_LAYERS {
                return Err((format!("num_hidden_layers {layers}"), format!("at most {MAX_LAYERS}")));
            }
            let interval = self.no_rope_layer_interval.unwrap_or(DEFAULT_INTERVAL);
            if interval == 0 {
                return Err(("no_rope_layer_interval 0".into(), "1 or more".into()));
            }
            return Ok((0..layers).filter(|layer| (layer + 1).is_multiple_of(interval)).collect());
        };
        if stated.len() < layers || stated.iter().any(|has| *has > 1) {
            let found = format!("no_rope_layers with {} numbers", stated.len());
            return Err((found, format!("a number for each of the {layers} layers, 0 or 1")));
        }
        Ok((0..layers).filter(|layer| stated[*layer] == 0).collect())
    }

    /// The length of the window, if there is one.
    fn window(&self, family: Family) -> Option<usize> {
        let has = match family {
            Family::Llama | Family::Mistral | Family::Phi3 => true,
            Family::Qwen2 | Family::Qwen3 | Family::SmolLm3 => self.use_sliding_window == Some(true),
        };
        self.sliding_window.filter(|_| has)
    }
}
