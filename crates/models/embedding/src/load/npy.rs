//! Reader of NumPy files.

use std::io::{BufReader, Read};
use std::path::Path;

use half::f16;
use npyz::{DType, Deserialize, NpyFile, Order};

use super::file::{open, width_of};
use crate::error::EmbeddingError;

/// First bytes of a NumPy file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum bytes of a header; the header of a plain array has about a hundred.
const MAX_HEADER_BYTES: usize = 4096;
/// Maximum number of opening brackets in a header; the header of a plain array has two.
const MAX_BRACKETS: usize = 16;
/// Maximum number of decimal digits in a header, so that the product of its numbers is below 2^64.
const MAX_DIGITS: usize = 19;

/// The width and the values, row-major, of a two-dimensional array of floating-point numbers.
pub(super) fn read(path: &Path) -> Result<(usize, Vec<f32>), EmbeddingError> {
    let (file, length) = open(path)?;
    let needed = "a NumPy file of float16, float32 or float64 (save it with numpy.save)";
    let refuse = |found: String| EmbeddingError::array(path, found, needed);
    let mut reader = BufReader::new(file.take(length));
    let head = read_head(&mut reader).map_err(refuse)?;
    let array = NpyFile::new(head.as_slice().chain(reader)).map_err(|error| refuse(error.to_string()))?;
    let order = array.order();
    // Of numbers the last character is the size in bytes.
    let DType::Plain(dtype) = array.dtype() else { return Err(refuse(format!("type {}", array.dtype().descr()))) };
    let width = width_of(path, array.shape(), dtype.size_field(), length)?;
    let values = match dtype.size_field() {
        2 => numbers(array, <f32 as From<f16>>::from),
        4 => numbers(array, |value: f32| value),
        // Too large a number becomes infinite and is refused with its place.
        _ => numbers(array, |value: f64| value as f32),
    };
    let values = values.map_err(refuse)?;
    match order {
        Order::C => Ok((width, values)),
        Order::Fortran => Ok((width, transposed(&values, width))),
    }
}

/// The numbers of an array; `Err` says what is wrong.
fn numbers<T: Deserialize, R: Read>(array: NpyFile<R>, convert: impl Fn(T) -> f32) -> Result<Vec<f32>, String> {
    let (count, dtype) = (array.len(), array.dtype().descr());
    let values = array.data::<T>().map_err(|_| format!("type {dtype}"))?;
    let values = values.map(|value| value.map(&convert)).collect::<Result<Vec<f32>, _>>();
    values.map_err(|error| format!("{error} before {count} values"))
}

/// Reads the bytes before the data and checks them; `Err` says what is wrong. `npyz` allocates the length that a header
/// announces, recurses into nested brackets without a limit, and multiplies dimensions without overflow checks. Headers
/// that could exploit this are refused.
fn read_head(reader: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut read = |head: &mut Vec<u8>, count: usize| {
        let start = head.len();
        head.resize(start + count, 0);
        reader.read_exact(&mut head[start..]).map_err(|error| error.to_string())
    };
    let mut head = Vec::new();
    read(&mut head, MAGIC.len() + 2)?;
    if !head.starts_with(MAGIC) {
        return Err("another file".into());
    }
    // Two bytes of length in version 1.0, four in the later ones.
    let mut length = [0; 4];
    let field = if head[MAGIC.len()] == 1 { 2 } else { 4 };
    let start = head.len();
    read(&mut head, field)?;
    length[..field].copy_from_slice(&head[start..]);
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER_BYTES {
        return Err(format!("a header of {length} bytes"));
    }
    let start = head.len();
    read(&mut head, length)?;
    let text = &head[start..];
    let brackets = text.iter().filter(|byte| b"([{".contains(byte)).count();
    if brackets > MAX_BRACKETS {
        return Err(format!("a header of {brackets} brackets"));
    }
    // Refuse numbers in other bases, because only decimal digits are counted.
    let other_base = text.windows(2).any(|pair| pair[0] == b'0' && pair[1].is_ascii_alphabetic());
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    if other_base || digits > MAX_DIGITS {
        return Err("a header of larger numbers than any table has".into());
    }
    Ok(head)
}

/// Converts column-major values to row-major.
fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let rows = values.len() / width.max(1);
    (0..rows).flat_map(|row| (0..width).map(move |column| values[column * rows + row])).collect()
}
