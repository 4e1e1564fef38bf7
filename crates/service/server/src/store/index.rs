//! Bundles by id, by content and by holder, with the room that each holder takes. Nothing here looks at all bundles but
//! [`Index::all`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Bundle, KeyId, Meta};
use crate::store::Holder;
use crate::store::bundle::State;

/// Least bytes that a bundle counts, for its directory and its files.
pub(super) const MIN_BYTES: u64 = 16 << 10;

/// Bytes of memory that a bundle takes at most, whether its keys are loaded or not: its entry, and its places in the
/// maps.
pub(crate) const ENTRY_BYTES: u64 = 1280;

/// The bundles of one holder.
#[derive(Default)]
pub(super) struct HolderBundles {
    ids: HashSet<KeyId>,
    /// Uploads among them of which nothing has arrived.
    empty: HashSet<KeyId>,
    /// Bytes that they take on the disk.
    bytes: u64,
}

impl HolderBundles {
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn empty_count(&self) -> usize {
        self.empty.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// All bundles. The only lasting reference to a bundle is here: if there is no other, no request uses it.
#[derive(Default)]
pub(super) struct Index {
    bundles: HashMap<KeyId, Arc<Bundle>>,
    contents: HashMap<[u8; 32], KeyId>,
    holders: HashMap<Holder, HolderBundles>,
    /// Bytes that all of them take on the disk.
    bytes: u64,
}

impl Index {
    pub(super) fn get(&self, id: KeyId) -> Option<&Arc<Bundle>> {
        self.bundles.get(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Bundle>> {
        self.bundles.values()
    }

    pub(super) fn count(&self) -> usize {
        self.bundles.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bundle with the owner, the parameters and the bytes of another one.
    pub(super) fn same_bundle(&self, meta: &Meta) -> Option<&Arc<Bundle>> {
        self.get(*self.contents.get(&meta.content())?)
    }

    pub(super) fn held(&self, holder: &Holder) -> Option<&HolderBundles> {
        self.holders.get(holder)
    }

    pub(super) fn of<'a>(&'a self, holder: &Holder) -> impl Iterator<Item = &'a Arc<Bundle>> + use<'a> {
        let ids = self.holders.get(holder).into_iter().flat_map(|held| &held.ids);
        ids.filter_map(|&id| self.get(id))
    }

    /// The uploads of a holder of which nothing has arrived.
    pub(super) fn empty_of<'a>(&'a self, holder: &Holder) -> impl Iterator<Item = &'a Arc<Bundle>> + use<'a> {
        let ids = self.holders.get(holder).into_iter().flat_map(|held| &held.empty);
        ids.filter_map(|&id| self.get(id))
    }

    pub(super) fn insert(&mut self, bundle: Arc<Bundle>) {
        let progress = *bundle.progress();
        let bytes = weight(progress.offset);
        self.bytes = self.bytes.saturating_add(bytes);
        let held = self.holders.entry(bundle.holder.clone()).or_default();
        held.bytes = held.bytes.saturating_add(bytes);
        held.ids.insert(bundle.id);
        if progress.state == State::Uploading && progress.offset == 0 {
            held.empty.insert(bundle.id);
        }
        // Of two bundles with one content, the newer one is found: the older one may have expired.
        let content = bundle.meta.content();
        let same = self.contents.get(&content).and_then(|&id| self.get(id));
        if same.is_none_or(|other| other.progress().touched <= progress.touched) {
            self.contents.insert(content, bundle.id);
        }
        self.bundles.insert(bundle.id, bundle);
    }

    pub(super) fn remove(&mut self, bundle: &Bundle) {
        if self.bundles.remove(&bundle.id).is_none() {
            return;
        }
        let content = bundle.meta.content();
        if self.contents.get(&content) == Some(&bundle.id) {
            self.contents.remove(&content);
        }
        let bytes = weight(bundle.offset());
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(held) = self.holders.get_mut(&bundle.holder) {
            held.bytes = held.bytes.saturating_sub(bytes);
            held.empty.remove(&bundle.id);
            held.ids.remove(&bundle.id);
            if held.ids.is_empty() {
                self.holders.remove(&bundle.holder);
            }
        }
    }

    /// Notes that an upload has `after` bytes in place of `before`.
    pub(super) fn arrived(&mut self, bundle: &Bundle, before: u64, after: u64) {
        if !self.bundles.contains_key(&bundle.id) {
            return;
        }
        let more = weight(after).saturating_sub(weight(before));
        self.bytes = self.bytes.saturating_add(more);
        if let Some(held) = self.holders.get_mut(&bundle.holder) {
            held.bytes = held.bytes.saturating_add(more);
            held.empty.remove(&bundle.id);
        }
    }
}

/// The bytes that a bundle takes on the disk when `arrived` bytes have arrived.
pub(super) fn weight(arrived: u64) -> u64 {
    arrived.max(MIN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocations of one entry: texts of the metadata, lock, flag of cancellation, holder, and places in the maps,
    /// which may be partly empty.
    #[test]
    fn an_entry_takes_no_more_memory_than_is_counted() {
        let texts = 9 + 128 + 32 + 64;
        let lock = 64 + 256;
        let places = size_of::<(KeyId, Arc<Bundle>)>() + size_of::<([u8; 32], KeyId)>() + size_of::<KeyId>() + 3;
        let holder = 25 + size_of::<(Holder, HolderBundles)>() + 2 * 32;
        let all = 16 + size_of::<Bundle>() + texts + lock + 2 * places + holder;
        assert!(all as u64 <= ENTRY_BYTES, "{all}");
    }
}
