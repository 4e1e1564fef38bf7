//! The state file of a store. It records which entries have been taken, separately from the file of entries.
//!
//! The file has two records with a tag each, which are written alternately, so a torn write leaves the other record.
//! That record must be on the disk, so the newest record is made durable before the older one is overwritten
//! ([`StoreState::settle`]). Format of a record: version (u64), next entry to take (u64), next entry to make (u64),
//! identities of the state file and of the file of entries; then nonce and tag.

use super::device::{Device, IDENTITY_BYTES};
use super::seal::{NONCE_BYTES, SealingKey, TAG_BYTES};
use crate::error::EncryptError;

/// Distance between the records, so that each record has its own sectors.
const RECORD_STRIDE: u64 = 4096;
/// Bytes of a state file.
pub(super) const STATE_BYTES: u64 = 2 * RECORD_STRIDE;

const BODY_BYTES: usize = 24 + 2 * IDENTITY_BYTES;
const RECORD_BYTES: usize = BODY_BYTES + NONCE_BYTES + TAG_BYTES;

/// The contents of a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreState {
    pub(super) version: u64,
    /// Whether the other record is incomplete. It may have been newer than this one.
    pub(super) alone: bool,
    /// Entries with a number below this have been taken and must not be used.
    pub(super) next_take: u64,
    /// Entries with this number or above have not been made.
    pub(super) next_make: u64,
    /// Identities of the state file and of the file of entries.
    pub(super) identities: [[u8; IDENTITY_BYTES]; 2],
}

impl StoreState {
    /// The state of a new store. Entries are numbered from 1; 0 marks an empty slot.
    pub(super) fn new(identities: [[u8; IDENTITY_BYTES]; 2]) -> Self {
        StoreState { version: 0, alone: false, next_take: 1, next_make: 1, identities }
    }

    /// Reads the newest complete record.
    pub(super) fn read(device: &impl Device, key: &SealingKey, context: &[u8]) -> Result<Self, EncryptError> {
        let read = |place: u64| -> Result<_, EncryptError> {
            let mut bytes = [0; RECORD_BYTES];
            device.read_at(place * RECORD_STRIDE, &mut bytes)?;
            Ok(Self::from_bytes(&bytes, key, context))
        };
        let records = [read(0)?, read(1)?];
        let alone = records.iter().any(Option::is_none);
        let newest = records.into_iter().flatten().max_by_key(|state_file| state_file.version);
        newest.map(|state_file| StoreState { alone, ..state_file }).ok_or(EncryptError::Files {
            operation: "open the state file of a pool file",
            found: "no record that is whole and sealed with this key for this pool".into(),
            needed: "the key and the shape it was made with; if they are right, the state file is damaged: remove both \
                     files and make new ones",
        })
    }

    /// Makes the record that was read durable. The record may exist only in the system's cache, if its writer was
    /// killed or a sync failed; after a failed sync the system may treat the cache as clean. Therefore the same bytes
    /// are written again before the sync.
    pub(super) fn settle(&self, device: &impl Device) -> Result<(), EncryptError> {
        let place = self.version % 2 * RECORD_STRIDE;
        let mut bytes = [0; RECORD_BYTES];
        device.read_at(place, &mut bytes)?;
        device.write_at(place, &bytes)?;
        Ok(device.sync()?)
    }

    /// Writes the next record over the older one and returns when it is durable. The current record must be durable
    /// already.
    pub(super) fn write(&mut self, device: &impl Device, key: &SealingKey, context: &[u8]) -> Result<(), EncryptError> {
        self.version += 1;
        let bytes = self.to_bytes(key, context)?;
        device.write_at(self.version % 2 * RECORD_STRIDE, &bytes)?;
        device.sync()?;
        self.alone = false;
        Ok(())
    }

    fn to_bytes(&self, key: &SealingKey, context: &[u8]) -> Result<[u8; RECORD_BYTES], EncryptError> {
        let mut bytes = [0; RECORD_BYTES];
        for (target, number) in bytes.chunks_mut(8).zip([self.version, self.next_take, self.next_make]) {
            target.copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..BODY_BYTES].copy_from_slice(self.identities.as_flattened());
        let (body, rest) = bytes.split_at_mut(BODY_BYTES);
        let (nonce, tag) = key.seal(&[context, &*body].concat(), &mut [])?;
        rest[..NONCE_BYTES].copy_from_slice(&nonce);
        rest[NONCE_BYTES..].copy_from_slice(&tag);
        Ok(bytes)
    }

    fn from_bytes(bytes: &[u8; RECORD_BYTES], key: &SealingKey, context: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_first_chunk::<BODY_BYTES>()?;
        let (nonce, tag) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let whole = key.open(&[context, body].concat(), *nonce, tag.try_into().ok()?, &mut []);
        let number = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| body[8 * i + j]));
        let identity = |i: usize| std::array::from_fn(|j| body[24 + i * IDENTITY_BYTES + j]);
        whole.then(|| StoreState {
            version: number(0),
            alone: false,
            next_take: number(1),
            next_make: number(2),
            identities: [identity(0), identity(1)],
        })
    }
}
