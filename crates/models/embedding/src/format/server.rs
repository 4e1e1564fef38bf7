//! Contents of `server.json` and `server.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId};

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

const fn pair(version: u32) -> FilePair {
    FilePair::new("server", KIND, version).reading_from(ADDITIVE_VERSION)
}

fn dimensions(shape: Shape) -> [usize; 3] {
    [shape.subtables, shape.width, shape.columns]
}

pub(super) fn save(subtables: &Subtables, record: &CompressionRecord, directory: &Path) -> Result<(), EmbeddingError> {
    let version = match record {
        CompressionRecord::Additive(_) => ADDITIVE_VERSION,
        CompressionRecord::Gumbel(_) => GUMBEL_VERSION,
    };
    let pair = pair(version);
    let shape = subtables.shape();
    let bytes: Vec<u8> = subtables.values().iter().flat_map(|value| value.to_le_bytes()).collect();
    let weights_blake3 = pair.write_weights(directory, TENSOR, Dtype::F32, dimensions(shape).to_vec(), &bytes)?;
    let compression = record.clone();
    Ok(pair.write_json(directory, &Content { model_id: subtables.id(), shape, compression, weights_blake3 })?)
}

pub(super) fn load(files: ModelFiles<'_>) -> Result<(Subtables, CompressionRecord), EmbeddingError> {
    let pair = pair(GUMBEL_VERSION);
    let content: Content = pair.read_json(files)?;
    content.shape.check()?;
    let bytes = pair.read_weights(files, &content.weights_blake3, TENSOR, Dtype::F32, &dimensions(content.shape))?;
    let (values, _) = bytes.as_chunks();
    let values = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
    Ok((Subtables::new(content.model_id, content.shape, values)?, content.compression))
}
