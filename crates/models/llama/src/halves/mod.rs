//! The two halves of a rotated model, as `unspoken llama prepare` writes them and as the two sides of a service read
//! them.

mod chat;
mod client;
mod coverage;
mod draft_texts;
mod rotated;

use std::io::ErrorKind;

use serde::de::DeserializeOwned;
use unspoken_store::{ModelFiles, ModelHasher, ModelId, StoreError};

use crate::config::{Attention, Config};

pub use client::ClientModel;
pub use coverage::Coverage;
pub use draft_texts::DraftTexts;
pub use rotated::RotatedModel;

/// The id of a rotated model: two of them are the same only if their weights are, to the last bit, and the tokens in
/// front of every text.
fn id_of(config: &Config, prefix: &[u32], digest: &[u8; 32]) -> ModelId {
    let mut hasher = ModelHasher::new("unspoken 2026 tamed llama model");
    let numbers = [
        config.width,
        config.layers,
        config.heads,
        config.kv_heads,
        config.head_width,
        config.ffn_width,
        config.vocabulary,
        config.context,
        prefix.len(),
    ];
    let numbers = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes());
    let frequencies = config.rope_frequencies.iter().flat_map(|frequency| frequency.to_le_bytes());
    let bytes: Vec<u8> = numbers
        .chain(config.norm_epsilon.to_le_bytes())
        .chain(frequencies)
        .chain(prefix.iter().flat_map(|token| token.to_le_bytes()))
        .collect();
    let attention = attention_of(config);
    hasher.bytes(&bytes).bytes(&attention).bytes(digest).finish()
}

/// What the attention has beside that of Llama; nothing for that of Llama, whose ids are older than the others.
fn attention_of(config: &Config) -> Vec<u8> {
    let Attention { input_biases, output_bias, head_norms, unrotated } = &config.attention;
    if config.attention.is_plain() {
        return Vec::new();
    }
    let parts = [input_biases, output_bias, head_norms].map(|has| u8::from(*has));
    parts.into_iter().chain(unrotated.iter().flat_map(|layer| (*layer as u64).to_le_bytes())).collect()
}

/// Reads a file in JSON of at most `most` bytes that a client's half may have; `None` if it has none, as halves of
/// earlier versions.
fn read_optional<R: DeserializeOwned>(files: ModelFiles<'_>, name: &str, most: u64) -> Result<Option<R>, StoreError> {
    let bytes = match files.read(name, most) {
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    serde_json::from_slice(&bytes).map(Some).map_err(StoreError::json(&files.path(name)))
}

/// Checks dimensions and prefix that a file states.
fn check(config: &Config, prefix: &[u32]) -> Result<(), (String, String)> {
    config.check()?;
    if let Some(token) = prefix.iter().find(|token| **token as usize >= config.vocabulary) {
        return Err((format!("token {token} in the prefix"), format!("tokens below {}", config.vocabulary)));
    }
    if prefix.len() > config.context {
        return Err((format!("{} tokens in the prefix", prefix.len()), format!("at most {}", config.context)));
    }
    Ok(())
}
