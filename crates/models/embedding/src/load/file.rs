//! Files that are read whole, with bounds.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::TableError;

/// Maximum bytes of a file: a table of 2^31 numbers and additional data.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 30;

/// Maximum bytes of a list of tokens.
pub(super) const MAX_TOKEN_FILE_BYTES: u64 = 256 << 20;

/// Maximum numbers of a table.
pub(super) const MAX_VALUES: usize = 1 << 31;

/// The width of an array of this shape, after checking that its values, of `each` bytes each, need at most `bytes`
/// bytes.
pub(super) fn width_of(path: &Path, shape: &[u64], each: u64, bytes: u64) -> Result<usize, TableError> {
    let refuse = |needed: &str| TableError::Array {
        path: path.to_owned(),
        found: format!("shape {shape:?}"),
        needed: needed.into(),
    };
    let [rows, width] = *shape else {
        return Err(refuse("two dimensions, tokens and width"));
    };
    let count = rows.checked_mul(width).filter(|&count| count <= MAX_VALUES as u64);
    match count.and_then(|count| count.checked_mul(each)) {
        None => Err(refuse("at most 2^31 values")),
        Some(needed) if needed > bytes => Err(refuse("no more values than the file has bytes for")),
        Some(_) => Ok(width as usize),
    }
}

/// Opens a file and returns its length.
pub(super) fn open(path: &Path) -> Result<(File, u64), TableError> {
    let failed = |source| TableError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok((file, length))
}

/// Reads a file of at most `most` bytes.
pub(super) fn read_all(path: &Path, most: u64) -> Result<Vec<u8>, TableError> {
    let failed = |source| TableError::Io { path: path.to_owned(), source };
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        let found = format!("more than {most} bytes");
        return Err(TableError::Array { path: path.to_owned(), found, needed: format!("at most {most}") });
    }
    Ok(bytes)
}
