//! Contents of `client.json` and `client.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FileError, FilePair, ModelId};

use super::{VERSION, WORD_RULE_VERSION};
use crate::encoder::Encoder;
use crate::error::ModelError;
use crate::shape::Shape;
use crate::tokenise::Tokeniser;
use crate::vocabulary::Vocabulary;

const KIND: &str = "unspoken-fasttext-client";
const TENSOR: &str = "codes";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model_id: ModelId,
    shape: Shape,
    tokeniser: Tokeniser,
    labels: Vec<String>,
    weights_blake3: String,
    vocabulary: Vec<String>,
}

fn pair(directory: &Path, version: u32) -> FilePair {
    FilePair::new(directory, "client", KIND, version)
}

pub(super) fn save(encoder: &Encoder, directory: &Path) -> Result<(), ModelError> {
    // Earlier releases split texts at everything but ASCII letters. They must refuse other models.
    let version = if encoder.tokeniser().words.is_ascii() { VERSION } else { WORD_RULE_VERSION };
    let pair = pair(directory, version);
    let shape = encoder.shape();
    let bytes: Vec<u8> = encoder.codes().iter().flat_map(|code| code.to_le_bytes()).collect();
    let dimensions = vec![encoder.vocabulary().len(), shape.subtables];
    let weights_blake3 = pair.write_weights(TENSOR, Dtype::U16, dimensions, &bytes)?;
    Ok(pair.write_json(&Content {
        model_id: encoder.id(),
        shape,
        tokeniser: encoder.tokeniser(),
        labels: encoder.labels().to_vec(),
        weights_blake3,
        vocabulary: encoder.vocabulary().tokens().to_vec(),
    })?)
}

pub(super) fn load(directory: &Path) -> Result<Encoder, ModelError> {
    let pair = pair(directory, WORD_RULE_VERSION).reading_from(VERSION);
    let read = |checksum: &str, shape: &[usize]| pair.read_weights(checksum, TENSOR, Dtype::U16, shape);
    join(pair.read_json()?, read)
}

pub(super) fn from_bytes(json: &[u8], weights: &[u8]) -> Result<Encoder, ModelError> {
    let pair = pair(Path::new(""), WORD_RULE_VERSION).reading_from(VERSION);
    let parse = |checksum: &str, shape: &[usize]| pair.parse_weights(weights, checksum, TENSOR, Dtype::U16, shape);
    join(pair.parse_json(json)?, parse)
}

/// Checks the content, and the weights that `weights` reads for a checksum and a shape.
fn join(
    content: Content,
    weights: impl FnOnce(&str, &[usize]) -> Result<Vec<u8>, FileError>,
) -> Result<Encoder, ModelError> {
    content.shape.check()?;
    let vocabulary = Vocabulary::from_tokens(content.vocabulary)?;
    let bytes = weights(&content.weights_blake3, &[vocabulary.len(), content.shape.subtables])?;
    let (codes, _) = bytes.as_chunks();
    Encoder::new(
        content.model_id,
        content.shape,
        content.tokeniser,
        content.labels,
        vocabulary,
        codes.iter().map(|&code| u16::from_le_bytes(code)).collect(),
    )
}
