//! Contents of `server.json` and `server.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelId};

use crate::compressed::CompressionRecord;
use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::subtables::Subtables;

const KIND: &str = "unspoken-embedding-server";
const TENSOR: &str = "subtables";
/// Versions of the JSON: the second has records of compressions by an encoder network.
const ADDITIVE_VERSION: u32 = 1;
const GUMBEL_VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model_id: ModelId,
    shape: Shape,
    compression: CompressionRecord,
    weights_blake3: String,
}

fn pair(directory: &Path, version: u32) -> FilePair {
    FilePair::new(directory, "server", KIND, version).reading_from(ADDITIVE_VERSION)
}

fn dimensions(shape: Shape) -> [usize; 3] {
    [shape.subtables, shape.width, shape.columns]
}

pub(super) fn save(subtables: &Subtables, record: &CompressionRecord, directory: &Path) -> Result<(), EmbeddingError> {
    let version = match record {
        CompressionRecord::Additive(_) => ADDITIVE_VERSION,
        CompressionRecord::Gumbel(_) => GUMBEL_VERSION,
    };
    let pair = pair(directory, version);
    let shape = subtables.shape();
    let bytes: Vec<u8> = subtables.values().iter().flat_map(|value| value.to_le_bytes()).collect();
    let weights_blake3 = pair.write_weights(TENSOR, Dtype::F32, dimensions(shape).to_vec(), &bytes)?;
    let compression = record.clone();
    Ok(pair.write_json(&Content { model_id: subtables.id(), shape, compression, weights_blake3 })?)
}

pub(super) fn load(directory: &Path) -> Result<(Subtables, CompressionRecord), EmbeddingError> {
    let pair = pair(directory, GUMBEL_VERSION);
    let content: Content = pair.read_json()?;
    content.shape.check()?;
    let bytes = pair.read_weights(&content.weights_blake3, TENSOR, Dtype::F32, &dimensions(content.shape))?;
    let (values, _) = bytes.as_chunks();
    let values = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
    Ok((Subtables::new(content.model_id, content.shape, values)?, content.compression))
}
