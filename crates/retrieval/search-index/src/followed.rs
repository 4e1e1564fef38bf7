//! An index that another process may change and replace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::IndexError;
use crate::stored::{IndexPart, IndexVersions, StoredIndex};

/// The newest version that was read of an index on disk.
#[derive(Debug)]
pub struct FollowedIndex {
    dir: PathBuf,
    current: RwLock<Arc<StoredIndex>>,
}

impl FollowedIndex {
    /// Reads an index and prepares a part of its table.
    ///
    /// # Errors
    /// As for [`StoredIndex::open_part`].
    pub fn open(dir: &Path, part: IndexPart) -> Result<Self, IndexError> {
        let current = RwLock::new(Arc::new(StoredIndex::open_part(dir, part)?));
        Ok(FollowedIndex { dir: dir.to_owned(), current })
    }

    /// Reads what has changed since the last call, and returns whether anything has. One thread calls it.
    ///
    /// # Errors
    /// As for [`FollowedIndex::open`]. The version that was read before stays.
    pub fn refresh(&self) -> Result<bool, IndexError> {
        let Some(newer) = self.current().newer(&self.dir)? else { return Ok(false) };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(newer);
        Ok(true)
    }
}

impl IndexVersions for FollowedIndex {
    fn current(&self) -> Arc<StoredIndex> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}
