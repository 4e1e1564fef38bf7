//! Room on the disk: which bundles are deleted for a new one.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::holder::Holder;
use super::index::{HolderBundles, Index};
use super::{Bundle, Meta, Store, StoreError, StorePolicy};
use crate::store::bundle::State;
use crate::store::index::weight;
use crate::store::{Need, Room};

/// Time after its last byte in which an upload counts as in use.
const UPLOAD_PAUSE: Duration = Duration::from_secs(60);

/// Share of the free disk that is for key bundles by default.
const DISK_SHARE: u64 = 2;

/// Share of the disk for key bundles that one token has by default.
const TOKEN_SHARE: u64 = 4;

/// Number of uploads without a byte that the clients of one token may have, or the clients of one address without a
/// token. The oldest is deleted for the next.
const MAX_EMPTY_UPLOADS: usize = 64;

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
    /// Replaces limits of 0 by their defaults, given the free bytes and the bytes of stored bundles.
    pub(super) fn resolve(&mut self, free: u64, stored: u64) {
        if self.key_disk_bytes == 0 {
            self.key_disk_bytes = free.saturating_add(stored) / DISK_SHARE;
        }
        if self.key_bytes_per_token == 0 {
            self.key_bytes_per_token = self.key_disk_bytes / TOKEN_SHARE;
        }
    }

    /// Maximum number of bundles of a holder.
    fn bundles_of(&self, holder: &Holder) -> usize {
        if holder.has_token() { self.bundles_per_token } else { self.bundles_per_address }
    }

    /// Why the owner of a `new` bundle may delete this one, if it may.
    fn reason(&self, bundle: &Bundle, new: &Meta, now: SystemTime) -> Option<Reason> {
        let progress = *bundle.progress();
        if progress.state == State::Gone {
            return None;
        }
        if bundle.expires(self) <= now {
            return Some(Reason::Expired);
        }
        let arriving = progress.state == State::Uploading && progress.touched + UPLOAD_PAUSE > now;
        if arriving || !(bundle.meta.is_anonymous() || bundle.meta.owner == new.owner) {
            return None;
        }
        if progress.state == State::Uploading && progress.offset == 0 {
            return Some(Reason::Empty);
        }
        match self.key_sets.contains(&bundle.meta.key_set) {
            false => Some(Reason::NotOffered),
            true => bundle.meta.is_anonymous().then_some(Reason::Anonymous),
        }
    }
}

impl Store {
    /// Sets the limits that depend on the disk, and logs them.
    pub(super) fn resolve_policy(&mut self) -> io::Result<()> {
        let stored = self.index().all().map(|bundle| bundle.offset()).sum();
        let free = self.disk.free_bytes(&self.root)?;
        self.policy.resolve(free, stored);
        let StorePolicy { key_disk_bytes, key_bytes_per_token, .. } = self.policy;
        let dir = self.root.display();
        tracing::info!(key_disk_bytes, key_bytes_per_token, stored_bytes = stored, dir = %dir, "room for key bundles");
        Ok(())
    }

    /// Whether there is room for a new bundle, or which bundle has to be deleted first. `index` is locked, so a bundle
    /// whose only reference is there is used by no request, and none can begin to use it.
    pub(super) fn room_for_new(
        &self,
        index: &Index,
        new: &Meta,
        holder: &Holder,
        now: SystemTime,
    ) -> Result<Room, StoreError> {
        if let Some(surplus) = Self::surplus_upload(index, holder) {
            return Ok(Room::Without(surplus));
        }
        let (held, limit) = (index.held(holder).map_or(0, HolderBundles::count), self.policy.bundles_of(holder));
        if held >= limit {
            return self.first_idle(index.of(holder), new, now).ok_or(match holder.has_token() {
                true => StoreError::TokenCount { held, limit },
                false => StoreError::AddressCount { held, limit },
            });
        }
        let limit = self.policy.bundles;
        if index.count() >= limit {
            return self.first_idle(index.all(), new, now).ok_or(StoreError::Count { limit });
        }
        self.room_for(index, new, holder, Need::declared(new), now)
    }

