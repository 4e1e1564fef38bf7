//! A network's two files: `digits.json` and `digits.safetensors`.
//!
//! Files are written atomically, the weights before the JSON that contains their checksum. Reading checks everything:
//! sizes are limited before allocation, unknown fields and versions are refused, weights must match their checksum and
//! shape and be finite, and the id must be their hash.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelId};

use crate::error::DigitsModelError;
use crate::network::{Network, TrainingRecord};
use crate::shape::Shape;

const KIND: &str = "unspoken-digits-network";
const VERSION: u32 = 1;
const TENSOR: &str = "parameters";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model_id: ModelId,
    shape: Shape,
    training: TrainingRecord,
    weights_blake3: String,
}

const PAIR: FilePair = FilePair::new("digits", KIND, VERSION);

impl Network {
    /// Writes `digits.safetensors` and `digits.json` into `directory`, which is created when absent.
    ///
    /// # Errors
    /// [`DigitsModelError::Store`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), DigitsModelError> {
        let directory = directory.as_ref();
        let bytes: Vec<u8> = self.parameters().iter().flat_map(|p| p.to_le_bytes()).collect();
        let weights_blake3 =
            PAIR.write_weights(directory, TENSOR, Dtype::F64, vec![self.parameters().len()], &bytes)?;
        let (shape, training) = (self.shape(), self.training().clone());
        Ok(PAIR.write_json(directory, &Content { model_id: self.id(), shape, training, weights_blake3 })?)
    }

    /// Reads and checks `digits.json` and `digits.safetensors`.
    ///
    /// # Errors
    /// Any of [`DigitsModelError`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, DigitsModelError> {
        Self::read((&directory).into())
    }

    /// As [`Network::load`], of files that may be in memory.
    ///
    /// # Errors
    /// As for [`Network::load`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, DigitsModelError> {
        let content: Content = PAIR.read_json(files)?;
        content.shape.check()?;
        let dimensions = [content.shape.parameters()];
        let bytes = PAIR.read_weights(files, &content.weights_blake3, TENSOR, Dtype::F64, &dimensions)?;
        let (values, _) = bytes.as_chunks();
        let parameters = values.iter().map(|&value| f64::from_le_bytes(value)).collect();
        let network = Network::new(content.shape, parameters, content.training)?;
        if network.id() != content.model_id {
            return Err(DigitsModelError::field("model id", content.model_id, network.id()));
        }
        Ok(network)
    }
}
