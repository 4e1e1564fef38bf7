//! Key bundles of clients: the same for whole databases, shards and routers.

use std::io::Read;

use unspoken_pir_scheme::{KEY_FORMAT, KeyHeader, Mode, PirParameters, PreparedKeys, SeededKeys};
use unspoken_protocol::KeyLimits;

use crate::error::PirError;

/// Limits on keys of every mode.
pub(crate) fn limits(parameters: &PirParameters) -> KeyLimits {
    let most = |bytes: fn(&PirParameters, Mode) -> u64| Mode::ALL.into_iter().map(|mode| bytes(parameters, mode)).max();
    KeyLimits {
        format: KEY_FORMAT,
        front_bytes: KeyHeader::BYTES,
        max_bytes: most(SeededKeys::byte_len).unwrap_or_default(),
        memory_bytes: most(PreparedKeys::memory_bytes).unwrap_or_default(),
    }
}

/// Bytes of memory that the keys of a bundle of untrusted bytes will need, from its front.
pub(crate) fn memory_bytes(parameters: &PirParameters, front: &[u8]) -> Result<u64, PirError> {
    let mode = KeyHeader::read(parameters, front)?.mode();
    Ok(PreparedKeys::memory_bytes(parameters, mode))
}

/// Reads and expands a bundle of untrusted bytes.
pub(crate) fn load(parameters: &PirParameters, bundle: &mut impl Read) -> Result<PreparedKeys, PirError> {
    let prepared = PreparedKeys::read(parameters, bundle)?;
    match bundle.read(&mut [0]) {
        Ok(0) => Ok(prepared),
        Ok(_) => Err(PirError::mismatch("keys", "bytes after their end", "keys and nothing else")),
        Err(source) => Err(PirError::Io { what: "read keys", source }),
    }
}

/// Keys of these parameters serve every database.
pub(crate) fn check(parameters: &PirParameters, keys: &PreparedKeys) -> Result<(), PirError> {
    if keys.parameters().fingerprint() == parameters.fingerprint() {
        return Ok(());
    }
    let needed = format!("keys for preset {}", parameters.name());
    Err(PirError::mismatch("keys", "keys of other parameters", needed))
}
