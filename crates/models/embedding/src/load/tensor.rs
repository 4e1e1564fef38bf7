//! Reader of safetensors files.

use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors};
use unspoken_store::read_file;

use super::file::{MAX_FILE_BYTES, width_of};
use crate::error::EmbeddingError;

/// Maximum number of tensor names that an error shows.
const NAMES_SHOWN: usize = 8;

/// The width and the values, row-major, of one two-dimensional tensor of floating-point numbers: the one of this name,
/// or the only one.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<(usize, Vec<f32>), EmbeddingError> {
    let bytes = read_file(path, "a table", MAX_FILE_BYTES)?;
    let refuse = |found: String, needed: String| EmbeddingError::array(path, found, needed);
    let file =
        SafeTensors::deserialize(&bytes).map_err(|error| refuse(error.to_string(), "a safetensors file".into()))?;
    let names = file.names();
    let only = if let [only] = names[..] { Some(only) } else { None };
    let needed = || name.map_or("the name of one".to_owned(), |name| format!("one named {name:?}"));
    let chosen = name.or(only).and_then(|name| Some((name, file.tensor(name).ok()?)));
    let (name, tensor) = chosen.ok_or_else(|| {
        let shown = names.iter().take(NAMES_SHOWN).map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
        refuse(format!("{} tensors, among them {shown}", names.len()), needed())
    })?;
    let data = tensor.data();
    let (each, values) = match tensor.dtype() {
        Dtype::F16 => (2, numbers(data, |bytes| f16::from_le_bytes(bytes).into())),
        Dtype::BF16 => (2, numbers(data, |bytes| bf16::from_le_bytes(bytes).into())),
        Dtype::F32 => (4, numbers(data, f32::from_le_bytes)),
        // Too large a number becomes infinite and is refused with its place.
        Dtype::F64 => (8, numbers(data, |bytes| f64::from_le_bytes(bytes) as f32)),
        other => {
            return Err(refuse(format!("type {other} in tensor {name:?}"), "type F16, BF16, F32 or F64".into()));
        }
    };
    let shape: Vec<u64> = tensor.shape().iter().map(|&length| length as u64).collect();
    let width = width_of(path, &shape, each, data.len() as u64)?;
    Ok((width, values))
}

/// Numbers of `N` bytes each.
fn numbers<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    data.as_chunks().0.iter().map(|&bytes| read(bytes)).collect()
}
