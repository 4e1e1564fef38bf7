//! Direct queries: each index as one encrypted number, at the level that the lookup needs.

use unspoken_lookup::IndexEncoding;

use crate::shape::QueryShape;

/// Direct queries. A query has one seeded ciphertext per subtable: `(base + level)` primes of four bytes per
/// coefficient.
#[derive(Clone, Debug)]
pub struct Direct {
    shape: QueryShape,
    values: IndexEncoding,
}

impl Direct {
    /// Queries of this shape whose slots are encoded as `values`.
    pub fn new(shape: QueryShape, values: IndexEncoding) -> Self {
        Direct { shape, values }
    }

    pub(crate) fn shape(&self) -> &QueryShape {
        &self.shape
    }

    pub(crate) fn values(&self) -> IndexEncoding {
        self.values
    }
}
