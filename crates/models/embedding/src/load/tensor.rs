//! Reader of safetensors files.

use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};

use super::{MAX_FILE_BYTES, read_all, width_of};
use crate::error::TableError;

/// Maximum number of tensor names that an error shows.
const NAMES_SHOWN: usize = 8;

/// The width and the values, row-major, of one two-dimensional `f32` tensor.
pub(super) fn read(path: &Path, name: &str) -> Result<(usize, Vec<f32>), TableError> {
    let bytes = read_all(path, MAX_FILE_BYTES)?;
    let refuse = |found: String, needed: String| TableError::Array { path: path.to_owned(), found, needed };
    let file =
        SafeTensors::deserialize(&bytes).map_err(|error| refuse(error.to_string(), "a safetensors file".into()))?;
    let tensor = file.tensor(name).map_err(|_| {
        let names = file.names();
        let shown = names.iter().take(NAMES_SHOWN).map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
        refuse(format!("{} tensors, among them {shown}", names.len()), format!("one named {name:?}"))
    })?;
    if tensor.dtype() != Dtype::F32 {
        return Err(refuse(format!("type {} in tensor {name:?}", tensor.dtype()), "type F32".into()));
    }
    let shape: Vec<u64> = tensor.shape().iter().map(|&length| length as u64).collect();
    let width = width_of(path, &shape, tensor.data().len() as u64)?;
    let (values, _) = tensor.data().as_chunks();
    Ok((width, values.iter().map(|&value| f32::from_le_bytes(value)).collect()))
}
