//! The service's half of a rotated model: all weights.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use ndarray::{Array1, Array2};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorView};
use unspoken_files::Access;
use unspoken_store::{ModelFiles, ModelId, StoreError};

use super::{check, id_of};
use crate::config::Config;
use crate::forward::Model;
use crate::weights::{TensorName, Weights};

/// Name of the file.
const FILE: &str = "tamed.safetensors";

/// Kind and version of the file of a model whose attention is that of Llama, and of other ones. Earlier programs read
/// the first version alone.
const FORMAT: &str = "llama tamed 1";
const FORMAT_OF_OTHERS: &str = "llama tamed 2";

/// The version of the file of a model.
fn format_of(config: &Config) -> &'static str {
    if config.attention.is_plain() { FORMAT } else { FORMAT_OF_OTHERS }
}

/// Largest header of a file: the largest published models have some thousand tensors.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// A model whose weights are rotated, and the tokens in front of every text: the service's half.
#[derive(Clone, Debug)]
pub struct RotatedModel {
    id: ModelId,
    prefix: Vec<u32>,
    model: Model,
}

impl RotatedModel {
    /// The service's half of a rotated model; `prefix` are the tokens in front of every text.
    pub fn new(model: Model, prefix: Vec<u32>) -> Self {
        RotatedModel { id: id_of(&model.config, &prefix, &model.weights.digest()), prefix, model }
    }

    /// The id, which the client's half has too.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// Tokens in front of every text.
    pub fn prefix(&self) -> &[u32] {
        &self.prefix
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, without a copy.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Writes `tamed.safetensors` into a directory: the weights in 32 bits as this crate orders them, and as text the
    /// format, the dimensions, the prefix and the id.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(FILE);
        let text = StoreError::json(&path);
        let described = HashMap::from([
            ("format".to_owned(), format_of(&self.model.config).to_owned()),
            ("config".to_owned(), serde_json::to_string(&self.model.config).map_err(text)?),
            ("prefix".to_owned(), serde_json::to_string(&self.prefix).map_err(text)?),
            ("id".to_owned(), self.id.to_string()),
        ]);
        let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = all(&self.model.weights)
            .into_iter()
            .map(|(tensor, shape, values)| (name(tensor), shape, values.flat_map(|v| v.to_le_bytes()).collect()))
            .collect();
        let needed = "tensors that safetensors can hold";
        let wrong = |error: safetensors::SafeTensorError| StoreError::tensor(&path, error, needed);
        let mut views = Vec::with_capacity(tensors.len());
        for (name, shape, bytes) in &tensors {
            views.push((name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(wrong)?));
        }
        let bytes = safetensors::serialize(views, Some(described)).map_err(wrong)?;
        unspoken_files::replace_file(&path, &bytes, Access::Umask).map_err(StoreError::io("write", &path))
    }

    /// Reads what [`RotatedModel::save`] wrote.
    ///
    /// # Errors
    /// If a file is missing, has other dimensions than it states, or its weights do not belong to its id.
    pub fn load(directory: &Path) -> Result<Self, StoreError> {
        Self::read(directory.into())
    }

    /// As [`RotatedModel::load`], of files that may be in memory.
    ///
    /// # Errors
    /// As for [`RotatedModel::load`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, StoreError> {
        let path = files.path(FILE);
        let (header, bytes) = match files {
            ModelFiles::Directory(_) => {
                let failed = StoreError::io("read", &path);
                let file = File::open(&path).map_err(failed)?;
                let length = file.metadata().map_err(failed)?.len();
                read(&path, file, length)?
            }
            ModelFiles::Memory(_) => {
                let bytes = files.read(FILE, u64::MAX)?;
                read(&path, bytes.as_slice(), bytes.len() as u64)?
            }
        };
        let refuse = |found: String, needed: &str| StoreError::tensor(&path, found, needed);
        let described = |key: &str| {
            let text = header.metadata().as_ref().and_then(|text| text.get(key));
            text.ok_or_else(|| refuse(format!("no {key}"), "a file that `unspoken llama prepare` wrote"))
        };
        let needed = "that of its weights; the file is damaged, prepare the model again";
        let id = ModelId::try_from(described("id")?.clone()).map_err(|found| refuse(found, needed))?;
        let (config, prefix) = (config_of(&path, &header)?, prefix_of(&path, &header)?);
        check(&config, &prefix).map_err(|(found, needed)| refuse(found, &needed))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| refuse(format!("a header with {error}"), "a safetensors file"))?;
        let weights = weights_of(&path, &config, &tensors)?;
        drop(tensors);
        drop(bytes);
        let rotated = RotatedModel::new(Model { config, weights }, prefix);
        if rotated.id != id {
            return Err(refuse(format!("another id, {id},"), needed));
        }
        Ok(rotated)
    }
}

