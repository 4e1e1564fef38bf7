//! Contents of `client.json` and `client.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId};

use super::version::VERSION;
use crate::codes::TokenCodes;
use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::tokens::TokenList;

const KIND: &str = "unspoken-embedding-client";
const TENSOR: &str = "codes";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model_id: ModelId,
    shape: Shape,
    weights_blake3: String,
    tokens: Vec<String>,
}

const PAIR: FilePair = FilePair::new("client", KIND, VERSION);

pub(super) fn save(codes: &TokenCodes, directory: &Path) -> Result<(), EmbeddingError> {
    let shape = codes.shape();
    let bytes: Vec<u8> = codes.all().iter().flat_map(|code| code.to_le_bytes()).collect();
    let dimensions = vec![codes.tokens().len(), shape.subtables];
    let weights_blake3 = PAIR.write_weights(directory, TENSOR, Dtype::U16, dimensions, &bytes)?;
    let tokens = codes.tokens().as_slice().to_vec();
    Ok(PAIR.write_json(directory, &Content { model_id: codes.id(), shape, weights_blake3, tokens })?)
}

pub(super) fn is_in(files: ModelFiles<'_>) -> bool {
    PAIR.is_in(files)
}

pub(super) fn load(files: ModelFiles<'_>) -> Result<TokenCodes, EmbeddingError> {
    let content: Content = PAIR.read_json(files)?;
    content.shape.check()?;
    let tokens = TokenList::new(content.tokens)?;
    let dimensions = [tokens.len(), content.shape.subtables];
    let bytes = PAIR.read_weights(files, &content.weights_blake3, TENSOR, Dtype::U16, &dimensions)?;
    let (codes, _) = bytes.as_chunks();
    let codes = codes.iter().map(|&code| u16::from_le_bytes(code)).collect();
    TokenCodes::new(content.model_id, content.shape, tokens, codes)
}
