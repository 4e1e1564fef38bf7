//! A file with which a file of rows can be sent again after an interruption, and each row counts once.

use std::path::Path;

use anyhow::Context;
use unspoken_files::{Access, replace_file};
use unspoken_protocol::{append_checksum, checked};
use unspoken_ring::SecretRng;
use unspoken_sums::Fingerprint;
use zeroize::Zeroizing;

use super::rows::Row;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"SUMSEND\x01";

/// Ids of the rows of one file for one collection.
pub struct RowIds {
    key: Zeroizing<[u8; 32]>,
}

impl RowIds {
    /// Random ids.
    pub fn random() -> anyhow::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        SecretRng::from_os()?.fill(key.as_mut_slice());
        Ok(RowIds { key })
    }

    /// The ids in a file, which is made if missing: readable by its owner only, because who knows an id can use it
    /// first. It must have been made for the same rows and collection.
    pub fn open(path: &Path, fingerprint: Fingerprint, rows: &[Row]) -> anyhow::Result<Self> {
        let failed = |what: &str| format!("--resume: cannot {what} {}", path.display());
        if !path.try_exists().with_context(|| failed("look for"))? {
            let ids = Self::random()?;
            let mut bytes = Zeroizing::new(MAGIC.to_vec());
            bytes.extend(*ids.key);
            bytes.extend(ids.digest(fingerprint, rows));
            append_checksum(&mut bytes);
            replace_file(path, &bytes, Access::Owner).with_context(|| failed("write"))?;
            return Ok(ids);
        }
        let bytes = std::fs::read(path).map(Zeroizing::new).with_context(|| failed("read"))?;
        let rest = checked("file of --resume", &bytes).with_context(|| failed("use"))?;
        let (key, digest) = rest
            .strip_prefix(&MAGIC)
            .and_then(|rest| rest.split_first_chunk::<32>())
            .with_context(|| format!("{}: not a file that --resume wrote", failed("use")))?;
        let ids = RowIds { key: Zeroizing::new(*key) };
        anyhow::ensure!(
            digest == ids.digest(fingerprint, rows),
            "--resume: {} was made for other rows, or for another collection; name another file for these",
            path.display()
        );
        Ok(ids)
    }

    /// The id of a row.
    pub fn id(&self, row: usize) -> [u8; 16] {
        let mut id = [0; 16];
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"row").update(&(row as u64).to_le_bytes()).finalize_xof().fill(&mut id);
        id
    }

    /// Identifies rows and collection, for who has the key.
    fn digest(&self, fingerprint: Fingerprint, rows: &[Row]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"rows").update(&fingerprint.0);
        rows.iter().flat_map(|row| row.iter()).for_each(|value| {
            hasher.update(&value.to_le_bytes());
        });
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_same_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sent");
        let rows = |last: i64| [[1, 2], [3, last]].map(|row| Zeroizing::new(row.to_vec()));
        let collection = Fingerprint([1; 32]);
        let ids = RowIds::open(&path, collection, &rows(4)).unwrap();
        let again = RowIds::open(&path, collection, &rows(4)).unwrap();
        assert_eq!([ids.id(0), ids.id(1)], [again.id(0), again.id(1)]);
        assert_ne!(ids.id(0), ids.id(1));
        for (collection, last) in [(Fingerprint([2; 32]), 4), (collection, 5)] {
            let refused = RowIds::open(&path, collection, &rows(last)).err().unwrap().to_string();
            assert!(refused.contains("was made for other rows, or for another collection"), "{refused}");
        }
        assert_ne!(RowIds::random().unwrap().id(0), ids.id(0));
        std::fs::write(&path, b"other").unwrap();
        assert!(RowIds::open(&path, collection, &rows(4)).is_err());
    }
}
