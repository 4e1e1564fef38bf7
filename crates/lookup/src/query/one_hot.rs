//! One-hot queries (the form of HE-LRM): each index as `p` encrypted numbers, of which one is 1.
//!
//! The server needs no powers and no keys, one level and one matrix product; the client sends `p` ciphertexts where a direct
//! query is one. The baseline for bytes.

use crate::query::Frame;

/// `p` seeded ciphertexts per subtable.
#[derive(Clone, Debug)]
pub struct OneHot {
    frame: Frame,
}

impl OneHot {
    /// Queries of this shape.
    pub fn new(frame: Frame) -> Self {
        OneHot { frame }
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }
}
