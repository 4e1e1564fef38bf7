//! Shards of a database that run elsewhere.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use unspoken_protocol::{Call, ClientId, ErrorKind, ForwardedKeys, PlainError, Request, ShardAccess, ShardFailure};

use super::host::{RemoteKeys, asked, put_keys};

/// Bundles of keys that a router keeps elsewhere; when there are more, they are put there again.
const MAX_KEYS: usize = 1 << 10;

/// A shard of a database that is served elsewhere.
pub(super) struct ShardElsewhere {
    pub(super) host: Py<PyAny>,
    pub(super) keys: SharedKeys,
}

/// What keeps the keys of clients elsewhere, by the hash of their bundle, for all shards of a database.
pub(super) type SharedKeys = Arc<Mutex<HashMap<[u8; 32], PutKeys>>>;

/// The keys of a client elsewhere, once they have been put there. Held while they are put.
pub(super) type PutKeys = Arc<Mutex<Option<Arc<RemoteKeys>>>>;

impl ShardElsewhere {
    fn keys(&self, keys: &ForwardedKeys) -> Result<Arc<RemoteKeys>, PlainError> {
        let place = self.place(keys);
        // Other clients do not wait while they are put.
        let mut there = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = &*there {
            return Ok(Arc::clone(there));
        }
        let put = Arc::new(put_keys(&self.host, keys.bundle().to_vec())?);
        *there = Some(Arc::clone(&put));
        Ok(put)
    }

    fn place(&self, keys: &ForwardedKeys) -> PutKeys {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KEYS && !known.contains_key(&keys.id()) {
            known.clear();
        }
        Arc::clone(known.entry(keys.id()).or_default())
    }
}

impl ShardAccess for ShardElsewhere {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        let described = Python::attach(|py| self.host.call_method0(py, "description")?.extract::<Option<Vec<u8>>>(py));
        described.ok().flatten().ok_or(ShardFailure::NoAnswer)
    }

    fn ask(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, ShardFailure> {
        let keys = self.keys(keys).map_err(|_| ShardFailure::NoAnswer)?;
        // Shards do not know the clients of the router.
        let request = Request::new(ClientId::new([0; 16]), &*keys, query);
        match asked(&self.host, &request, &Call::new(cancel)) {
            Ok(answer) if answer.len() <= most => Ok(answer),
            Err(error) if error.kind == ErrorKind::Cancelled => Err(ShardFailure::Cancelled),
            _ => Err(ShardFailure::NoAnswer),
        }
    }
}
