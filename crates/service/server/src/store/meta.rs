//! Metadata stored with a bundle's bytes.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use unspoken_protocol::KeySetId;
use unspoken_wire::CheckedDeclaration;

use crate::auth::ClientName;

/// Version of the format of this file. Version 1 had no key set; such a bundle is of no application any more.
const VERSION: u32 = 2;

/// The `meta.json` of one bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    version: u32,
    pub(crate) owner: String,
    /// The application for which it was declared.
    pub(crate) application: String,
    /// The key set of that application; empty in version 1.
    #[serde(default)]
    pub(crate) key_set: String,
    pub(crate) key_format: u32,
    pub(crate) length: u64,
    /// Hexadecimal BLAKE3 hash of the bytes.
    blake3: String,
    declared_unix_seconds: u64,
    /// Set once the bundle is complete and checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_unix_seconds: Option<u64>,
}

impl Meta {
    pub(super) fn new(owner: &ClientName, bundle: CheckedDeclaration, key_set: KeySetId, now: SystemTime) -> Self {
        Self {
            version: VERSION,
            owner: owner.to_string(),
            application: bundle.application,
            key_set: key_set.to_string(),
            key_format: bundle.key_format,
            length: bundle.length,
            blake3: hex::encode(bundle.blake3),
            declared_unix_seconds: unix_seconds(now),
            finished_unix_seconds: None,
        }
    }

    pub(super) fn finished(&self, now: SystemTime) -> Self {
        Self { finished_unix_seconds: Some(unix_seconds(now)), ..self.clone() }
    }

    /// When the bundle was finished, if it was.
    pub(super) fn finished_at(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.finished_unix_seconds?))
    }

    /// Whether its uploader has no token.
    pub(super) fn is_anonymous(&self) -> bool {
        ClientName::new(&self.owner).is_anonymous()
    }

    /// Identifies the bundle by its owner, its parameters and its bytes.
    pub(super) fn content(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for text in [&self.owner, &self.key_set, &self.blake3] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(&self.key_format.to_le_bytes()).update(&self.length.to_le_bytes());
        hasher.finalize().into()
    }

    pub(crate) fn has_hash(&self, hash: &blake3::Hash) -> bool {
        self.blake3 == hash.to_hex().as_str()
    }

    pub(super) fn to_json(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(io::Error::other)
    }

    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let meta: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if !(1..=VERSION).contains(&meta.version) {
            return Err(format!("version {}, needed 1 to {VERSION}", meta.version));
        }
        if hex::decode_to_array::<_, 32>(&meta.blake3).is_err() {
            return Err("blake3 is not 64 hexadecimal digits".into());
        }
        Ok(meta)
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
