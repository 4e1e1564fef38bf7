//! The safetensors files of a directory.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;

use unspoken_llama_model::TensorName;

use crate::error::LoadError;

/// Maximum length of the header of a file.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// The one file, and the index of several.
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// What stands in front of the names of most tensors, unless the file is of a model without its head.
const PREFIX: &str = "model.";

/// The embedding, without it.
const EMBEDDING: &str = "embed_tokens.weight";

/// The safetensors files of a directory.
pub(super) struct Files {
    directory: PathBuf,
    /// Where each tensor is.
    tensors: HashMap<String, Place>,
    open: HashMap<PathBuf, File>,
    /// Tensors that were read.
    read: HashSet<String>,
}

/// The place of a tensor.
struct Place {
    path: PathBuf,
    dtype: Dtype,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

impl Files {
    /// Reads the header of `model.safetensors`. Without this file, reads the headers of all files that
    /// `model.safetensors.index.json` names.
    pub fn open(directory: &Path) -> Result<Self, LoadError> {
        let mut files = Files {
            directory: directory.to_owned(),
            tensors: HashMap::new(),
            open: HashMap::new(),
            read: HashSet::new(),
        };
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
        let path = self.directory.join(INDEX);
        let single = self.directory.join(SINGLE).exists();
        if !path.exists() {
            let needed = format!("it, or several files with {INDEX}; a whole model under another name must be renamed");
            let refused = || LoadError::content(&self.directory, format!("no {SINGLE}"), needed);
            return if single { Ok(vec![SINGLE.into()]) } else { Err(refused()) };
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
        // As other programs do: an index beside a whole file is an old one.
        Ok(if single { vec![SINGLE.into()] } else { names })
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
        // Checks as well that the tensors lie one after the other and have the bytes of their shapes.
        let metadata: Metadata = serde_json::from_slice(&bytes)
            .map_err(|error| LoadError::content(&path, error.to_string(), "a whole safetensors file"))?;
        for (name, info) in metadata.tensors() {
            let (start, end) = info.data_offsets;
            let place = Place {
                path: path.clone(),
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: 8 + header + start as u64,
                bytes: end - start,
            };
            if place.start + place.bytes as u64 > length {
                let found = format!("an end within tensor {name}");
                return Err(LoadError::content(&path, found, "a whole safetensors file"));
            }
            if let Some(other) = self.tensors.insert(name.clone(), place) {
                let found = format!("tensor {name}, which {} has too", other.path.display());
                return Err(LoadError::content(&path, found, "each tensor in one file"));
            }
        }
        self.open.insert(path, file);
        Ok(())
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// What stands in front of the names of most tensors.
    fn prefix(&self) -> &'static str {
        let bare = self.contains(EMBEDDING) && !self.contains(&format!("{PREFIX}{EMBEDDING}"));
        if bare { "" } else { PREFIX }
    }

    /// The name of a matrix or of gains of a layer.
    pub fn in_layer(&self, layer: usize, name: &str) -> String {
        format!("{}layers.{layer}.{name}.weight", self.prefix())
    }

    /// The name of a tensor in the files.
    pub fn name(&self, tensor: TensorName) -> String {
        let prefix = self.prefix();
        let in_layer = |layer: usize, name: &str| self.in_layer(layer, name);
        let bias = |layer: usize, name: &str| format!("{prefix}layers.{layer}.self_attn.{name}.bias");
        match tensor {
            TensorName::Embedding => format!("{prefix}{EMBEDDING}"),
            TensorName::AttentionNorm(layer) => in_layer(layer, "input_layernorm"),
            TensorName::Query(layer) => in_layer(layer, "self_attn.q_proj"),
            TensorName::Key(layer) => in_layer(layer, "self_attn.k_proj"),
            TensorName::Value(layer) => in_layer(layer, "self_attn.v_proj"),
            TensorName::Output(layer) => in_layer(layer, "self_attn.o_proj"),
            TensorName::FfnNorm(layer) => in_layer(layer, "post_attention_layernorm"),
            TensorName::Gate(layer) => in_layer(layer, "mlp.gate_proj"),
            TensorName::Up(layer) => in_layer(layer, "mlp.up_proj"),
            TensorName::Down(layer) => in_layer(layer, "mlp.down_proj"),
            TensorName::QueryBias(layer) => bias(layer, "q_proj"),
            TensorName::KeyBias(layer) => bias(layer, "k_proj"),
            TensorName::ValueBias(layer) => bias(layer, "v_proj"),
            TensorName::OutputBias(layer) => bias(layer, "o_proj"),
            TensorName::QueryNorm(layer) => in_layer(layer, "self_attn.q_norm"),
            TensorName::KeyNorm(layer) => in_layer(layer, "self_attn.k_norm"),
            TensorName::Norm => format!("{prefix}norm.weight"),
            TensorName::Head => "lm_head.weight".into(),
        }
    }

    /// Tensors that were not read.
    pub fn unread(&self) -> Vec<&str> {
        self.tensors.keys().filter(|name| !self.read.contains(*name)).map(String::as_str).collect()
    }

    /// Reads a tensor of a shape.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let needed = format!("a tensor {name} of shape {shape:?} of type F32, F16, BF16 or F64");
        let place = self
            .tensors
            .get(name)
            .ok_or_else(|| LoadError::content(&self.directory, "no such tensor", needed.clone()))?;
        let wrong = |found: String| LoadError::content(&place.path, found, needed.clone());
        if place.shape != shape {
            return Err(wrong(format!("shape {:?}", place.shape)));
        }
        let number: fn(&[u8]) -> f32 = match place.dtype {
            Dtype::F32 => |bytes| f32::from_le_bytes(entry(bytes)),
            Dtype::F16 => |bytes| f16::from_le_bytes(entry(bytes)).to_f32(),
            Dtype::BF16 => |bytes| bf16::from_le_bytes(entry(bytes)).to_f32(),
            Dtype::F64 => |bytes| f64::from_le_bytes(entry(bytes)) as f32,
            other => return Err(wrong(format!("type {other:?}"))),
        };
        let file = self.open.get_mut(&place.path).expect("every place is in an open file");
        let mut bytes = vec![0; place.bytes];
        file.seek(SeekFrom::Start(place.start)).map_err(LoadError::io(&place.path))?;
        file.read_exact(&mut bytes).map_err(LoadError::io(&place.path))?;
        let values: Vec<f32> = bytes.chunks_exact(place.dtype.bitsize() / 8).map(number).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(wrong("a weight that is not finite".into()));
        }
        self.read.insert(name.to_owned());
        Ok(values)
    }
}

/// The bytes of an entry, as many as its type has.
fn entry<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    bytes.try_into().expect("entries are cut by the length of their type")
}
