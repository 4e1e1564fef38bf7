//! Contents of `server.json` and `server.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelId};

use super::VERSION;
use crate::error::ModelError;
use crate::model::TrainingRecord;
use crate::shape::Shape;
use crate::tables::ScoreTables;

const KIND: &str = "unspoken-fasttext-server";
const TENSOR: &str = "scores";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model_id: ModelId,
    shape: Shape,
    training: TrainingRecord,
    weights_blake3: String,
}

fn pair(directory: &Path) -> FilePair {
    FilePair::new(directory, "server", KIND, VERSION)
}

fn dimensions(shape: Shape) -> [usize; 3] {
    [shape.subtables, shape.classes, shape.columns]
}

pub(super) fn save(tables: &ScoreTables, training: &TrainingRecord, directory: &Path) -> Result<(), ModelError> {
    let pair = pair(directory);
    let shape = tables.shape();
    let bytes: Vec<u8> = tables.values().iter().flat_map(|score| score.to_le_bytes()).collect();
    let dimensions = dimensions(shape).to_vec();
    let weights_blake3 = pair.write_weights(TENSOR, Dtype::F64, dimensions, &bytes)?;
    Ok(pair.write_json(&Content { model_id: tables.id(), shape, training: training.clone(), weights_blake3 })?)
}

pub(super) fn load(directory: &Path) -> Result<(ScoreTables, TrainingRecord), ModelError> {
    let pair = pair(directory);
    let content: Content = pair.read_json()?;
    content.shape.check()?;
    let dimensions = dimensions(content.shape);
    let bytes = pair.read_weights(&content.weights_blake3, TENSOR, Dtype::F64, &dimensions)?;
    let (scores, _) = bytes.as_chunks();
    let scores = scores.iter().map(|&score| f64::from_le_bytes(score)).collect();
    let tables = ScoreTables::new(content.model_id, content.shape, scores)?;
    Ok((tables, content.training))
}
