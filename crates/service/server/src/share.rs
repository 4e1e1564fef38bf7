//! How much of the service one client may use at once, so that slow or many
//! queries of one do not take the memory of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::auth::ClientName;

/// Counts what each client is doing.
#[derive(Clone)]
pub(crate) struct Shares {
    limit: usize,
    counts: Arc<Mutex<HashMap<ClientName, usize>>>,
}

/// One query of a client; ends when dropped.
pub(crate) struct Share {
    shares: Shares,
    client: ClientName,
}

impl Shares {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// One more query of this client, if it may.
    pub(crate) fn take(&self, client: &ClientName) -> Option<Share> {
        let mut counts = self.lock();
        let count = counts.entry(client.clone()).or_default();
        // A client without queries has no entry, so the limit is at least 1.
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Share { shares: self.clone(), client: client.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientName, usize>> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.shares.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_limit_and_nothing_is_kept_of_those_who_left() {
        let shares = Shares::new(2);
        let (ann, bob) = (ClientName::new("ann"), ClientName::new("bob"));
        let first = shares.take(&ann);
        let second = shares.take(&ann);
        assert!(first.is_some() && second.is_some() && shares.take(&ann).is_none());
        assert!(shares.take(&bob).is_some());
        drop(first);
        assert!(shares.take(&ann).is_some());
        drop(second);
        assert!(shares.lock().is_empty());
    }
}
