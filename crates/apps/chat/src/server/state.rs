//! The state of a session, and where sessions are.

use std::sync::Arc;

use unspoken_ckks::Ciphertext;
use unspoken_encrypted_llama::Session;
use unspoken_llama_model::KvCache;

use crate::error::ChatError;
use crate::stored::{Format, SessionStore};

/// The state of a session.
pub(super) struct State {
    /// Keys and values of prefix and public tokens.
    pub(super) public: Arc<KvCache>,
    /// The public tokens.
    pub(super) tokens: Vec<u32>,
    /// Keys and values of private tokens.
    pub(super) private: Session<Ciphertext>,
    /// Whether a chunk has run.
    pub(super) begun: bool,
    /// Chunks that the session has room for.
    pub(super) chunks: usize,
}

impl State {
    /// Whether a pass of this chunk begins a new chunk; otherwise it replaces this chunk, and those after it are
    /// forgotten.
    pub(super) fn begins(&self, chunk: u32) -> Result<bool, ChatError> {
        let (chunk, last) = (chunk as usize, self.private.chunk());
        let found = format!("chunk {chunk}");
        if chunk >= self.chunks {
            let needed = format!("one below {}, the chunks of this session; begin another", self.chunks);
            return Err(ChatError::session(found, needed));
        }
        match self.begun {
            false if chunk == 0 => Ok(true),
            false => Err(ChatError::session(found, "chunk 0, the first one")),
            true if chunk <= last => Ok(false),
            true if chunk == last + 1 => Ok(true),
            true => Err(ChatError::session(found, format!("chunk {} or an earlier one", last + 1))),
        }
    }
}

/// The store of a server, and the form of its entries.
pub(super) struct StoredSessions {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) format: Format,
}

/// A session, or the note that it is in the store.
pub(super) enum SessionEntry {
    Memory(State),
    Stored,
}
