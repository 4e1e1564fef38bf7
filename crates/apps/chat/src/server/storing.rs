//! Sessions that outlive the process: written after each pass, read when a client continues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use unspoken_protocol::ClientId;

use super::ChatServer;
use super::state::{SessionEntry, State, StoredSessions};
use crate::error::ChatError;
use crate::session_id::SessionId;
use crate::sessions::{Key, Sessions};
use crate::stored::{Format, SessionStore, StoredSession, name_of};

/// Bytes of an entry beside its vectors and public tokens, at most.
const FRONT_BYTES: u64 = 1 << 20;

/// Removes an entry. If that fails, the next start does.
fn remove(store: &dyn SessionStore, name: &str) {
    if let Err(error) = store.remove(name) {
        tracing::warn!(entry = name, %error, "cannot remove a stored session");
    }
}

impl ChatServer {
    /// The same server, whose sessions outlive it: each is written to a store after each pass. Sessions that are there
    /// already, also after a crash, are continued. Entries that are damaged, of another model or other options, too old
    /// or too many are removed, with a line in the log.
    ///
    /// An entry has what the service sees anyway: the public tokens in the clear, the client's id, and ciphertexts.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub fn store_sessions(mut self, store: Arc<dyn SessionStore>) -> io::Result<Self> {
        let format = Format::new(&self.description, &self.program);
        let removing = Arc::clone(&store);
        self.sessions = Sessions::new(self.limits).on_removal(move |(client, id)| {
            remove(&*removing, &name_of(client, id));
        });
        let mut found = Vec::new();
        for name in store.names()? {
            let read = store.open(&name).and_then(|input| format.check(input, &self.description, self.entry_bytes()));
            match read {
                Ok(stored) if name_of(stored.client, stored.session) == name => found.push(stored),
                Ok(_) => {
                    tracing::warn!(entry = name, "a stored session under the name of another one is removed");
                    remove(&*store, &name);
                }
                Err(error) if is_damage(&error) => {
                    tracing::warn!(entry = name, %error, "an unusable stored session is removed");
                    remove(&*store, &name);
                }
                Err(error) => tracing::warn!(entry = name, %error, "a stored session cannot be read now, and stays"),
            }
        }
        found.sort_by_key(|stored| stored.written);
        let now = SystemTime::now();
        for stored in &found {
            let unused = now.duration_since(stored.written).unwrap_or_default();
            self.sessions.put_back((stored.client, stored.session), SessionEntry::Stored, unused);
        }
        let sessions = self.sessions.len();
        tracing::info!(sessions, removed = found.len() - sessions, "stored sessions that can be continued");
        self.stored = Some(StoredSessions { store, format });
        Ok(self)
    }

    /// Bytes of the entry of one session in the store of [`ChatServer::store_sessions`], at most.
    pub fn entry_bytes(&self) -> u64 {
        // A residue has 30 bits in an entry and 32 in memory.
        self.session_bytes.saturating_add(FRONT_BYTES)
    }

    /// Writes a session after a pass. If it cannot be written it is lost when this process ends.
    pub(super) fn store(&self, (client, session): Key, state: &State) {
        let Some(StoredSessions { store, format }) = &self.stored else { return };
        let stored = StoredSession {
            client,
            session,
            written: SystemTime::now(),
            chunk: state.private.chunk() as u32,
            public: state.tokens.clone(),
        };
        let (name, parameters, start) = (name_of(client, session), self.description.parameters(), Instant::now());
        match store.replace(&name, &mut |out| format.write(&stored, &state.private, parameters, out)) {
            Ok(()) => tracing::debug!(entry = name, seconds = start.elapsed().as_secs_f64(), "stored a session"),
            Err(error) => {
                tracing::warn!(entry = name, %error, "cannot store a session; it ends with this process");
                // The state before this pass is no state that its client expects.
                remove(&**store, &name);
            }
        }
    }

    /// Reads a session; `None` if its entry is damaged or gone.
    pub(super) fn read_stored(
        &self,
        (client, session): (ClientId, SessionId),
        cancel: &AtomicBool,
    ) -> Result<Option<State>, ChatError> {
        let Some(StoredSessions { store, format }) = &self.stored else { return Ok(None) };
        let name = name_of(client, session);
        let read = store
            .open(&name)
            .and_then(|input| format.read(input, &self.description, &self.program, self.requirements.session_bytes));
        let (stored, private) = match read {
            Ok((stored, private)) if (stored.client, stored.session) == (client, session) => (stored, private),
            Ok(_) => {
                tracing::warn!(entry = name, "a stored session is that of another client");
                return Ok(None);
            }
            Err(error) if is_damage(&error) => {
                tracing::warn!(entry = name, %error, "a stored session cannot be read");
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(entry = name, %error, "a stored session cannot be read now");
                return Err(ChatError::Busy { found: "a stored session that cannot be read now" });
            }
        };
        match self.public_cache(&stored.public, cancel) {
            Ok(public) => {
                let chunks = self.description.chunks_after(public.len());
                let public = Arc::new(public);
                Ok(Some(State { public, tokens: stored.public, private, begun: true, chunks }))
            }
            Err(ChatError::Cancelled) => Err(ChatError::Cancelled),
            Err(error) => {
                tracing::warn!(entry = name, %error, "a stored session has public tokens that do not fit");
                Ok(None)
            }
        }
    }
}

/// Whether an entry is damaged or gone, and not only unreadable for now.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound)
}
