//! Directories of Hugging Face: `config.json`, `tokenizer.json` and safetensors.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ndarray::{Array1, Array2};
use safetensors::tensor::Metadata;
use serde::Deserialize;

use unspoken_llama_model::{Config, Model, TensorName, Tokenizer, Weights};

use crate::LoadedModel;
use crate::error::LoadError;
use crate::rope::{RopeScaling, rope_frequencies};

/// Maximum length of the header of a file.
const MAX_HEADER_BYTES: u64 = 100 << 20;

pub fn load(directory: &Path) -> Result<LoadedModel, LoadError> {
    let path = directory.join("config.json");
    let text = fs::read(&path).map_err(LoadError::io(&path))?;
    let json: Json = serde_json::from_slice(&text)
        .map_err(|error| LoadError::content(&path, error.to_string(), "the configuration of a Llama model"))?;
    let config = json.config().and_then(|config| config.check().map(|()| config));
    let config = config.map_err(|(found, needed)| LoadError::content(&path, found, needed))?;
    let begin = json.bos_token_id.filter(|_| json.begins_with_bos(directory));
    let ends = json.eos_token_id.as_ref().map(Ids::list).unwrap_or_default();
    let path = directory.join("tokenizer.json");
    let text = fs::read(&path).map_err(LoadError::io(&path))?;
    let tokenizer = Tokenizer::from_json(&text, begin, &ends)
        .map_err(|found| LoadError::content(&path, found, "a tokenizer.json"))?;
    if tokenizer.vocabulary() > config.vocabulary {
        let found = format!("{} tokens", tokenizer.vocabulary());
        let needed = format!("at most {}, the vocabulary of config.json", config.vocabulary);
        return Err(LoadError::content(path, found, needed));
    }
    let mut files = Files::open(directory)?;
    let tied = json.tie_word_embeddings.unwrap_or(false) || !files.contains(&name(TensorName::Head));
    let files = std::cell::RefCell::new(&mut files);
    let weights = Weights::read(
        &config,
        tied,
        |tensor, rows, columns| {
            let values = files.borrow_mut().read(&name(tensor), &[rows, columns])?;
            let matrix = Array2::from_shape_vec((rows, columns), values).expect("as many numbers as entries");
            Ok(match tensor {
                TensorName::Query(_) | TensorName::Key(_) => adjacent_pairs(&matrix, config.head_width),
                _ => matrix,
            })
        },
        |tensor, length| Ok(Array1::from(files.borrow_mut().read(&name(tensor), &[length])?)),
    )?;
    Ok(LoadedModel { model: Model { config, weights }, tokenizer })
}

/// These files rotate coordinates `i` and `i + head_width / 2` by one angle. Reorders the rows so that such pairs are
/// adjacent.
fn adjacent_pairs(matrix: &Array2<f32>, head_width: usize) -> Array2<f32> {
    let rows: Vec<usize> = (0..matrix.nrows())
        .map(|row| {
            let (head, place) = (row / head_width * head_width, row % head_width);
            head + place / 2 + (place % 2) * (head_width / 2)
        })
        .collect();
    matrix.select(ndarray::Axis(0), &rows)
}

/// The name of a tensor in the files.
fn name(tensor: TensorName) -> String {
    let in_layer = |layer: usize, name: &str| format!("model.layers.{layer}.{name}.weight");
    match tensor {
        TensorName::Embedding => "model.embed_tokens.weight".into(),
        TensorName::AttentionNorm(layer) => in_layer(layer, "input_layernorm"),
        TensorName::Query(layer) => in_layer(layer, "self_attn.q_proj"),
        TensorName::Key(layer) => in_layer(layer, "self_attn.k_proj"),
        TensorName::Value(layer) => in_layer(layer, "self_attn.v_proj"),
        TensorName::Output(layer) => in_layer(layer, "self_attn.o_proj"),
        TensorName::FfnNorm(layer) => in_layer(layer, "post_attention_layernorm"),
        TensorName::Gate(layer) => in_layer(layer, "mlp.gate_proj"),
        TensorName::Up(layer) => in_layer(layer, "mlp.up_proj"),
        TensorName::Down(layer) => in_layer(layer, "mlp.down_proj"),
        TensorName::Norm => "model.norm.weight".into(),
        TensorName::Head => "lm_head.weight".into(),
    }
}