    /// Whether there is room for the bytes of a bundle, or which bundle has to be deleted first. `index` is locked, as
    /// for [`Self::room_for_new`].
    pub(super) fn room_for(
        &self,
        index: &Index,
        new: &Meta,
        holder: &Holder,
        need: Need,
        now: SystemTime,
    ) -> Result<Room, StoreError> {
        if holder.has_token() {
            let limit = self.policy.key_bytes_per_token;
            let room = room_within(limit, index.held(holder).map_or(0, HolderBundles::bytes), need, || {
                self.idle(index.of(holder), new, now)
            });
            match room.map_err(|held| StoreError::TokenQuota { needed: new.length, held, limit })? {
                Room::Free => {}
                without => return Ok(without),
            }
        }
        let limit = self.policy.key_disk_bytes;
        let room = room_within(limit, index.bytes(), need, || self.idle(index.all(), new, now));
        room.map_err(|kept| StoreError::Quota { needed: new.length, kept, limit })
    }

    /// The bundles that may be deleted for a new one, with what decides their order.
    fn idle<'a>(
        &self,
        bundles: impl Iterator<Item = &'a Arc<Bundle>>,
        new: &Meta,
        now: SystemTime,
    ) -> impl Iterator<Item = Idle<'a>> {
        let unused = bundles.filter(|bundle| Arc::strong_count(bundle) == 1);
        unused.filter_map(move |bundle| Some(((self.policy.reason(bundle, new, now)?, bundle.progress().used), bundle)))
    }

    /// The bundle that is deleted first for a new one.
    fn first_idle<'a>(
        &self,
        bundles: impl Iterator<Item = &'a Arc<Bundle>>,
        new: &Meta,
        now: SystemTime,
    ) -> Option<Room> {
        let first = self.idle(bundles, new, now).min_by_key(|&(order, _)| order);
        first.map(|(_, bundle)| Room::Without(Arc::clone(bundle)))
    }

    /// The oldest upload without a byte, if the holder of a new bundle has too many of them.
    fn surplus_upload(index: &Index, holder: &Holder) -> Option<Arc<Bundle>> {
        if index.held(holder).map_or(0, HolderBundles::empty_count) < MAX_EMPTY_UPLOADS {
            return None;
        }
        let unused = index.empty_of(holder).filter(|bundle| Arc::strong_count(bundle) == 1);
        unused.min_by_key(|bundle| bundle.progress().touched).cloned()
    }
}

/// A bundle that may be deleted, and what decides its turn: the smallest is the first.
type Idle<'a> = ((Reason, SystemTime), &'a Arc<Bundle>);

/// Whether there is room below a limit, of which `used` bytes are taken, some of them by the bundles that `idle`
/// returns. It is called only if something has to be deleted now or later, because it examines all bundles. Otherwise
/// returns the bytes that would be taken without these.
fn room_within<'a, I: Iterator<Item = Idle<'a>>>(
    limit: u64,
    used: u64,
    need: Need,
    idle: impl FnOnce() -> I,
) -> Result<Room, u64> {
    if used.saturating_add(need.in_all) <= limit {
        return Ok(Room::Free);
    }
    let (mut kept, mut first) = (used, None);
    for (order, bundle) in idle() {
        kept = kept.saturating_sub(weight(bundle.offset()));
        if first.is_none_or(|(least, _)| order < least) {
            first = Some((order, bundle));
        }
    }
    if kept.saturating_add(need.in_all) > limit {
        return Err(kept);
    }
    match first {
        Some((_, first)) if used.saturating_add(need.now) > limit => Ok(Room::Without(Arc::clone(first))),
        _ => Ok(Room::Free),
    }
}
