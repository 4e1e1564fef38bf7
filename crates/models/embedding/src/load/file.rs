//! Files with bounds.

use std::fs::File;
use std::path::Path;

use unspoken_store::StoreError;

use crate::error::EmbeddingError;

/// Maximum bytes of a file: a table of 2^31 numbers and additional data.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 30;

/// Maximum bytes of a list of tokens.
pub(super) const MAX_TOKEN_FILE_BYTES: u64 = 256 << 20;

/// Maximum numbers of a table.
pub(super) const MAX_VALUES: usize = 1 << 31;

/// The width of an array of this shape, after checking that its values, of `each` bytes each, need at most `bytes`
/// bytes.
pub(super) fn width_of(path: &Path, shape: &[u64], each: u64, bytes: u64) -> Result<usize, EmbeddingError> {
    let refuse = |needed: &str| EmbeddingError::array(path, format!("shape {shape:?}"), needed);
    let [rows, width] = *shape else {
        return Err(refuse("two dimensions: rows, and width"));
    };
    let count = rows.checked_mul(width).filter(|&count| count <= MAX_VALUES as u64);
    match count.and_then(|count| count.checked_mul(each)) {
        None => Err(refuse("at most 2^31 values")),
        Some(needed) if needed > bytes => Err(refuse("no more values than the file has bytes for")),
        Some(_) => Ok(width as usize),
    }
}

/// Opens a file and returns its length.
pub(super) fn open(path: &Path) -> Result<(File, u64), StoreError> {
    let failed = StoreError::io("read", path);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok((file, length))
}