/// The part of `config.json` that matters.
#[derive(Deserialize)]
struct Json {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    rope_scaling: Option<JsonScaling>,
    /// What newer files have in place of the two above.
    rope_parameters: Option<JsonScaling>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    hidden_act: Option<String>,
    bos_token_id: Option<u32>,
    eos_token_id: Option<Ids>,
}

#[derive(Deserialize)]
struct JsonScaling {
    #[serde(alias = "type")]
    rope_type: String,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    rope_theta: Option<f64>,
}

/// One id or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    fn list(&self) -> Vec<u32> {
        match self {
            Ids::One(id) => vec![*id],
            Ids::Many(ids) => ids.clone(),
        }
    }
}

impl Json {
    fn config(&self) -> Result<Config, (String, String)> {
        let refuse = |found: String, needed: &str| Err((found, needed.to_owned()));
        if self.model_type != "llama" {
            return refuse(format!("model_type {:?}", self.model_type), "\"llama\"");
        }
        if self.attention_bias == Some(true) || self.mlp_bias == Some(true) {
            return refuse("biases".into(), "a model without biases");
        }
        if let Some(activation) = self.hidden_act.as_ref().filter(|activation| *activation != "silu") {
            return refuse(format!("hidden_act {activation:?}"), "\"silu\"");
        }
        let heads = self.num_attention_heads;
        let head_width = self.head_dim.unwrap_or(self.hidden_size.checked_div(heads).unwrap_or(0));
        if head_width > 1 << 16 {
            return refuse(format!("head_dim {head_width}"), "at most 65536");
        }
        let rope = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let scaling = rope.map(JsonScaling::scaling).transpose()?.flatten();
        let base = rope.and_then(|rope| rope.rope_theta).or(self.rope_theta).unwrap_or(10_000.0);
        let mut frequencies = rope_frequencies(base, head_width);
        if let Some(scaling) = scaling {
            frequencies.iter_mut().for_each(|frequency| *frequency = scaling.apply(*frequency));
        }
        Ok(Config {
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads,
            kv_heads: self.num_key_value_heads.unwrap_or(heads),
            head_width,
            ffn_width: self.intermediate_size,
            vocabulary: self.vocab_size,
            context: self.max_position_embeddings,
            norm_epsilon: self.rms_norm_eps,
            rope_frequencies: frequencies,
        })
    }

    /// Whether `tokenizer_config.json` wants the token for the begin of a text; without that file it is wanted.
    fn begins_with_bos(&self, directory: &Path) -> bool {
        #[derive(Deserialize)]
        struct TokenizerConfig {
            add_bos_token: Option<bool>,
            tokenizer_class: Option<String>,
        }
        let Ok(text) = fs::read(directory.join("tokenizer_config.json")) else { return true };
        let Ok(config) = serde_json::from_slice::<TokenizerConfig>(&text) else { return true };
        config.add_bos_token.unwrap_or(config.tokenizer_class.as_deref() != Some("GPT2Tokenizer"))
    }
}

impl JsonScaling {
    fn scaling(&self) -> Result<Option<RopeScaling>, (String, String)> {
        let number = |name: &str, value: Option<f64>| {
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .ok_or_else(|| (format!("no {name} in rope_scaling"), "a positive number".to_owned()))
        };
        match self.rope_type.as_str() {
            "default" => Ok(None),
            "linear" => Ok(Some(RopeScaling::Linear { factor: number("factor", self.factor)? })),
            "llama3" => Ok(Some(RopeScaling::Llama3 {
                factor: number("factor", self.factor)?,
                low_turns: number("low_freq_factor", self.low_freq_factor)?,
                high_turns: number("high_freq_factor", self.high_freq_factor)?,
                original_context: number("original_max_position_embeddings", self.original_max_position_embeddings)?,
            })),
            other => Err((format!("rope_scaling {other:?}"), "\"default\", \"linear\" or \"llama3\"".into())),
        }
    }
}

/// The safetensors files of a directory.
struct Files {
    directory: PathBuf,
    /// Where each tensor is.
    tensors: HashMap<String, Place>,
    open: HashMap<PathBuf, File>,
}

