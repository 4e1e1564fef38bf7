//! Contents of `client.json` and `client.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId};

use super::version::{VERSION, WORD_RULE_VERSION};
use crate::encoder::Encoder;
use crate::error::FastTextError;
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

const fn pair(version: u32) -> FilePair {
    FilePair::new("client", KIND, version)
}

pub(super) fn save(encoder: &Encoder, directory: &Path) -> Result<(), FastTextError> {
    // Earlier releases split texts at everything but ASCII letters. They must refuse other models.
    let version = if encoder.tokeniser().words.is_ascii() { VERSION } else { WORD_RULE_VERSION };
    let pair = pair(version);
    let shape = encoder.shape();
    let bytes: Vec<u8> = encoder.codes().iter().flat_map(|code| code.to_le_bytes()).collect();
    let dimensions = vec![encoder.vocabulary().len(), shape.subtables];
    let weights_blake3 = pair.write_weights(directory, TENSOR, Dtype::U16, dimensions, &bytes)?;
    let content = Content {
        model_id: encoder.id(),
        shape,
        tokeniser: encoder.tokeniser(),
        labels: encoder.labels().to_vec(),
        weights_blake3,
        vocabulary: encoder.vocabulary().tokens().to_vec(),
    };
    Ok(pair.write_json(directory, &content)?)
}

pub(super) fn load(files: ModelFiles<'_>) -> Result<Encoder, FastTextError> {
    let pair = pair(WORD_RULE_VERSION).reading_from(VERSION);
    let content: Content = pair.read_json(files)?;
    content.shape.check()?;
    let vocabulary = Vocabulary::from_tokens(content.vocabulary)?;
    let dimensions = [vocabulary.len(), content.shape.subtables];
    let bytes = pair.read_weights(files, &content.weights_blake3, TENSOR, Dtype::U16, &dimensions)?;
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
