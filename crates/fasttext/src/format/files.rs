//! Reading and writing one pair of files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::error::ModelError;

/// Largest JSON file read: far above a vocabulary of a million words.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// Largest weights file read: far above a million codes or 16 x 1024 x 4096 scores.
const MAX_WEIGHTS_BYTES: u64 = 640 << 20;

/// One half's two files.
pub(super) struct Pair {
    pub(super) json: PathBuf,
    pub(super) weights: PathBuf,
    kind: &'static str,
}

/// What every JSON file begins with; read before the rest.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// A whole JSON file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<T> {
    format: String,
    version: u32,
    model: T,
}

impl Pair {
    /// The pair `name.json` and `name.safetensors` in `directory`, whose JSON says
    /// that it is of this kind.
    pub(super) fn new(directory: &Path, name: &str, kind: &'static str) -> Self {
        Self {
            json: directory.join(format!("{name}.json")),
            weights: directory.join(format!("{name}.safetensors")),
            kind,
        }
    }

    /// Reads the JSON: its format and version first, then all of it.
    pub(super) fn read_json<T: DeserializeOwned>(&self) -> Result<T, ModelError> {
        let bytes = read(&self.json, MAX_JSON_BYTES)?;
        let malformed = |source| ModelError::Json { path: self.json.clone(), source };
        let header: Header = serde_json::from_slice(&bytes).map_err(malformed)?;
        if header.format != self.kind || header.version != VERSION {
            return Err(ModelError::Format {
                path: self.json.clone(),
                found: format!("{} version {}", header.format, header.version),
                needed: format!("{} version {VERSION}", self.kind),
            });
        }
        let document: Document<T> = serde_json::from_slice(&bytes).map_err(malformed)?;
        Ok(document.model)
    }

    /// Reads the weights: one tensor of this name, type and shape, whose file has
    /// this checksum. Returns its bytes, little-endian.
    pub(super) fn read_weights(
        &self,
        blake3: &str,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<Vec<u8>, ModelError> {
        let bytes = read(&self.weights, MAX_WEIGHTS_BYTES)?;
        let found = checksum(&bytes);
        if found != blake3 {
            return Err(ModelError::Checksum { path: self.weights.clone(), found, needed: blake3.to_owned() });
        }
        let refuse = |found: String| ModelError::Tensor {
            path: self.weights.clone(),
            found,
            needed: format!("one tensor {name:?} of type {dtype} and shape {shape:?}"),
        };
        let file = SafeTensors::deserialize(&bytes).map_err(|error| refuse(error.to_string()))?;
        if file.len() != 1 {
            return Err(refuse(format!("{} tensors", file.len())));
        }
        let tensor = file.tensor(name).map_err(|error| refuse(error.to_string()))?;
        if tensor.dtype() != dtype || tensor.shape() != shape {
            let found = format!("type {} and shape {:?}", tensor.dtype(), tensor.shape());
            return Err(refuse(found));
        }
        Ok(tensor.data().to_vec())
    }

    /// Writes one tensor and returns the checksum of its file.
    pub(super) fn write_weights(
        &self,
        name: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        data: &[u8],
    ) -> Result<String, ModelError> {
        let refuse = |error: safetensors::SafeTensorError| ModelError::Tensor {
            path: self.weights.clone(),
            found: error.to_string(),
            needed: format!("a tensor {name:?} that safetensors can hold"),
        };
        let view = TensorView::new(dtype, shape, data).map_err(refuse)?;
        let bytes = safetensors::serialize([(name, view)], None).map_err(refuse)?;
        write(&self.weights, &bytes)?;
        Ok(checksum(&bytes))
    }

    /// Writes the JSON, indented, format and version first.
    pub(super) fn write_json(&self, model: &impl Serialize) -> Result<(), ModelError> {
        let document = Document { format: self.kind.to_owned(), version: VERSION, model };
        let mut bytes = serde_json::to_vec_pretty(&document)
            .map_err(|source| ModelError::Json { path: self.json.clone(), source })?;
        bytes.push(b'\n');
        write(&self.json, &bytes)
    }
}

fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let failed = |source| ModelError::Io { operation: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(ModelError::TooLarge { path: path.to_owned(), most });
    }
    Ok(bytes)
}

/// Writes beside the file, then takes its place.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    let attempt = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut file = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The process's mask still applies; the default would be owner only.
            file.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = file.tempfile_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().map_err(|source| ModelError::Io { operation: "write", path: path.to_owned(), source })
}
