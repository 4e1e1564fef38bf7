//! What the owner of a sealed database and its clients must agree on. Nothing of it is secret.

use voprf::{Group, Ristretto255};
use zeroize::{Zeroize, Zeroizing};

use crate::error::SymmetricPirError;
use crate::oprf::{ELEMENT_BYTES, PublicElement, read_element};

/// Bytes of the id of a sealed database.
pub const DATABASE_ID_BYTES: usize = 16;

/// Bytes of the public key of a service.
pub const PUBLIC_KEY_BYTES: usize = ELEMENT_BYTES;

/// Longest padded record, in bytes: the longest cell of a database, 1 MiB, holds it sealed.
pub const MAX_RECORD_BYTES: u32 = (1 << 20) - 64;

/// Under what a record is stored.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// The key of a record in a database that is read by key.
    Key(&'a [u8]),
    /// The index of a record in a database that is read by index.
    Index(u64),
}

/// A sealed database, as its owner and its clients know it: the id, the public key of the service, and the length to
/// which all records are padded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    id: [u8; DATABASE_ID_BYTES],
    public_key: PublicElement,
    record_bytes: u32,
}

impl Sealing {
    /// The sealing with these parts, of untrusted bytes. Records are padded to `record_bytes` bytes.
    ///
    /// # Errors
    /// If the public key is no element of ristretto255 in its canonical encoding, or is the identity, or if
    /// `record_bytes` is 0 or greater than [`MAX_RECORD_BYTES`].
    pub fn new(id: [u8; DATABASE_ID_BYTES], public_key: &[u8], record_bytes: u32) -> Result<Self, SymmetricPirError> {
        if !(1..=MAX_RECORD_BYTES).contains(&record_bytes) {
            let needed = format!("1 to {MAX_RECORD_BYTES}; split longer records");
            return Err(SymmetricPirError::mismatch("bytes of padded records", record_bytes, needed));
        }
        let public_key = read_element("public key of a sealed database", public_key)?;
        Ok(Sealing { id, public_key, record_bytes })
    }

    /// Random bytes, made when the database was built. Keys of another database open nothing in this one.
    pub fn id(&self) -> [u8; DATABASE_ID_BYTES] {
        self.id
    }

    /// The public key, with which clients check that the service uses one secret key for all of them.
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        Ristretto255::serialize_elem(self.public_key).into()
    }

    pub(crate) fn public_element(&self) -> PublicElement {
        self.public_key
    }

    /// Length in bytes to which records are padded before they are encrypted.
    pub fn record_bytes(&self) -> u32 {
        self.record_bytes
    }

    /// The input of the pseudorandom function for a name: a hash of both the name and the id, so that names of every
    /// length have inputs of one length.
    pub(crate) fn input(&self, name: Name<'_>) -> Zeroizing<[u8; blake3::OUT_LEN]> {
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 name of a sealed record");
        hasher.update(&self.id);
        match name {
            Name::Key(key) => hasher.update(b"key ").update(key),
            Name::Index(index) => hasher.update(b"index ").update(&index.to_le_bytes()),
        };
        let input = Zeroizing::new(*hasher.finalize().as_bytes());
        hasher.zeroize();
        input
    }
}
