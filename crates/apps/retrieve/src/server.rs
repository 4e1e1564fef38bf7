//! The service's half: answers encrypted queries with encrypted cells.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use rayon::prelude::*;
use unspoken_pir::{
    DatabaseVersion, KEY_FORMAT, KeyHeader, Layout, Mode, PirParameters, PreparedKeys, Response, SeededKeys, Staleness,
    VersionedDatabase, answer, answer_memory_bytes,
};
use unspoken_protocol::{ApplicationDescription, ClientId, KeyLoader, KeySetId, ServerHalf};

use crate::description::Description;
use crate::error::RetrieveError;
use crate::message;
use crate::session_guard::SessionGuard;

/// A database that answers queries without learning the indices. It follows the database, also into another layout.
pub struct RetrieveServer<V> {
    versions: V,
    /// The description of the last layout that was served.
    described: RwLock<Arc<Description>>,
    sessions: SessionGuard,
}

impl<V: VersionedDatabase> RetrieveServer<V> {
    /// Serves a database.
    ///
    /// # Errors
    /// If the database's parameters allow no tables for its layout.
    pub fn new(versions: V) -> Result<Self, RetrieveError> {
        let description = Description::new(versions.parameters(), versions.current().layout())?;
        Ok(RetrieveServer { versions, described: RwLock::new(Arc::new(description)), sessions: SessionGuard::new() })
    }

    fn parameters(&self) -> &PirParameters {
        self.versions.parameters()
    }

    /// The description of the current version, or of the last one that could be served.
    fn description(&self) -> Arc<Description> {
        let current = self.description_of(self.versions.current().layout());
        current.unwrap_or_else(|_| self.last_description())
    }

    fn last_description(&self) -> Arc<Description> {
        Arc::clone(&self.described.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The description of a version with this layout.
    fn description_of(&self, layout: Layout) -> Result<Arc<Description>, RetrieveError> {
        let last = self.last_description();
        if last.layout() == layout {
            return Ok(last);
        }
        let description = Arc::new(Description::new(self.parameters(), layout)?);
        *self.described.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&description);
        Ok(description)
    }
}

/// Number of queries of a request that are answered at the same time.
fn at_once(description: &Description) -> usize {
    rayon::current_num_threads().clamp(1, description.most_queries())
}

/// The error of a database that was replaced by one that cannot be served in its place.
fn replaced() -> RetrieveError {
    let found = "one that was replaced, and cannot be taken up by a running service";
    RetrieveError::mismatch("database", found, "a restart of the service by its owner, whose log says why")
}

impl<V: VersionedDatabase> KeyLoader for RetrieveServer<V> {
    type Keys = PreparedKeys;
    type KeyError = RetrieveError;

    /// The same for every kind of queries: a bundle says which kind it is for.
    fn key_set(&self) -> KeySetId {
        self.description().key_set()
    }

    fn key_format(&self) -> u32 {
        KEY_FORMAT
    }

    fn key_front_bytes(&self) -> usize {
        KeyHeader::BYTES
    }

    fn max_key_bytes(&self) -> u64 {
        let bytes = Mode::ALL.into_iter().map(|mode| SeededKeys::byte_len(self.parameters(), mode));
        bytes.max().unwrap_or_default()
    }

    fn key_memory_bytes(&self) -> u64 {
        let bytes = Mode::ALL.into_iter().map(|mode| PreparedKeys::memory_bytes(self.parameters(), mode));
        bytes.max().unwrap_or_default()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, RetrieveError> {
        let mode = KeyHeader::read(self.parameters(), front)?.mode();
        Ok(PreparedKeys::memory_bytes(self.parameters(), mode))
    }

    fn load_keys(&self, bundle: &mut impl Read) -> Result<PreparedKeys, RetrieveError> {
        let prepared = PreparedKeys::read(self.parameters(), bundle)?;
        match bundle.read(&mut [0]) {
            Ok(0) => Ok(prepared),
            Ok(_) => Err(RetrieveError::mismatch("keys", "bytes after their end", "keys and nothing else")),
            Err(source) => Err(RetrieveError::Io { what: "read keys", source }),
        }
    }

    /// Keys of these parameters serve every database.
    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), RetrieveError> {
        if keys.parameters().fingerprint() == self.parameters().fingerprint() {
            return Ok(());
        }
        let needed = format!("keys for preset {}", self.parameters().name());
        Err(RetrieveError::mismatch("keys", "keys of other parameters", needed))
    }
}

impl<V: VersionedDatabase> ServerHalf for RetrieveServer<V> {
    type Error = RetrieveError;

    fn describe(&self) -> Vec<u8> {
        self.description().to_bytes()
    }

    fn check_ready(&self) -> Result<(), RetrieveError> {
        self.description_of(self.versions.current().layout())?;
        match self.versions.staleness() {
            None => Ok(()),
            Some(Staleness::Replaced) => Err(replaced()),
            Some(Staleness::Unreadable) => {
                let needed = "the newest; the service's log says why it cannot be read";
                Err(RetrieveError::mismatch("version of the database", "an earlier one", needed))
            }
        }
    }

    fn query_bytes(&self) -> usize {
        message::most_request_bytes(&self.description())
    }

    fn answer_bytes(&self) -> usize {
        let description = self.description();
        description.answer_bytes(description.most_queries())
    }

    fn prepared_bytes(&self) -> u64 {
        self.versions.resident_bytes() + self.sessions.capacity_bytes()
    }

    fn working_bytes(&self) -> u64 {
        let description = self.description();
        let answers = at_once(&description) as u64 * answer_memory_bytes(self.parameters(), description.shape());
        // Responses need twice their length before they are packed.
        answers + 2 * description.answer_bytes(description.most_queries()) as u64
    }

    fn release_idle_memory(&self) {
        self.parameters().release_idle();
    }

    /// All queries of a request are answered from one version. Queries for an earlier layout are refused, or answered
    /// with the id of the current one, which their client does not accept.
    fn answer(
        &self,
        client: ClientId,
        keys: &PreparedKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, RetrieveError> {
        if self.versions.staleness() == Some(Staleness::Replaced) {
            return Err(replaced());
        }
        let version = self.versions.current();
        let description = self.description_of(version.layout())?;
        let queries = message::read_request(&description, keys.mode(), query)?;
        self.sessions.admit(client, keys.session_seed(), &queries)?;
        let (shape, planes) = (description.shape(), version.planes());
        let respond = |query| Ok(answer(keys, shape, &planes, query, cancel)?.0);
        let mut responses: Vec<Vec<Response>> = Vec::with_capacity(queries.len());
        // Not all queries of a request at the same time: a thread that waits for others begins the next query.
        for some in queries.chunks(at_once(&description)) {
            responses.extend(some.par_iter().map(respond).collect::<Result<Vec<_>, RetrieveError>>()?);
        }
        Ok(message::write_answer(&description, version.version(), responses.iter().flatten()))
    }
}
