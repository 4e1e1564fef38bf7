//! Room on the disk: which bundles are deleted for a new one.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Entry, KeyId, Meta, State, Store, StoreError, StorePolicy};

/// Time after its last byte in which an upload counts as in use.
const UPLOAD_PAUSE: Duration = Duration::from_secs(60);

/// Share of the free disk that is for key bundles by default.
const DISK_SHARE: u64 = 2;

/// Share of the disk for key bundles that one token has by default.
const TOKEN_SHARE: u64 = 4;

/// Whether there is room for a bundle.
pub(super) enum Room {
    /// Yes.
    Free,
    /// Only without this one, which no request uses.
    Without(Arc<Entry>),
}

/// Why a bundle may be deleted for another. The first ones are deleted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Expired,
    /// No application can use it any more.
    NotOffered,
    /// It belongs to a client without a token.
    Anonymous,
}

impl StorePolicy {
    /// Replaces limits of 0 by their defaults, given the bytes that are free and those of stored bundles.
    pub(super) fn resolve(&mut self, free: u64, stored: u64) {
        if self.key_disk_bytes == 0 {
            self.key_disk_bytes = free.saturating_add(stored) / DISK_SHARE;
        }
        if self.key_bytes_per_token == 0 {
            self.key_bytes_per_token = self.key_disk_bytes / TOKEN_SHARE;
        }
    }

    /// Why the owner of a `new` bundle may delete this one, if it may.
    fn reason(&self, entry: &Entry, new: &Meta, now: SystemTime) -> Option<Reason> {
        let progress = *entry.progress();
        if progress.state == State::Gone {
            return None;
        }
        if entry.expires(self) <= now {
            return Some(Reason::Expired);
        }
        let arriving = progress.state == State::Uploading && progress.touched + UPLOAD_PAUSE > now;
        if arriving || !(entry.meta.is_anonymous() || entry.meta.owner == new.owner) {
            return None;
        }
        match self.key_sets.contains(&entry.meta.key_set) {
            false => Some(Reason::NotOffered),
            true => entry.meta.is_anonymous().then_some(Reason::Anonymous),
        }
    }
}

impl Store {
    /// Sets the limits that depend on the disk, and logs them.
    pub(super) fn resolve_policy(&mut self) -> io::Result<()> {
        let stored = self.entries().values().map(|entry| entry.offset()).sum();
        let free = self.disk.free_bytes(&self.root)?;
        self.policy.resolve(free, stored);
        let StorePolicy { key_disk_bytes, key_bytes_per_token, .. } = self.policy;
        let dir = self.root.display();
        tracing::info!(key_disk_bytes, key_bytes_per_token, stored_bytes = stored, dir = %dir, "room for key bundles");
        Ok(())
    }

    /// Whether there is room for a new bundle, or which bundle has to be deleted first. `entries` is locked, so a
    /// bundle whose only reference is there is used by no request, and none can begin to use it.
    pub(super) fn room_for(
        &self,
        entries: &HashMap<KeyId, Arc<Entry>>,
        new: &Meta,
        now: SystemTime,
    ) -> Result<Room, StoreError> {
        let mut idle: Vec<_> = entries
            .values()
            .filter(|entry| Arc::strong_count(entry) == 1)
            .filter_map(|entry| Some((self.policy.reason(entry, new, now)?, entry.progress().used, entry)))
            .collect();
        idle.sort_by_key(|&(reason, used, _)| (reason, used));
        let needed = new.length;
        if !new.is_anonymous() {
            let own = |entry: &&Arc<Entry>| entry.meta.owner == new.owner && entry.expires(&self.policy) > now;
            let held = bytes_of(entries.values().filter(own));
            let limit = self.policy.key_bytes_per_token;
            if held.saturating_add(needed) > limit {
                let unused = idle.iter().find(|(_, _, entry)| own(entry));
                let refusal = StoreError::TokenQuota { needed, held, limit };
                return unused.map(|(_, _, entry)| Room::Without(Arc::clone(entry))).ok_or(refusal);
            }
        }
        let (used, limit) = (bytes_of(entries.values()), self.policy.key_disk_bytes);
        if used.saturating_add(needed) <= limit {
            return Ok(Room::Free);
        }
        let kept = used - bytes_of(idle.iter().map(|(_, _, entry)| *entry));
        match idle.first() {
            Some((_, _, first)) if kept.saturating_add(needed) <= limit => Ok(Room::Without(Arc::clone(first))),
            _ => Err(StoreError::Quota { needed, kept, limit }),
        }
    }
}

fn bytes_of<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> u64 {
    entries.fold(0, |sum, entry| sum.saturating_add(entry.meta.length))
}
