//! Dimensions and constants of a model.

use serde::{Deserialize, Serialize};

/// Dimensions and constants of a model of the Llama architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Width `d` of the residual stream.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_width: usize,
    /// Width of the feed-forward network.
    pub ffn_width: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Maximum number of tokens in a context.
    pub context: usize,
    /// Constant under the square root of RMSNorm.
    pub norm_epsilon: f32,
    /// Angle of RoPE for each pair of coordinates of a head, in radians per position; scaling is applied.
    pub rope_frequencies: Vec<f64>,
    /// What its attention has beside that of Llama. Files of models that have nothing do not state it.
    #[serde(default, skip_serializing_if = "Attention::is_plain")]
    pub attention: Attention,
}

/// What the attention of other families has beside that of Llama.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attention {
    /// Whether biases are added to queries, keys and values, before RoPE (Qwen 2).
    pub input_biases: bool,
    /// Whether a bias is added to what attention adds to the residual stream (Llama with `attention_bias`).
    pub output_bias: bool,
    /// Whether each head of queries and of keys has a norm, before RoPE (Qwen 3).
    pub head_norms: bool,
    /// Layers without RoPE, in rising order (SmolLM 3).
    pub unrotated: Vec<usize>,
}

impl Attention {
    /// Whether it is the attention of Llama.
    pub fn is_plain(&self) -> bool {
        *self == Attention::default()
    }
}

/// Bounds that a file must keep. They allow the largest published models.
const MAX_WIDTH: usize = 1 << 16;
const MAX_LAYERS: usize = 1 << 10;
const MAX_VOCABULARY: usize = 1 << 21;
const MAX_CONTEXT: usize = 1 << 24;

impl Config {
    /// Number of query heads that share a key head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of all queries of a token.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Width of all keys, or of all values, of a token.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_width
    }

    /// Angle of RoPE in a layer for a pair of coordinates of a head, in radians per position; `None` if there is no
    /// such pair.
    pub fn frequency(&self, layer: usize, pair: usize) -> Option<f64> {
        let frequency = *self.rope_frequencies.get(pair)?;
        Some(if self.attention.unrotated.binary_search(&layer).is_ok() { 0.0 } else { frequency })
    }

    /// Number of weights, biases and the norms' gains included; a head that is tied to the embedding counts once.
    pub fn parameters(&self, tied: bool) -> usize {
        let Attention { input_biases, output_bias, head_norms, .. } = self.attention;
        let biases = usize::from(input_biases) * (self.query_width() + 2 * self.kv_width())
            + usize::from(output_bias) * self.width;
        let head_gains = usize::from(head_norms) * 2 * self.head_width;
        let gains = (2 * self.layers + 1) * self.width;
        let embedding = if tied { 0 } else { self.vocabulary * self.width };
        self.linear_weights() + embedding + gains + self.layers * (biases + head_gains)
    }

    /// Number of weights of the linear maps of all layers and of the head.
    pub fn linear_weights(&self) -> usize {
        let attention = 2 * self.width * (self.query_width() + self.kv_width());
        let layer = attention + 3 * self.width * self.ffn_width;
        self.layers * layer + self.vocabulary * self.width
    }

    /// Checks that the numbers fit each other.
    ///
    /// # Errors
    /// What was found and what was needed.
    pub fn check(&self) -> Result<(), (String, String)> {
        let fields = [
            ("width", self.width, MAX_WIDTH),
            ("number of layers", self.layers, MAX_LAYERS),
            ("number of heads", self.heads, MAX_WIDTH),
            ("number of key heads", self.kv_heads, MAX_WIDTH),
            ("width of a head", self.head_width, MAX_WIDTH),
            ("width of the feed-forward network", self.ffn_width, MAX_WIDTH),
            ("vocabulary", self.vocabulary, MAX_VOCABULARY),
            ("context", self.context, MAX_CONTEXT),
        ];
        for (name, value, most) in fields {
            if value == 0 || value > most {
                return Err((format!("{name} {value}"), format!("1 to {most}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err((
                format!("{} heads and {} key heads", self.heads, self.kv_heads),
                "a number of heads that the number of key heads divides".into(),
            ));
        }
        if self.query_width() > MAX_WIDTH || !self.head_width.is_multiple_of(2) {
            return Err((
                format!("{} heads of width {}", self.heads, self.head_width),
                format!("an even width, and at most {MAX_WIDTH} for all heads"),
            ));
        }
        if self.rope_frequencies.len() != self.head_width / 2
            || self.rope_frequencies.iter().any(|frequency| !frequency.is_finite())
        {
            return Err((
                format!("{} RoPE frequencies", self.rope_frequencies.len()),
                format!("{} finite ones", self.head_width / 2),
            ));
        }
        let unrotated = &self.attention.unrotated;
        let rising = unrotated.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || unrotated.last().is_some_and(|layer| *layer >= self.layers) {
            return Err((
                format!("layers without RoPE {unrotated:?}"),
                format!("rising numbers of layers, below {}", self.layers),
            ));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon >= 0.0) {
            return Err((format!("norm epsilon {}", self.norm_epsilon), "a finite number, at least 0".into()));
        }
        Ok(())
    }
}
