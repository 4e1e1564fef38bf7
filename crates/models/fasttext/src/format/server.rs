//! Contents of `server.json` and `server.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId};

use super::version::VERSION;
use crate::error::FastTextError;
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

const PAIR: FilePair = FilePair::new("server", KIND, VERSION);

fn dimensions(shape: Shape) -> [usize; 3] {
    [shape.subtables, shape.classes, shape.columns]
}

pub(super) fn save(tables: &ScoreTables, training: &TrainingRecord, directory: &Path) -> Result<(), FastTextError> {
    let shape = tables.shape();
    let bytes: Vec<u8> = tables.values().iter().flat_map(|score| score.to_le_bytes()).collect();
    let dimensions = dimensions(shape).to_vec();
    let weights_blake3 = PAIR.write_weights(directory, TENSOR, Dtype::F64, dimensions, &bytes)?;
    let content = Content { model_id: tables.id(), shape, training: training.clone(), weights_blake3 };
    Ok(PAIR.write_json(directory, &content)?)
}

pub(super) fn load(files: ModelFiles<'_>) -> Result<(ScoreTables, TrainingRecord), FastTextError> {
    let content: Content = PAIR.read_json(files)?;
    content.shape.check()?;
    let dimensions = dimensions(content.shape);
    let bytes = PAIR.read_weights(files, &content.weights_blake3, TENSOR, Dtype::F64, &dimensions)?;
    let (scores, _) = bytes.as_chunks();
    let scores = scores.iter().map(|&score| f64::from_le_bytes(score)).collect();
    let tables = ScoreTables::new(content.model_id, content.shape, scores)?;
    Ok((tables, content.training))
}
