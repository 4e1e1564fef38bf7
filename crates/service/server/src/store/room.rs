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

/// Least bytes that a bundle counts, for its directory and its files.
const LEAST_BYTES: u64 = 16 << 10;

/// Number of uploads without a byte that one client may have, or all clients without a token together. The oldest gives
/// way to the next.
const MOST_EMPTY_UPLOADS: usize = 64;

/// Room that a bundle needs.
#[derive(Clone, Copy)]
pub(super) struct Need {
    /// Bytes that it takes now, in addition to those that it has.
    now: u64,
    /// Bytes that it will take when it is complete, in addition to those that it has.
    in_all: u64,
}

impl Need {
    /// That of a new bundle. It takes its room as its bytes arrive: whoever declares many displaces nothing.
    pub(super) fn declared(new: &Meta) -> Self {
        Need { now: LEAST_BYTES, in_all: new.length.max(LEAST_BYTES) }
    }

    /// That of bytes that have arrived for an upload.
    pub(super) fn arrived(entry: &Entry, bytes: u64) -> Self {
        let offset = entry.offset();
        let [held, then] = [offset, offset.saturating_add(bytes)].map(|bytes| bytes.max(LEAST_BYTES));
        Need { now: then - held, in_all: entry.meta.length.max(LEAST_BYTES).saturating_sub(held) }
    }
}

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
    /// An upload that was declared a while ago, of which nothing has arrived.
    Empty,
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
        if progress.state == State::Uploading && progress.offset == 0 {
            return Some(Reason::Empty);
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

    /// Whether there is room for a bundle, or which bundle has to be deleted first. `entries` is locked, so a bundle
    /// whose only reference is there is used by no request, and none can begin to use it.
    pub(super) fn room_for(
        &self,
        entries: &HashMap<KeyId, Arc<Entry>>,
        new: &Meta,
        need: Need,
        now: SystemTime,
    ) -> Result<Room, StoreError> {
        let own = |entry: &&Arc<Entry>| entry.meta.owner == new.owner && entry.expires(&self.policy) > now;
        if !new.is_anonymous() {
            let limit = self.policy.key_bytes_per_token;
            let idle = || self.idle(entries, new, now).into_iter().filter(own).collect();
            let room = room_within(limit, bytes_of(entries.values().filter(own)), need, idle);
            match room.map_err(|held| StoreError::TokenQuota { needed: new.length, held, limit })? {
                Room::Free => {}
                without => return Ok(without),
            }
        }
        let limit = self.policy.key_disk_bytes;
        let room = room_within(limit, bytes_of(entries.values()), need, || self.idle(entries, new, now));
        room.map_err(|kept| StoreError::Quota { needed: new.length, kept, limit })
    }

    /// The bundles that may be deleted for a new one, in that order.
    fn idle<'a>(&self, entries: &'a HashMap<KeyId, Arc<Entry>>, new: &Meta, now: SystemTime) -> Vec<&'a Arc<Entry>> {
        let unused = entries.values().filter(|entry| Arc::strong_count(entry) == 1);
        let mut idle: Vec<_> = unused
            .filter_map(|entry| Some((self.policy.reason(entry, new, now)?, entry.progress().used, entry)))
            .collect();
        idle.sort_by_key(|&(reason, used, _)| (reason, used));
        idle.into_iter().map(|(_, _, entry)| entry).collect()
    }

    /// The oldest upload without a byte, if the client of a new bundle has too many of them.
    pub(super) fn surplus_upload(entries: &HashMap<KeyId, Arc<Entry>>, new: &Meta) -> Option<Arc<Entry>> {
        let is_empty = |entry: &&Arc<Entry>| {
            let progress = *entry.progress();
            entry.meta.owner == new.owner && progress.state == State::Uploading && progress.offset == 0
        };
        let empty: Vec<_> = entries.values().filter(is_empty).collect();
        if empty.len() < MOST_EMPTY_UPLOADS {
            return None;
        }
        let unused = empty.into_iter().filter(|entry| Arc::strong_count(entry) == 1);
        unused.min_by_key(|entry| entry.progress().touched).cloned()
    }
}

/// Whether there is room below a limit, of which `used` bytes are taken, some of them by the bundles that `idle`
/// returns. It is called only if something has to be deleted now or later, because it examines and sorts all bundles.
/// Otherwise returns the bytes that would be taken without these.
fn room_within<'a>(limit: u64, used: u64, need: Need, idle: impl FnOnce() -> Vec<&'a Arc<Entry>>) -> Result<Room, u64> {
    if used.saturating_add(need.in_all) <= limit {
        return Ok(Room::Free);
    }
    let idle = idle();
    let kept = used.saturating_sub(bytes_of(idle.iter().copied()));
    if kept.saturating_add(need.in_all) > limit {
        return Err(kept);
    }
    match idle.first() {
        Some(first) if used.saturating_add(need.now) > limit => Ok(Room::Without(Arc::clone(first))),
        _ => Ok(Room::Free),
    }
}

/// The bytes that bundles take on the disk.
fn bytes_of<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> u64 {
    entries.fold(0, |sum, entry| {
        let progress = *entry.progress();
        let bytes = if progress.state == State::Ready { entry.meta.length } else { progress.offset };
        sum.saturating_add(bytes.max(LEAST_BYTES))
    })
}
