//! The manifest of a database of encrypted entries.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::declaration::Declaration;
use crate::disk::Disk;
use crate::error::DatabaseError;
use crate::format::ENCRYPTED_MANIFEST;
use crate::hashed::{other_format, publish_sealed, read_sealed};

/// Version of the format of all files.
const FORMAT: u32 = 1;

/// Content of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EncryptedManifest {
    format: u32,
    pub declaration: Declaration,
    /// Current generation: the number in the names of the current files.
    pub generation: u64,
    /// Version of the entries in the file; the journal contains later ones.
    pub version: u64,
    /// BLAKE3 of the file with the hashes of the file of the entries.
    pub sums: String,
}

impl EncryptedManifest {
    pub fn new(declaration: &Declaration, generation: u64, version: u64, sums: &[u8]) -> Self {
        let sums = blake3::hash(sums).to_string();
        EncryptedManifest { format: FORMAT, declaration: declaration.clone(), generation, version, sums }
    }

    /// Reads the manifest of a database and checks its hash and its format.
    pub fn read(dir: &Path) -> Result<Self, DatabaseError> {
        let manifest: Self = read_sealed(dir, ENCRYPTED_MANIFEST, FORMAT)?;
        match manifest.format {
            FORMAT => Ok(manifest),
            found => Err(other_format(found.into(), FORMAT)),
        }
    }

    /// Replaces the manifest by this one, atomically and durably.
    pub fn publish(&self, disk: &Disk, dir: &Path) -> Result<(), DatabaseError> {
        publish_sealed(self, disk, dir, ENCRYPTED_MANIFEST)
    }
}
