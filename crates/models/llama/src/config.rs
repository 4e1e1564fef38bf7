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

    /// Number of weights, the norms' gains included; a head that is tied to the embedding counts once.
    pub fn parameters(&self, tied: bool) -> usize {
        let gains = (2 * self.layers + 1) * self.width;
        let embedding = if tied { 0 } else { self.vocabulary * self.width };
        self.linear_weights() + embedding + gains
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
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon >= 0.0) {
            return Err((format!("norm epsilon {}", self.norm_epsilon), "a finite number, at least 0".into()));
        }
        Ok(())
    }
}

/// The angles `base^(-2 i / head_width)` of RoPE, in radians per position.
pub(crate) fn rope_frequencies(base: f64, head_width: usize) -> Vec<f64> {
    (0..head_width / 2).map(|pair| base.powf(-2.0 * pair as f64 / head_width as f64)).collect()
}

/// How frequencies are scaled for contexts that are longer than those of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RopeScaling {
    /// All angles divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: long wavelengths divided by the factor, short ones kept, those between interpolated.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Number of turns in the original context below which an angle is divided.
        low_turns: f64,
        /// Number of turns in the original context above which an angle is kept.
        high_turns: f64,
        /// Context in training.
        original_context: f64,
    },
}

impl RopeScaling {
    pub fn apply(self, frequency: f64) -> f64 {
        match self {
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low_turns, high_turns, original_context } => {
                let turns = original_context * frequency / std::f64::consts::TAU;
                if turns < low_turns {
                    frequency / factor
                } else if turns > high_turns {
                    frequency
                } else {
                    let smooth = (turns - low_turns) / (high_turns - low_turns);
                    frequency * ((1.0 - smooth) / factor + smooth)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_scaling_keeps_short_wavelengths_and_divides_long_ones() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low_turns: 1.0, high_turns: 4.0, original_context: 8192.0 };
        let frequencies = rope_frequencies(500_000.0, 128);
        let scaled: Vec<f64> = frequencies.iter().map(|frequency| scaling.apply(*frequency)).collect();
        assert_eq!(scaled[0], 1.0);
        assert_eq!(scaled[63], frequencies[63] / 8.0);
        // Interpolated angles lie between both, in falling order.
        assert!(scaled.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(scaled.iter().zip(&frequencies).all(|(new, old)| *new <= *old && *new >= *old / 8.0));
    }
}