/// The values of a tensor.
type Values<'a> = Box<dyn Iterator<Item = f32> + 'a>;

/// All tensors, with their shapes.
fn all(weights: &Weights) -> Vec<(TensorName, Vec<usize>, Values<'_>)> {
    fn matrix(tensor: TensorName, values: &Array2<f32>) -> (TensorName, Vec<usize>, Values<'_>) {
        (tensor, values.shape().to_vec(), Box::new(values.iter().copied()))
    }
    fn vector(tensor: TensorName, values: &Array1<f32>) -> (TensorName, Vec<usize>, Values<'_>) {
        (tensor, values.shape().to_vec(), Box::new(values.iter().copied()))
    }
    let mut tensors = vec![matrix(TensorName::Embedding, &weights.embedding), vector(TensorName::Norm, &weights.norm)];
    for (number, layer) in weights.layers.iter().enumerate() {
        tensors.extend([
            vector(TensorName::AttentionNorm(number), &layer.attention_norm),
            matrix(TensorName::Query(number), &layer.query),
            matrix(TensorName::Key(number), &layer.key),
            matrix(TensorName::Value(number), &layer.value),
            matrix(TensorName::Output(number), &layer.output),
            vector(TensorName::FfnNorm(number), &layer.ffn_norm),
            matrix(TensorName::Gate(number), &layer.gate),
            matrix(TensorName::Up(number), &layer.up),
            matrix(TensorName::Down(number), &layer.down),
        ]);
        tensors.extend(layer.attention.named(number).map(|(tensor, values)| vector(tensor, values)));
    }
    tensors.extend(weights.head.as_ref().map(|head| matrix(TensorName::Head, head)));
    tensors
}

/// The name of a tensor in the file.
fn name(tensor: TensorName) -> String {
    let in_layer = |layer: usize, name: &str| format!("layers.{layer}.{name}");
    match tensor {
        TensorName::Embedding => "embedding".into(),
        TensorName::AttentionNorm(layer) => in_layer(layer, "attention-norm"),
        TensorName::Query(layer) => in_layer(layer, "query"),
        TensorName::Key(layer) => in_layer(layer, "key"),
        TensorName::Value(layer) => in_layer(layer, "value"),
        TensorName::Output(layer) => in_layer(layer, "output"),
        TensorName::FfnNorm(layer) => in_layer(layer, "ffn-norm"),
        TensorName::Gate(layer) => in_layer(layer, "gate"),
        TensorName::Up(layer) => in_layer(layer, "up"),
        TensorName::Down(layer) => in_layer(layer, "down"),
        TensorName::QueryBias(layer) => in_layer(layer, "query-bias"),
        TensorName::KeyBias(layer) => in_layer(layer, "key-bias"),
        TensorName::ValueBias(layer) => in_layer(layer, "value-bias"),
        TensorName::OutputBias(layer) => in_layer(layer, "output-bias"),
        TensorName::QueryNorm(layer) => in_layer(layer, "query-norm"),
        TensorName::KeyNorm(layer) => in_layer(layer, "key-norm"),
        TensorName::Norm => "norm".into(),
        TensorName::Head => "head".into(),
    }
}

