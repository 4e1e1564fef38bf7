//! One-hot queries (the form of HE-LRM): each index as `p` encrypted numbers: one is 1, the others are 0.
//!
//! The server needs no powers and no keys, one level and one matrix product. The client sends `p` ciphertexts where a
//! direct query is one. This form is the baseline for query sizes.

use crate::shape::QueryShape;

/// One-hot queries. A query has `p` seeded ciphertexts per subtable.
#[derive(Clone, Debug)]
pub struct OneHot {
    shape: QueryShape,
}

impl OneHot {
    /// Queries of this shape.
    pub fn new(shape: QueryShape) -> Self {
        OneHot { shape }
    }

    pub(crate) fn shape(&self) -> &QueryShape {
        &self.shape
    }
}
