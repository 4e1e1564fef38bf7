//! Identity of the keys that several applications can share.

use std::fmt;

/// Identifies the parameters and the kind of keys. A client has one secret key for each key set of a service.
/// Applications with the same key set can use the same key bundle, if it has all keys that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeySetId([u8; 16]);

impl KeySetId {
    /// The key set of this kind of keys, for the parameters with this fingerprint.
    pub fn new(kind: &str, fingerprint: &[u8; 16]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 set of evaluation keys");
        hasher.update(fingerprint).update(kind.as_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        KeySetId(id)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for KeySetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