/// The header and all bytes of a file. The length of the file must fit the weights in the header: nothing longer is
/// read.
fn read(path: &Path, mut file: impl Read, length: u64) -> Result<(Metadata, Vec<u8>), StoreError> {
    let failed = StoreError::io("read", path);
    if length < 8 {
        return Err(StoreError::tensor(path, format!("{length} bytes"), "8 or more"));
    }
    let mut bytes = vec![0; 8];
    file.read_exact(&mut bytes).map_err(failed)?;
    let count: [u8; 8] = bytes.as_slice().try_into().unwrap_or_default();
    let count = u64::from_le_bytes(count);
    if count > MAX_HEADER_BYTES.min(length - 8) {
        let found = format!("a header of {count} bytes");
        return Err(StoreError::tensor(path, found, format!("at most {MAX_HEADER_BYTES}")));
    }
    bytes.resize(8 + count as usize, 0);
    file.read_exact(&mut bytes[8..]).map_err(failed)?;
    let header: Metadata = serde_json::from_slice(&bytes[8..])
        .map_err(|error| StoreError::tensor(path, format!("a header with {error}"), "a safetensors file"))?;
    let found = header.metadata().as_ref().and_then(|text| text.get("format")).map_or("none", String::as_str);
    if ![FORMAT, FORMAT_OF_OTHERS].contains(&found) {
        return Err(StoreError::Format { path: path.to_owned(), found: found.into(), needed: FORMAT_OF_OTHERS.into() });
    }
    let config = config_of(path, &header)?;
    let needed = format_of(&config);
    if found != needed {
        return Err(StoreError::Format { path: path.to_owned(), found: found.into(), needed: needed.into() });
    }
    config.check().map_err(|(found, needed)| StoreError::tensor(path, found, needed))?;
    let tied = header.info(&name(TensorName::Head)).is_none();
    let needed = 8 + count + 4 * config.parameters(tied) as u64;
    if length != needed {
        let needed = format!("{needed} bytes, as its dimensions say");
        return Err(StoreError::tensor(path, format!("{length} bytes"), needed));
    }
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok((header, bytes))
}

fn config_of(path: &Path, header: &Metadata) -> Result<Config, StoreError> {
    text_of(path, header, "config")
}

fn prefix_of(path: &Path, header: &Metadata) -> Result<Vec<u32>, StoreError> {
    text_of(path, header, "prefix")
}

/// A value of the text in the header.
fn text_of<T: serde::de::DeserializeOwned>(path: &Path, header: &Metadata, key: &str) -> Result<T, StoreError> {
    let text = header.metadata().as_ref().and_then(|text| text.get(key)).map_or("", String::as_str);
    serde_json::from_str(text).map_err(StoreError::json(path))
}

/// The weights, each checked against the dimensions.
fn weights_of(path: &Path, config: &Config, tensors: &SafeTensors) -> Result<Weights, StoreError> {
    let values = |tensor: TensorName, shape: &[usize]| {
        let (name, needed) = (name(tensor), format!("a tensor of type F32 and shape {shape:?}"));
        let view =
            tensors.tensor(&name).map_err(|error| StoreError::tensor(path, format!("{name}: {error}"), &*needed))?;
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            let found = format!("{name} of type {:?} and shape {:?}", view.dtype(), view.shape());
            return Err(StoreError::tensor(path, found, needed));
        }
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let values: Vec<f32> = view.data().chunks_exact(4).map(number).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(StoreError::tensor(path, format!("{name} with a number that is not finite"), "finite numbers"));
        }
        Ok(values)
    };
    let tied = tensors.tensor(&name(TensorName::Head)).is_err();
    Weights::read(
        config,
        tied,
        |tensor, rows, columns| {
            let values = values(tensor, &[rows, columns])?;
            Array2::from_shape_vec((rows, columns), values)
                .map_err(|error| StoreError::tensor(path, error.to_string(), "a matrix"))
        },
        |tensor, length| Ok(Array1::from(values(tensor, &[length])?)),
    )
}
