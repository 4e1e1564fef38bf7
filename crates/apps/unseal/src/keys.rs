//! The bundle of an application that needs no evaluation keys: 8 bytes, which register a client with a service.

use std::io::{Read, Write};

use unspoken_protocol::KeySetId;

use crate::error::UnsealError;

/// The bundle, which is also what a client stores as its secret: there is none.
pub(crate) const BUNDLE: [u8; 8] = *b"UNSEAL\0\x01";

/// Version of the format of bundles.
pub(crate) const FORMAT: u32 = 1;

/// The key set of this application.
pub(crate) fn key_set() -> KeySetId {
    KeySetId::new("no evaluation keys", &[0; 16])
}

/// Checks a bundle, or its start, of untrusted bytes. `what` names them.
pub(crate) fn check(what: &'static str, bytes: &[u8]) -> Result<(), UnsealError> {
    match bytes == BUNDLE {
        true => Ok(()),
        false => Err(UnsealError::mismatch(what, "other bytes", "the 8 bytes of a client without keys")),
    }
}

/// Reads a whole bundle of untrusted bytes.
pub(crate) fn load(bundle: &mut impl Read) -> Result<(), UnsealError> {
    let mut bytes = Vec::new();
    let read = bundle.take(BUNDLE.len() as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| UnsealError::Io { what: "read keys", source })?;
    check("keys", &bytes)
}

/// Writes the bundle.
pub(crate) fn write(out: &mut impl Write) -> Result<(), UnsealError> {
    out.write_all(&BUNDLE).map_err(|source| UnsealError::Io { what: "write keys", source })
}
