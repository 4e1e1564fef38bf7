//! Keys and values of public tokens, of the sessions that parts belong to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use unspoken_llama_model::KvCache;

use crate::error::ChatError;

/// The caches that were used last, with their tokens.
pub(super) struct PublicCaches {
    most: usize,
    /// The cache that was used last is in front.
    caches: Mutex<VecDeque<(Vec<u32>, Arc<KvCache>)>>,
}

impl PublicCaches {
    /// Room for `most` caches.
    pub(super) fn new(most: usize) -> Self {
        PublicCaches { most, caches: Mutex::default() }
    }

    /// The cache of these tokens, which `make` makes if it is not there.
    pub(super) fn get(
        &self,
        tokens: &[u32],
        make: impl FnOnce() -> Result<KvCache, ChatError>,
    ) -> Result<Arc<KvCache>, ChatError> {
        let lock = || self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut caches = lock();
        let known = caches.iter().position(|(of, _)| of == tokens).and_then(|at| caches.remove(at));
        // No thread of a computation may wait for the lock while another one holds it and computes.
        drop(caches);
        let used = match known {
            Some(used) => used,
            None => (tokens.to_vec(), Arc::new(make()?)),
        };
        let cache = Arc::clone(&used.1);
        let mut caches = lock();
        caches.push_front(used);
        caches.truncate(self.most);
        Ok(cache)
    }
}
