//! Tags by which the owner of a database of encrypted entries recognises its own content.
//!
//! A ciphertext can be changed by anyone: adding a public message to its first component adds it to the content. A tag
//! in every piece, which depends on the place and on the layout, detects that, and entries that were moved.

use std::fmt;

use subtle::ConstantTimeEq;
use unspoken_ring::declassify;
use zeroize::{Zeroizing, zeroize_stack};

use crate::entry::HASH_STACK_BYTES;
use crate::layout::{Layout, Length};
use crate::table_kind::TAG_BYTES;
use crate::tables::Tables;

/// Key of the tags of all databases of an owner.
pub(crate) struct AuthenticationKey(Zeroizing<[u8; 32]>);

/// Key of the tags of one layout.
pub(crate) struct TablesKey(Zeroizing<[u8; 32]>);

/// Does not print the key.
impl fmt::Debug for AuthenticationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthenticationKey(..)")
    }
}

impl AuthenticationKey {
    pub(crate) fn new(key: Zeroizing<[u8; 32]>) -> Self {
        AuthenticationKey(key)
    }

    /// The key for the parameters and the layout of these tables.
    pub(crate) fn of_tables(&self, tables: &Tables) -> TablesKey {
        let parts: [&[u8]; 2] = [&tables.parameters().fingerprint(), &layout_bytes(tables.layout())];
        TablesKey(keyed_hash(&self.0, &parts))
    }
}

impl TablesKey {
    /// The tag of a piece of a cell.
    pub(crate) fn tag(&self, plane: usize, index: u64, content: &[u8]) -> Zeroizing<[u8; TAG_BYTES]> {
        keyed_hash(&self.0, &[&(plane as u64).to_le_bytes(), &index.to_le_bytes(), content])
    }

    /// Whether a tag is the tag of a piece. Takes the same time for every tag.
    pub(crate) fn verify(&self, plane: usize, index: u64, content: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        declassify(self.tag(plane, index, content).ct_eq(tag).into())
    }
}

/// BLAKE3 in its keyed mode. Wipes the stack that it used.
fn keyed_hash<const BYTES: usize>(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; BYTES]> {
    #[inline(never)]
    fn fill(key: &[u8; 32], parts: &[&[u8]], out: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_keyed(key);
        parts.iter().for_each(|part| _ = hasher.update(part));
        hasher.finalize_xof().fill(out);
    }
    let mut hash = Zeroizing::new([0; BYTES]);
    fill(key, parts, hash.as_mut_slice());
    zeroize_stack::<HASH_STACK_BYTES>();
    hash
}

/// All numbers of a layout, in a fixed number of bytes.
fn layout_bytes(layout: Layout) -> Vec<u8> {
    let (kind, cells, numbers, seed) = match layout {
        Layout::Index { records, length: Length::Fixed(bytes) } => (0, records, [bytes, 0], [0; 16]),
        Layout::Index { records, length: Length::Variable { max } } => (1, records, [max, 0], [0; 16]),
        Layout::Keys { buckets, bucket_bytes, candidates, seed } => (2, buckets, [bucket_bytes, candidates], seed),
    };
    let numbers = numbers.map(u32::to_le_bytes);
    [&[kind][..], &cells.to_le_bytes(), numbers.as_flattened(), &seed].concat()
}
