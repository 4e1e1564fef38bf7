//! An index that another process may change and replace.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::IndexError;
use crate::stored::{IndexPart, IndexVersions, StoredIndex};

/// The newest version that was read of an index on disk.
#[derive(Debug)]
pub struct FollowedIndex {
    dir: PathBuf,
    current: RwLock<Arc<StoredIndex>>,
    is_stale: AtomicBool,
}

impl FollowedIndex {
    /// Reads an index and prepares a part of its table.
    ///
    /// # Errors
    /// As for [`StoredIndex::open_part`].
    pub fn open(dir: &Path, part: IndexPart) -> Result<Self, IndexError> {
        let current = RwLock::new(Arc::new(StoredIndex::open_part(dir, part)?));
        Ok(FollowedIndex { dir: dir.to_owned(), current, is_stale: AtomicBool::new(false) })
    }

    /// Reads what has changed since the last call, and returns whether anything has. One thread calls it.
    ///
    /// # Errors
    /// As for [`FollowedIndex::open`]. The version that was read before stays.
    pub fn refresh(&self) -> Result<bool, IndexError> {
        let newer = self.current().newer(&self.dir, &mut || ());
        self.is_stale.store(newer.is_err(), Ordering::Relaxed);
        let Some(newer) = newer? else { return Ok(false) };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(newer);
        Ok(true)
    }
}

impl IndexVersions for FollowedIndex {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use unspoken_pir_scheme::Preset;
    use unspoken_pir_scheme::dense::MaskSeed;

    use super::*;
    use crate::edit::IndexEdit;
    use crate::index::Index;
    use crate::manifest::{About, ID_BYTES};
    use crate::plan::{Plan, Wish};
    use crate::vectors::directions;

    fn store(dir: &Path, groups: usize, id: u8) {
        let parameters = Preset::InsecureN11.build().unwrap();
        let vectors = directions(Array2::from_shape_fn((50, 8), |(i, j)| ((i * 7 + j * 3) % 11) as f32 - 5.2)).unwrap();
        let wish = Wish { documents: 50, width: 8, link: 1e7, cores: 1.0, memory: 1 << 30 };
        let plan = Plan::new(&parameters, &wish, [1, groups, 1]);
        let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([id; 16]), &mut |_, _| ()).unwrap();
        index.store(&parameters, dir, [id; ID_BYTES], About::default()).unwrap();
    }

    #[test]
    fn a_shard_follows_changes_and_says_when_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), 3, 1);
        let shard = FollowedIndex::open(dir.path(), IndexPart::Shard { number: 2, shards: 2 }).unwrap();
        assert_eq!((shard.current().range(), shard.refresh().unwrap()), (1..3, false));
        let mut edit = IndexEdit::open(dir.path()).unwrap();
        edit.add(&[0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]).unwrap();
        edit.commit([2, 2]).unwrap();
        assert!(shard.refresh().unwrap() && !shard.is_stale());
        assert_eq!(shard.current().documents(), 51);
        // Fewer groups than shards.
        store(dir.path(), 1, 2);
        assert!(shard.refresh().is_err() && shard.is_stale());
        assert_eq!(shard.current().documents(), 51);
        store(dir.path(), 2, 3);
        assert!(shard.refresh().unwrap() && !shard.is_stale());
        assert_eq!(shard.current().range(), 1..2);
    }
}
