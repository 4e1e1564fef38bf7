//! The room that a bundle needs, and what gives it.

use std::sync::Arc;

use crate::store::index::{MIN_BYTES, weight};
use crate::store::{Bundle, Meta};

/// Room that a bundle needs.
#[derive(Clone, Copy)]
pub(super) struct Need {
    /// Bytes that the bundle takes now, in addition to its present bytes.
    pub(super) now: u64,
    /// Bytes that the bundle will take when it is complete, in addition to its present bytes.
    pub(super) in_all: u64,
}

impl Need {
    /// The room that a new bundle needs. A bundle takes room as its bytes arrive: to declare many bundles
    /// deletes none.
    pub(super) fn declared(new: &Meta) -> Self {
        Need { now: MIN_BYTES, in_all: new.length.max(MIN_BYTES) }
    }

    /// The room that newly arrived bytes of an upload need.
    pub(super) fn arrived(bundle: &Bundle, bytes: u64) -> Self {
        let offset = bundle.offset();
        let [held, then] = [offset, offset.saturating_add(bytes)].map(weight);
        Need { now: then - held, in_all: bundle.meta.length.max(MIN_BYTES).saturating_sub(held) }
    }
}

/// Whether there is room for a bundle.
pub(super) enum Room {
    /// Yes.
    Free,
    /// Only without this one, which no request uses.
    Without(Arc<Bundle>),
}
