#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(feature = "gguf"),
    expect(dead_code, reason = "GGUF has tokenizers and rotations that other files do not have")
)]

mod checkpoint;
mod error;
#[cfg(feature = "gguf")]
mod gguf;
#[cfg(feature = "gguf")]
mod gguf_header;
#[cfg(feature = "gguf")]
mod gguf_tokenizer;
#[cfg(feature = "gguf")]
mod metadata;
mod rope;
mod safetensors;
mod tokenizer;
mod unread;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use unspoken_llama_model::{Model, Tokenizer};

pub use error::LoadError;

/// A model and its tokenizer.
pub struct LoadedModel {
    /// The model.
    pub model: Model,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

/// Reads a model with its tokenizer. `path` is
/// - a GGUF file (F32, F16, BF16 and all quantisations of ggml; weights are dequantised),
/// - a directory with `config.json`, `tokenizer.json` and safetensors in one file or several with an index, or
/// - a checkpoint of llama2.c (`.bin`); its tokenizer is `tokenizer`, or the only other `.bin` file of its directory
///   whose name begins with `tok`.
///
/// # Errors
/// [`LoadError`] names the file, what was found and what was needed.
pub fn load(path: &Path, tokenizer: Option<&Path>) -> Result<LoadedModel, LoadError> {
    if path.is_dir() {
        return safetensors::load(path);
    }
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(LoadError::io(path))?;
    file.read_exact(&mut magic).map_err(LoadError::io(path))?;
    match &magic {
        #[cfg(feature = "gguf")]
        b"GGUF" => gguf::load(path),
        #[cfg(not(feature = "gguf"))]
        b"GGUF" => Err(LoadError::content(path, "a GGUF file", "a build of the feature `gguf`: `make build`")),
        _ => checkpoint::load(path, tokenizer),
    }
}
