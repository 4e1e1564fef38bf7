//! Direct queries: each index as one encrypted number, at the level the lookup needs.

use crate::plan::QueryForm;
use crate::query::Frame;

/// One seeded ciphertext per subtable: `(base + level)` primes of four bytes per coefficient.
#[derive(Clone, Debug)]
pub struct Direct {
    frame: Frame,
    values: QueryForm,
}

impl Direct {
    /// Queries of this shape, of slots that hold what `values` says.
    pub fn new(frame: Frame, values: QueryForm) -> Self {
        Direct { frame, values }
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }

    pub(super) fn values(&self) -> QueryForm {
        self.values
    }
}
