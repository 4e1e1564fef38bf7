//! Encryption of a record: XChaCha20-Poly1305 under a key from the pseudorandom function.
//!
//! A sealed record consists of a random nonce of 24 bytes, the ciphertext, and a tag of 16 bytes. The plaintext is the
//! length of the record (4 bytes, little-endian), the record, and zeros up to the padded length.
//!
//! | bytes | content |
//! | ---: | --- |
//! | 24 | random nonce |
//! | 4 | length of the record, encrypted |
//! | `record_bytes` | the record and zeros, encrypted |
//! | 16 | tag |
//!
//! The cipher is XChaCha20-Poly1305; database id, padded length and label are its associated data. A record has 44
//! bytes more than the padded length. All records of a database have one length, so that its length does not tell a
//! record from another; a longer record is refused. An update takes a new nonce of 24 random bytes. So two contents of
//! one record are never encrypted under the same key and nonce, also if a database is restored from a backup and
//! changed again. No counter has to be stored.

use std::fmt;

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::error::SymmetricPirError;
use crate::oprf::Output;
use crate::sealing::Sealing;

/// Bytes of a label.
pub const LABEL_BYTES: usize = 32;

/// Bytes of a nonce. Random nonces of this length do not repeat in practice.
const NONCE_BYTES: usize = 24;

/// Bytes of a tag.
const TAG_BYTES: usize = 16;

/// Bytes of the length in front of a record.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Bytes of a sealed record beside the padded record: nonce, length and tag.
pub const OVERHEAD_BYTES: usize = NONCE_BYTES + LENGTH_BYTES + TAG_BYTES;

/// Bytes of an encryption key.
const KEY_BYTES: usize = 32;

/// The key of one record, for all versions of its content, and the label under which it is stored. Wiped when dropped;
/// on the heap, so that moving it leaves no copy.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RecordKey(Box<Derived>);

#[derive(Clone, Zeroize)]
struct Derived {
    label: [u8; LABEL_BYTES],
    key: [u8; KEY_BYTES],
}

/// Does not print the key.
impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").finish_non_exhaustive()
    }
}

impl RecordKey {
    pub(crate) fn derive(output: &Output) -> Self {
        let derive = |context, out: &mut [u8]| {
            let mut hasher = blake3::Hasher::new_derive_key(context);
            hasher.update(output.as_slice()).finalize_xof().fill(out);
            hasher.zeroize();
        };
        let mut derived = Box::new(Derived { label: [0; LABEL_BYTES], key: [0; KEY_BYTES] });
        derive("unspoken 2026 label of a sealed record", &mut derived.label);
        derive("unspoken 2026 encryption key of a sealed record", &mut derived.key);
        RecordKey(derived)
    }

    /// The label, which takes the place of the record's key in a database that is read by key. It is pseudorandom:
    /// without an evaluation of the function, nobody can tell which name it belongs to.
    pub fn label(&self) -> &[u8; LABEL_BYTES] {
        &self.0.label
    }

    /// Encrypts a record. The result has [`OVERHEAD_BYTES`] and the padded length, whatever the record is. Each call
    /// takes a new random nonce, so a record may be sealed again with another content.
    ///
    /// # Errors
    /// [`SymmetricPirError::TooLong`] if the record is longer than the padded length; if the system has no randomness.
    pub fn seal(&self, sealing: &Sealing, record: &[u8]) -> Result<Vec<u8>, SymmetricPirError> {
        let padded = sealing.record_bytes() as usize;
        let length = u32::try_from(record.len()).ok().filter(|&length| length <= sealing.record_bytes());
        let Some(length) = length else {
            return Err(SymmetricPirError::TooLong { found: record.len(), needed: sealing.record_bytes() });
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(SymmetricPirError::Randomness)?;
        let mut sealed = Vec::with_capacity(OVERHEAD_BYTES + padded);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&length.to_le_bytes());
        sealed.extend_from_slice(record);
        sealed.resize(NONCE_BYTES + LENGTH_BYTES + padded, 0);
        let plain = (&mut sealed[NONCE_BYTES..]).into();
        let tag = self.cipher().encrypt_inout_detached(&XNonce::from(nonce), &self.context(sealing), plain);
        let too_long = |_| SymmetricPirError::TooLong { found: record.len(), needed: sealing.record_bytes() };
        sealed.extend_from_slice(&tag.map_err(too_long)?);
        Ok(sealed)
    }

    /// Decrypts a sealed record of untrusted bytes.
    ///
    /// # Errors
    /// If it has another length than a sealed record of this database, or [`SymmetricPirError::Unopened`] if it was
    /// sealed with another key, or changed since.
    pub fn open(&self, sealing: &Sealing, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SymmetricPirError> {
        let needed = OVERHEAD_BYTES + sealing.record_bytes() as usize;
        if sealed.len() != needed {
            let needed = format!("{needed} bytes, as all records of this database have; connect again");
            return Err(SymmetricPirError::mismatch("sealed record", format!("{} bytes", sealed.len()), needed));
        }
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(SymmetricPirError::Unopened)?;
        let (cipher, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(SymmetricPirError::Unopened)?;
        let mut plain = Zeroizing::new(cipher.to_vec());
        let buffer = plain.as_mut_slice().into();
        self.cipher()
            .decrypt_inout_detached(&XNonce::from(*nonce), &self.context(sealing), buffer, &Tag::from(*tag))
            .map_err(|_| SymmetricPirError::Unopened)?;
        unpadded(&plain)
    }

    fn cipher(&self) -> Box<XChaCha20Poly1305> {
        Box::new(XChaCha20Poly1305::new((&self.0.key).into()))
    }

    /// Associated data: the database, the padded length, and the label.
    fn context(&self, sealing: &Sealing) -> Vec<u8> {
        [&sealing.id()[..], &sealing.record_bytes().to_le_bytes(), &self.0.label].concat()
    }
}

/// The record in an authentic plaintext, which someone who has the key wrote. The time of this function alone depends
/// on the length of the record. Not inlined, so that tools can name it.
#[inline(never)]
fn unpadded(plain: &[u8]) -> Result<Zeroizing<Vec<u8>>, SymmetricPirError> {
    let wrong = || SymmetricPirError::mismatch("opened record", "wrong padding", "a record, its length, and zeros");
    let (length, content) = plain.split_first_chunk::<LENGTH_BYTES>().ok_or_else(wrong)?;
    let (record, zeros) = content.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(wrong)?;
    match zeros.iter().fold(0, |seen, byte| seen | byte) {
        0 => Ok(Zeroizing::new(record.to_vec())),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_checked() {
        let plain = |length: u32, content: &[u8]| [&length.to_le_bytes()[..], content].concat();
        assert_eq!(*unpadded(&plain(2, b"ab\0\0")).unwrap(), b"ab");
        assert_eq!(*unpadded(&plain(4, b"ab\0\0")).unwrap(), b"ab\0\0");
        for wrong in [plain(1, b"ab\0\0"), plain(5, b"ab\0\0"), plain(u32::MAX, b"ab"), vec![0; 3]] {
            let error = unpadded(&wrong).unwrap_err().to_string();
            assert_eq!(error, "opened record: found wrong padding, needed a record, its length, and zeros");
        }
    }
}
