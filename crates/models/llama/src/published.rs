//! Dimensions of published models.

use crate::config::{Attention, Config};

/// Names of the models whose dimensions [`published`] knows.
pub const SHAPES: [&str; 6] = ["stories260k", "smollm2", "llama-2-7b", "llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b"];

/// Base of the angles of RoPE. No count depends on it.
const ROPE_BASE: f64 = 10_000.0;

/// The dimensions of a published model: stories260K, SmolLM2-135M, Llama-2-7B, Llama-3-8B, Qwen2.5-0.5B or Qwen3-0.6B;
/// `None` for other names. For counting only: the angles of RoPE are those of Llama 2.
pub fn published(name: &str) -> Option<Config> {
    let [width, layers, heads, kv_heads, head_width, ffn_width, vocabulary, context] = match name {
        "stories260k" => [64, 5, 8, 4, 8, 172, 512, 512],
        "smollm2" => [576, 30, 9, 3, 64, 1536, 49_152, 8192],
        "llama-2-7b" => [4096, 32, 32, 32, 128, 11_008, 32_000, 4096],
        "llama-3-8b" => [4096, 32, 32, 8, 128, 14_336, 128_256, 8192],
        "qwen2.5-0.5b" => [896, 24, 14, 2, 64, 4864, 151_936, 32_768],
        "qwen3-0.6b" => [1024, 28, 16, 8, 128, 3072, 151_936, 40_960],
        _ => return None,
    };
    let attention =
        Attention { input_biases: name == "qwen2.5-0.5b", head_norms: name == "qwen3-0.6b", ..Attention::default() };
    let angle = |pair: usize| ROPE_BASE.powf(-2.0 * pair as f64 / head_width as f64);
    Some(Config {
        width,
        layers,
        heads,
        kv_heads,
        head_width,
        ffn_width,
        vocabulary,
        context,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..head_width / 2).map(angle).collect(),
        attention,
    })
}
