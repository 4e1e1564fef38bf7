//! Reader and writer of one pair of files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use unspoken_files::Access;

use crate::error::StoreError;

/// Maximum bytes of a JSON file: far above a vocabulary of a million words.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// Maximum bytes of a weights file: far above a million codes or 16 x 1024 x 4096 scores.
const MAX_WEIGHTS_BYTES: u64 = 640 << 20;

/// The files of a model, to be read.
#[derive(Clone, Copy, Debug)]
pub enum ModelFiles<'a> {
    /// Files of a directory.
    Directory(&'a Path),
    /// The bytes of files, by name.
    Memory(&'a BTreeMap<String, Vec<u8>>),
}

impl ModelFiles<'_> {
    /// The path of a file in messages: in the directory, or the name alone.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            ModelFiles::Directory(directory) => directory.join(name),
            ModelFiles::Memory(_) => name.into(),
        }
    }

    /// Reads a file of at most `most` bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::TooLarge`].
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, StoreError> {
        let (path, what) = (self.path(name), "a model file");
        match self {
            ModelFiles::Directory(_) => read_file(&path, what, most),
            ModelFiles::Memory(files) => match files.get(name) {
                None => Err(StoreError::io("read", &path)(ErrorKind::NotFound.into())),
                Some(bytes) if bytes.len() as u64 > most => Err(StoreError::TooLarge { path, what, most }),
                Some(bytes) => Ok(bytes.clone()),
            },
        }
    }
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for ModelFiles<'a> {
    fn from(directory: &'a P) -> Self {
        ModelFiles::Directory(directory.as_ref())
    }
}

/// The two files of a half, `name.json` and `name.safetensors`: their name, and the kind and version that the JSON
/// states.
#[derive(Clone, Copy, Debug)]
pub struct FilePair {
    name: &'static str,
    kind: &'static str,
    version: u32,
    oldest: u32,
}

/// Header of every JSON file, which is read before the rest.
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

impl FilePair {
    /// The pair `name.json` and `name.safetensors` of this kind and version.
    pub const fn new(name: &'static str, kind: &'static str, version: u32) -> Self {
        Self { name, kind, version, oldest: version }
    }

    /// Also reads files of the versions from `oldest`, whose content has the same fields or fewer.
    pub const fn reading_from(self, oldest: u32) -> Self {
        Self { oldest, ..self }
    }

    fn json(&self) -> String {
        format!("{}.json", self.name)
    }

    fn weights(&self) -> String {
        format!("{}.safetensors", self.name)
    }

    /// Whether files have the JSON of a pair of this kind, of any version.
    pub fn is_in(&self, files: ModelFiles<'_>) -> bool {
        let header =
            files.read(&self.json(), MAX_JSON_BYTES).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        header.is_some_and(|header: Header| header.format == self.kind)
    }

    /// Reads the JSON, of at most 256 MiB: its format and version first, then all of it.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::TooLarge`], [`StoreError::Json`] or [`StoreError::Format`].
    pub fn read_json<T: DeserializeOwned>(&self, files: ModelFiles<'_>) -> Result<T, StoreError> {
        let name = self.json();
        let bytes = files.read(&name, MAX_JSON_BYTES)?;
        let path = files.path(&name);
        let malformed = StoreError::json(&path);
        let header: Header = serde_json::from_slice(&bytes).map_err(malformed)?;
        if header.format != self.kind || !(self.oldest..=self.version).contains(&header.version) {
            return Err(StoreError::Format {
                path,
                found: format!("{} version {}", header.format, header.version),
                needed: format!("{} version {}", self.kind, self.versions()),
            });
        }
        let document: Document<T> = serde_json::from_slice(&bytes).map_err(malformed)?;
        Ok(document.model)
    }

    fn versions(&self) -> String {
        if self.oldest == self.version {
            self.version.to_string()
        } else {
            format!("{} to {}", self.oldest, self.version)
        }
    }

    /// Reads the weights: one tensor with this name, type and shape, in a file with this checksum and at most 640 MiB.
    /// Returns its bytes, little-endian.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::TooLarge`], [`StoreError::Checksum`] or [`StoreError::Tensor`].
    pub fn read_weights(
        &self,
        files: ModelFiles<'_>,
        blake3: &str,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<Vec<u8>, StoreError> {
        let path = files.path(&self.weights());
        let bytes = files.read(&self.weights(), MAX_WEIGHTS_BYTES)?;
        let found = checksum(&bytes);
        if found != blake3 {
            return Err(StoreError::Checksum { path, found, needed: blake3.to_owned() });
        }
        let needed = format!("one tensor {name:?} of type {dtype} and shape {shape:?}");
        let refuse = |found: String| StoreError::tensor(&path, found, &needed);
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

    /// Writes one tensor, given as little-endian bytes, and returns the checksum of its file. The directory is created
    /// when absent.
    ///
    /// # Errors
    /// [`StoreError::Io`], or [`StoreError::Tensor`] if data and shape do not match.
    pub fn write_weights(
        &self,
        directory: &Path,
        name: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        data: &[u8],
    ) -> Result<String, StoreError> {
        let (file, bytes) = self.weights_file(name, dtype, shape, data)?;
        write_file(&directory.join(file), &bytes)?;
        Ok(checksum(&bytes))
    }

    /// As [`Self::write_weights`], but returns the name and the bytes of the file.
    ///
    /// # Errors
    /// [`StoreError::Tensor`] if data and shape do not match.
    pub fn weights_file(
        &self,
        name: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        data: &[u8],
    ) -> Result<(String, Vec<u8>), StoreError> {
        let file = self.weights();
        let needed = format!("a tensor {name:?} that safetensors can hold");
        let refuse = |error: safetensors::SafeTensorError| StoreError::tensor(file.as_ref(), error, &needed);
        let view = TensorView::new(dtype, shape, data).map_err(refuse)?;
        let bytes = safetensors::serialize([(name, view)], None).map_err(refuse)?;
        Ok((file, bytes))
    }

    /// Writes the JSON, indented, format and version first. The directory is created when absent.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Json`].
    pub fn write_json(&self, directory: &Path, model: &impl Serialize) -> Result<(), StoreError> {
        let (file, bytes) = self.json_file(model)?;
        write_file(&directory.join(file), &bytes)
    }

    /// As [`Self::write_json`], but returns the name and the bytes of the file.
    ///
    /// # Errors
    /// [`StoreError::Json`].
    pub fn json_file(&self, model: &impl Serialize) -> Result<(String, Vec<u8>), StoreError> {
        let file = self.json();
        let document = Document { format: self.kind.to_owned(), version: self.version, model };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(StoreError::json(file.as_ref()))?;
        bytes.push(b'\n');
        Ok((file, bytes))
    }
}

fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Reads a file of at most `most` bytes. `what` says in an error what the file is, such as "a mail".
///
/// # Errors
/// [`StoreError::Io`] or [`StoreError::TooLarge`].
pub fn read_file(path: &Path, what: &'static str, most: u64) -> Result<Vec<u8>, StoreError> {
    let failed = StoreError::io("read", path);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(StoreError::TooLarge { path: path.to_owned(), what, most });
    }
    Ok(bytes)
}

/// Replaces a file atomically. Creates its directory if it is missing.
///
/// # Errors
/// [`StoreError::Io`].
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let attempt = || {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        unspoken_files::replace_file(path, bytes, Access::Umask)
    };
    attempt().map_err(StoreError::io("write", path))
}
