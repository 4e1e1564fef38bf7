//! Direct queries: each index as one encrypted number, at the level the lookup needs.

use unspoken_lookup::IndexEncoding;

use crate::codec::QueryShape;

/// One seeded ciphertext per subtable: `(base + level)` primes of four bytes per coefficient.
#[derive(Clone, Debug)]
pub struct Direct {
    shape: QueryShape,
    values: IndexEncoding,
}

impl Direct {
    /// Queries of this shape, of slots that hold what `values` says.
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