/// The place of a tensor.
struct Place {
    path: PathBuf,
    dtype: DType,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

impl Files {
    /// Reads the headers of `model.safetensors`, or of all files that `model.safetensors.index.json` names.
    fn open(directory: &Path) -> Result<Self, LoadError> {
        let mut files = Files { directory: directory.to_owned(), tensors: HashMap::new(), open: HashMap::new() };
        for name in files.names()? {
            files.add(directory.join(name))?;
        }
        Ok(files)
    }

    fn names(&self) -> Result<Vec<String>, LoadError> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let path = self.directory.join("model.safetensors.index.json");
        if !path.exists() {
            return Ok(vec!["model.safetensors".into()]);
        }
        let text = fs::read(&path).map_err(LoadError::io(&path))?;
        let index: Index = serde_json::from_slice(&text)
            .map_err(|error| LoadError::content(&path, error.to_string(), "an index of safetensors"))?;
        let mut names: Vec<String> = index.weight_map.into_values().collect();
        names.sort();
        names.dedup();
        if let Some(name) = names.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
            return Err(LoadError::content(&path, format!("file {name:?}"), "names of files in the same directory"));
        }
        Ok(names)
    }

    /// Reads the header of a file.
    fn add(&mut self, path: PathBuf) -> Result<(), LoadError> {
        let mut file = File::open(&path).map_err(LoadError::io(&path))?;
        let length = file.metadata().map_err(LoadError::io(&path))?.len();
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).map_err(LoadError::io(&path))?;
        let header = u64::from_le_bytes(prefix);
        if header > MAX_HEADER_BYTES || header > length.saturating_sub(8) {
            let found = format!("a header of {header} bytes in a file of {length}");
            return Err(LoadError::content(&path, found, "a whole safetensors file"));
        }
        let mut bytes = vec![];
        file.by_ref().take(header).read_to_end(&mut bytes).map_err(LoadError::io(&path))?;
        // Checks as well that the tensors lie one behind the other and have the bytes of their shapes.
        let metadata: Metadata = serde_json::from_slice(&bytes)
            .map_err(|error| LoadError::content(&path, error.to_string(), "a whole safetensors file"))?;
        for (name, info) in metadata.tensors() {
            let dtype = match info.dtype {
                safetensors::Dtype::F32 => DType::F32,
                safetensors::Dtype::F16 => DType::F16,
                safetensors::Dtype::BF16 => DType::BF16,
                _ => continue,
            };
            let (start, end) = info.data_offsets;
            let place = Place {
                path: path.clone(),
                dtype,
                shape: info.shape.clone(),
                start: 8 + header + start as u64,
                bytes: end - start,
            };
            if place.start + place.bytes as u64 > length {
                let found = format!("an end within tensor {name}");
                return Err(LoadError::content(&path, found, "a whole safetensors file"));
            }
            self.tensors.insert(name, place);
        }
        self.open.insert(path, file);
        Ok(())
    }

    fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let needed = format!("a tensor {name} of shape {shape:?} of type F32, F16 or BF16");
        let place = self
            .tensors
            .get(name)
            .ok_or_else(|| LoadError::content(&self.directory, "no such tensor", needed.clone()))?;
        let wrong = |found: String| LoadError::content(&place.path, found, needed.clone());
        if place.shape != shape {
            return Err(wrong(format!("shape {:?}", place.shape)));
        }
        let file = self.open.get_mut(&place.path).expect("every place is in an open file");
        let mut bytes = vec![0; place.bytes];
        file.seek(SeekFrom::Start(place.start)).map_err(LoadError::io(&place.path))?;
        file.read_exact(&mut bytes).map_err(LoadError::io(&place.path))?;
        let values = candle_core::Tensor::from_raw_buffer(&bytes, place.dtype, shape, &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| wrong(error.to_string()))?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(wrong("a weight that is not finite".into()));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_head_become_adjacent_pairs() {
        let matrix = Array2::from_shape_fn((8, 1), |(row, _)| row as f32);
        let found: Vec<f32> = adjacent_pairs(&matrix, 4).into_iter().collect();
        assert_eq!(found, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    }
}
