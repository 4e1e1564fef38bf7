//! What the owner of an encrypted database remembers of its uploads, in the state directory.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_files::{Access, replace_file};
use unspoken_pir_scheme::{Upload, UploadState};

/// First bytes of a file.
const MAGIC: [u8; 8] = *b"UNSPENT1";

/// Hash of the content of an entry, under a secret key.
pub type Fingerprint = [u8; 16];

/// An upload, and what the entries of the database contain after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The upload.
    pub upload: Upload,
    /// Number of entries in it.
    pub changed: u64,
    /// Fingerprints of all entries.
    pub fingerprints: Vec<Fingerprint>,
}

impl Record {
    /// The version that the upload makes.
    pub fn version(&self) -> u64 {
        self.upload.base.saturating_add(1)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [self.upload.id, self.upload.base, self.changed];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        self.fingerprints.iter().for_each(|fingerprint| bytes.extend(fingerprint));
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (content, hash) = bytes.split_last_chunk::<{ blake3::OUT_LEN }>()?;
        let content = (blake3::hash(content).as_bytes() == hash).then_some(content)?.strip_prefix(&MAGIC)?;
        let (numbers, rest) = content.split_first_chunk::<24>()?;
        let number = |at: usize| Some(u64::from_le_bytes(*numbers.get(8 * at..)?.first_chunk()?));
        let (fingerprints, []) = rest.as_chunks() else { return None };
        let upload = Upload { id: number(0)?, base: number(1)? };
        Some(Record { upload, changed: number(2)?, fingerprints: fingerprints.to_vec() })
    }
}

/// The records of an application: of the last upload that was committed, and of one that was begun.
pub struct Records {
    committed: PathBuf,
    begun: PathBuf,
}

impl Records {
    /// The records of an application below a private directory.
    pub fn new(directory: &Path, application: &str) -> Self {
        let hash = blake3::hash(application.as_bytes()).to_hex();
        let path = |what: &str| directory.join(format!("{what}-{}.entries", &hash[..32]));
        Records { committed: path("uploaded"), begun: path("uploading") }
    }

    /// What the service has stored in its current version, if this owner knows it. Records an upload whose commit was
    /// done, and whose reply was lost.
    pub fn stored(&self, state: UploadState) -> anyhow::Result<Option<Record>> {
        let is_last = |record: &Record| record.upload == state.upload && record.version() == state.version;
        if let Some(begun) = read(&self.begun)?.filter(is_last) {
            self.finish(&begun)?;
            return Ok(Some(begun));
        }
        // The id of the last upload is the id of the current version, unless another upload was begun since.
        let is_committed = state.upload.base < state.version;
        let is_current = |record: &Record| record.version() == state.version && (!is_committed || is_last(record));
        Ok(read(&self.committed)?.filter(is_current))
    }

    /// The upload that was begun and can go on: it changes the current version to the same content.
    pub fn begun(
        &self,
        state: UploadState,
        fingerprints: &[Fingerprint],
        changed: usize,
    ) -> anyhow::Result<Option<Record>> {
        let same = |begun: &Record| {
            (begun.upload, begun.upload.base) == (state.upload, state.version)
                && (begun.fingerprints.as_slice(), begun.changed) == (fingerprints, changed as u64)
        };
        Ok(read(&self.begun)?.filter(same))
    }

    /// Records an upload before its first chunk is sent.
    pub fn begin(&self, record: &Record) -> anyhow::Result<()> {
        write(&self.begun, record)
    }

    /// Records an upload that was committed.
    pub fn finish(&self, record: &Record) -> anyhow::Result<()> {
        write(&self.committed, record)?;
        match fs::remove_file(&self.begun) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.begun.display()))
            }
            _ => Ok(()),
        }
    }
}

/// A random number of an upload.
pub fn random_id() -> anyhow::Result<u64> {
    let mut id = [0; 8];
    unspoken_ring::SecretRng::from_os()?.fill(&mut id);
    Ok(u64::from_le_bytes(id))
}

fn read(path: &Path) -> anyhow::Result<Option<Record>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let damaged = || format!("{} is damaged; remove it, and all entries are uploaded again", path.display());
    Ok(Some(Record::read(&bytes).with_context(damaged)?))
}

fn write(path: &Path, record: &Record) -> anyhow::Result<()> {
    replace_file(path, &record.to_bytes(), Access::Owner).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_again_unless_it_is_damaged() {
        let upload = Upload { id: 7, base: 3 };
        let record = Record { upload, changed: 2, fingerprints: vec![[1; 16], [2; 16], [3; 16]] };
        let bytes = record.to_bytes();
        assert_eq!(Record::read(&bytes).unwrap(), record);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Record::read(&damaged), None, "{at}");
            assert_eq!(Record::read(&bytes[..at]), None, "{at}");
        }
    }

    #[test]
    fn what_the_service_has_is_known_also_after_a_lost_reply() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path(), "pir/codes");
        let record =
            |id, base, content| Record { upload: Upload { id, base }, changed: 1, fingerprints: vec![[content; 16]] };
        let state = |version, id, base| UploadState { version, upload: Upload { id, base }, chunks: 1 };
        let (first, second) = (record(1, 1, 10), record(2, 2, 20));
        assert_eq!(records.stored(state(1, 0, 0)).unwrap(), None);
        records.begin(&first).unwrap();
        // Not committed yet.
        assert_eq!(records.stored(state(1, 1, 1)).unwrap(), None);
        assert_eq!(records.begun(state(1, 1, 1), &first.fingerprints, 1).unwrap().as_ref(), Some(&first));
        assert_eq!(records.begun(state(1, 1, 1), &second.fingerprints, 1).unwrap(), None);
        assert_eq!(records.begun(state(1, 1, 1), &first.fingerprints, 2).unwrap(), None);
        assert_eq!(records.begun(state(1, 9, 1), &first.fingerprints, 1).unwrap(), None);
        // Committed, without or with a reply; or an upload of somebody else is.
        assert_eq!(records.stored(state(2, 9, 1)).unwrap(), None);
        assert_eq!(records.stored(state(2, 1, 1)).unwrap().as_ref(), Some(&first));
        assert_eq!(records.begun(state(1, 1, 1), &first.fingerprints, 1).unwrap(), None, "recorded as committed");
        records.finish(&first).unwrap();
        assert_eq!(records.stored(state(2, 1, 1)).unwrap().as_ref(), Some(&first));
        assert_eq!(records.stored(state(2, 9, 1)).unwrap(), None);
        records.begin(&second).unwrap();
        assert_eq!(records.stored(state(2, 2, 2)).unwrap().as_ref(), Some(&first));
        assert_eq!(records.stored(state(3, 2, 2)).unwrap().as_ref(), Some(&second));
        assert_eq!(records.stored(state(4, 8, 3)).unwrap(), None);
    }
}
