//! NumPy files.

use std::io::{BufReader, Read};
use std::path::Path;

use npyz::{NpyFile, Order};

use super::{open, width_of};
use crate::error::TableError;

/// The width and the values, row-major, of a two-dimensional `f32` array.
pub(super) fn read(path: &Path) -> Result<(usize, Vec<f32>), TableError> {
    let (file, length) = open(path)?;
    let refuse = |found: String| TableError::Array {
        path: path.to_owned(),
        found,
        needed: "a NumPy file of f32 (save it with numpy.save and dtype float32)".into(),
    };
    let array = NpyFile::new(BufReader::new(file.take(length))).map_err(|error| refuse(error.to_string()))?;
    let width = width_of(path, array.shape(), length)?;
    let (order, count) = (array.order(), array.len() as usize);
    let dtype = array.dtype().descr();
    let values = array.data::<f32>().map_err(|_| refuse(format!("type {dtype}")))?;
    let values =
        values.collect::<Result<Vec<f32>, _>>().map_err(|error| refuse(format!("{error} before {count} values")))?;
    match order {
        Order::C => Ok((width, values)),
        Order::Fortran => Ok((width, transposed(&values, width))),
    }
}

/// Row-major from column-major values.
fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let rows = values.len() / width.max(1);
    (0..rows).flat_map(|row| (0..width).map(move |column| values[column * rows + row])).collect()
}
