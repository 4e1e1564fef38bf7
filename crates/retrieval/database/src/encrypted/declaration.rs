//! Declarations: what the owner of a database tells the owner of the service before entries are uploaded.

use serde::{Deserialize, Serialize};
use unspoken_pir_scheme::{EncryptedEntry, Layout, Preset, TableKind, Tables, WRITE_KEY_BYTES};

use crate::error::DatabaseError;
use crate::format::HEADER_BYTES;
use crate::geometry::fingerprint;

/// Version of the format.
const FORMAT: u32 = 1;

/// Bytes of the journal, whose entries are held in memory. A commit that would exceed them writes the next generation.
pub(super) const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// The shape of a database of encrypted entries, and the hash of the key with which its owner writes. It is not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    format: u32,
    preset: String,
    /// Fingerprint of everything that entries depend on.
    parameters: String,
    layout: Layout,
    /// Hash of the write key.
    owner: String,
}

impl Declaration {
    /// The declaration of a database with these tables, whose owner has this write key.
    ///
    /// # Errors
    /// If the tables are of another kind.
    pub fn new(tables: &Tables, write_key: &[u8; WRITE_KEY_BYTES]) -> Result<Self, DatabaseError> {
        if tables.kind() != TableKind::Encrypted {
            let (found, needed) =
                (tables.kind().to_string(), "encrypted ones; build it with --tables encrypted".into());
            return Err(DatabaseError::Format { what: "tables", found, needed });
        }
        Ok(Declaration {
            format: FORMAT,
            preset: tables.parameters().name().into(),
            parameters: fingerprint(tables.parameters(), TableKind::Encrypted),
            layout: tables.layout(),
            owner: hash_of(write_key).to_hex().to_string(),
        })
    }

    /// Reads a declaration from untrusted bytes, a JSON object.
    ///
    /// # Errors
    /// If it is malformed, of another version, or for other parameters or a layout outside its limits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DatabaseError> {
        let malformed = |error: serde_json::Error| DatabaseError::Source(error.into());
        let declaration: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        declaration.tables()?;
        declaration.owner_hash()?;
        Ok(declaration)
    }

    /// The declaration as a JSON object.
    ///
    /// # Errors
    /// None for declarations of this crate.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DatabaseError> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| DatabaseError::Source(error.into()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The tables.
    ///
    /// # Errors
    /// If the declaration is of another version of this program, or its layout is outside its limits.
    pub fn tables(&self) -> Result<Tables, DatabaseError> {
        if self.format != FORMAT {
            let (found, needed) = (self.format.to_string(), FORMAT.to_string());
            return Err(DatabaseError::Format { what: "format", found, needed });
        }
        let parameters = Preset::find(&self.preset)?.build()?;
        let needed = fingerprint(&parameters, TableKind::Encrypted);
        if self.parameters != needed {
            let (what, found) = ("parameters with the fingerprint", self.parameters.clone());
            return Err(DatabaseError::Format { what, found, needed });
        }
        Ok(Tables::new(&parameters, self.layout, TableKind::Encrypted)?)
    }

    /// Bytes of disk that the entries need.
    ///
    /// # Errors
    /// As [`Declaration::tables`].
    pub fn disk_bytes(&self) -> Result<u64, DatabaseError> {
        Ok(store_bytes(&self.tables()?))
    }

    /// Bytes of disk that the database needs at most: its entries, the entries of an upload and of the next generation
    /// at the same time, and a journal.
    ///
    /// # Errors
    /// As [`Declaration::tables`].
    pub fn most_disk_bytes(&self) -> Result<u64, DatabaseError> {
        Ok(self.disk_bytes()?.saturating_mul(3).saturating_add(MAX_JOURNAL_BYTES))
    }

    /// The hash of the write key.
    pub(crate) fn owner_hash(&self) -> Result<blake3::Hash, DatabaseError> {
        blake3::Hash::from_hex(&self.owner).map_err(|_| DatabaseError::Format {
            what: "an owner",
            found: self.owner.clone(),
            needed: "64 hexadecimal digits".into(),
        })
    }
}

/// Bytes of the file of all entries.
pub(crate) fn store_bytes(tables: &Tables) -> u64 {
    HEADER_BYTES + EncryptedEntry::count(tables) * EncryptedEntry::byte_len(tables) as u64
}

/// Hash by which a service recognises a write key. The key is random, so its hash tells nothing about it.
pub(crate) fn hash_of(write_key: &[u8; WRITE_KEY_BYTES]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 write key of a database of encrypted entries");
    hasher.update(write_key).finalize()
}
