//! Hashes of chunks of large files, so that damage can be located.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rayon::prelude::*;

use crate::error::{DatabaseError, io_error};

/// Bytes of a hash.
pub(crate) const HASH_BYTES: usize = blake3::OUT_LEN;

/// Bytes of a chunk.
const CHUNK_BYTES: u64 = 16 << 20;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Number of chunks of a file.
pub(crate) fn chunks(bytes: u64) -> usize {
    bytes.div_ceil(CHUNK_BYTES) as usize
}

/// Hashes of the chunks of a file, concatenated. Uses all threads.
pub(crate) fn hashes(file: &File, path: &Path, bytes: u64) -> Result<Vec<u8>, DatabaseError> {
    let hash = |chunk: usize| hash_chunk(file, bytes, chunk as u64);
    let hashes: Vec<blake3::Hash> =
        (0..chunks(bytes)).into_par_iter().map(hash).collect::<Result<_, _>>().map_err(io_error("read", path))?;
    Ok(hashes.iter().flat_map(|hash| *hash.as_bytes()).collect())
}

/// Compares the chunks of a file with their hashes. Uses all threads.
pub(crate) fn verify(file: &File, path: &Path, bytes: u64, expected: &[u8]) -> Result<(), DatabaseError> {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let found = file.metadata().map_err(io_error("open", path))?.len();
    if found != bytes {
        let range = found.min(bytes)..found.max(bytes);
        return Err(DatabaseError::Corrupted { file: name(), bytes: range, what: "its length is wrong" });
    }
    let check = |chunk: usize| -> Result<(), DatabaseError> {
        let hash = hash_chunk(file, bytes, chunk as u64).map_err(io_error("read", path))?;
        if expected.get(chunk * HASH_BYTES..(chunk + 1) * HASH_BYTES) == Some(hash.as_bytes()) {
            return Ok(());
        }
        let start = chunk as u64 * CHUNK_BYTES;
        let range = start..bytes.min(start + CHUNK_BYTES);
        Err(DatabaseError::Corrupted { file: name(), bytes: range, what: "its hash is wrong" })
    };
    (0..chunks(bytes)).into_par_iter().try_for_each(check)
}

fn hash_chunk(file: &File, bytes: u64, chunk: u64) -> io::Result<blake3::Hash> {
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; READ_BYTES]);
    let (mut at, end) = (chunk * CHUNK_BYTES, bytes.min((chunk + 1) * CHUNK_BYTES));
    while at < end {
        let length = (end - at).min(READ_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..length], at)?;
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    Ok(hasher.finalize())
}
