//! Where the sessions of a server are.

use std::sync::Arc;

use crate::kept::{Format, SessionStore};
use crate::server::state::State;

/// The store of a server, and the form of its entries.
pub(super) struct SavedSessions {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) format: Format,
}

/// A session, or the note that it is in the store.
pub(super) enum SessionEntry {
    Memory(State),
    Stored,
}
