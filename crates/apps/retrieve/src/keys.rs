//! Key bundles of clients: the same for whole databases, shards and routers.

use std::io::Read;

use unspoken_pir::{KeyHeader, Mode, PirParameters, PreparedKeys, SeededKeys};

use crate::error::RetrieveError;

/// Bytes of the longest bundle.
pub(crate) fn most_bundle_bytes(parameters: &PirParameters) -> u64 {
    Mode::ALL.into_iter().map(|mode| SeededKeys::byte_len(parameters, mode)).max().unwrap_or_default()
}

/// Bytes of memory of the largest prepared keys.
pub(crate) fn most_memory_bytes(parameters: &PirParameters) -> u64 {
    Mode::ALL.into_iter().map(|mode| PreparedKeys::memory_bytes(parameters, mode)).max().unwrap_or_default()
}

/// Bytes of memory that the keys of a bundle of untrusted bytes will need, from its front.
pub(crate) fn memory_bytes(parameters: &PirParameters, front: &[u8]) -> Result<u64, RetrieveError> {
    let mode = KeyHeader::read(parameters, front)?.mode();
    Ok(PreparedKeys::memory_bytes(parameters, mode))
}

/// Reads and expands a bundle of untrusted bytes.
pub(crate) fn load(parameters: &PirParameters, bundle: &mut impl Read) -> Result<PreparedKeys, RetrieveError> {
    let prepared = PreparedKeys::read(parameters, bundle)?;
    match bundle.read(&mut [0]) {
        Ok(0) => Ok(prepared),
        Ok(_) => Err(RetrieveError::mismatch("keys", "bytes after their end", "keys and nothing else")),
        Err(source) => Err(RetrieveError::Io { what: "read keys", source }),
    }
}

/// Keys of these parameters serve every database.
pub(crate) fn check(parameters: &PirParameters, keys: &PreparedKeys) -> Result<(), RetrieveError> {
    if keys.parameters().fingerprint() == parameters.fingerprint() {
        return Ok(());
    }
    let needed = format!("keys for preset {}", parameters.name());
    Err(RetrieveError::mismatch("keys", "keys of other parameters", needed))
}
