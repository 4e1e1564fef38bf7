//! The bundle of an application that needs no evaluation keys: it registers a client with a service. It has a random
//! number, so that clients without tokens have bundles of their own.

use std::io::{Read, Write};

use unspoken_protocol::KeySetId;

use crate::error::UnsealError;

/// A bundle, which is also what a client stores as its secret: 8 fixed bytes and a random number.
pub(crate) type Bundle = [u8; BUNDLE_BYTES];

/// Bytes of a bundle.
pub(crate) const BUNDLE_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"UNSEAL\0\x01";

/// Version of the format of bundles.
pub(crate) const FORMAT: u32 = 1;

/// The key set of this application.
pub(crate) fn key_set() -> KeySetId {
    KeySetId::new("no evaluation keys", &[0; 16])
}

/// A new bundle.
pub(crate) fn generate() -> Result<Bundle, UnsealError> {
    let mut bundle = [0; BUNDLE_BYTES];
    let (magic, number) = bundle.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let failed = |error: getrandom::Error| UnsealError::Io {
        what: "draw a random number",
        source: std::io::Error::other(error.to_string()),
    };
    getrandom::fill(number).map_err(failed)?;
    Ok(bundle)
}

/// Reads a bundle of untrusted bytes. `what` names them.
pub(crate) fn read(what: &'static str, bytes: &[u8]) -> Result<Bundle, UnsealError> {
    match Bundle::try_from(bytes) {
        Ok(bundle) if bundle.starts_with(&MAGIC) => Ok(bundle),
        _ => Err(UnsealError::mismatch(what, "other bytes", "the 24 bytes of a client without keys")),
    }
}

/// Reads a whole bundle of untrusted bytes.
pub(crate) fn load(bundle: &mut impl Read) -> Result<(), UnsealError> {
    let mut bytes = Vec::new();
    let taken = bundle.take(BUNDLE_BYTES as u64 + 1).read_to_end(&mut bytes);
    taken.map_err(|source| UnsealError::Io { what: "read keys", source })?;
    read("keys", &bytes).map(drop)
}

/// Writes a bundle.
pub(crate) fn write(bundle: &Bundle, out: &mut impl Write) -> Result<(), UnsealError> {
    out.write_all(bundle).map_err(|source| UnsealError::Io { what: "write keys", source })
}
