//! The service's half: answers encrypted queries with encrypted cells.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use unspoken_pir::{
    DatabaseVersion, KEY_FORMAT, KeyHeader, Mode, PirParameters, PreparedKeys, Response, SeededKeys, VersionedDatabase,
    answer, answer_memory_bytes,
};
use unspoken_protocol::{ApplicationDescription, ClientId, KeyLoader, KeySetId, ServerHalf};

use crate::description::Description;
use crate::error::RetrieveError;
use crate::message;
use crate::session_guard::SessionGuard;

/// A database that answers queries without learning the indices.
pub struct RetrieveServer<V> {
    versions: V,
    description: Description,
    sessions: SessionGuard,
}

impl<V: VersionedDatabase> RetrieveServer<V> {
    /// Serves a database.
    ///
    /// # Errors
    /// If the database's parameters allow no tables for its layout.
    pub fn new(versions: V) -> Result<Self, RetrieveError> {
        let description = Description::new(versions.parameters(), versions.current().layout())?;
        Ok(RetrieveServer { versions, description, sessions: SessionGuard::new() })
    }

    fn parameters(&self) -> &PirParameters {
        self.description.parameters()
    }

    /// Number of queries of a request that are answered at the same time.
    fn at_once(&self) -> usize {
        rayon::current_num_threads().clamp(1, self.description.most_queries())
    }
}

impl<V: VersionedDatabase> KeyLoader for RetrieveServer<V> {
    type Keys = PreparedKeys;
    type KeyError = RetrieveError;

    /// The same for every kind of queries: a bundle says which kind it is for.
    fn key_set(&self) -> KeySetId {
        self.description.key_set()
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
        self.description.to_bytes()
    }

    fn query_bytes(&self) -> usize {
        message::most_request_bytes(&self.description)
    }

    fn answer_bytes(&self) -> usize {
        self.description.answer_bytes(self.description.most_queries())
    }

    fn prepared_bytes(&self) -> u64 {
        self.versions.resident_bytes() + self.sessions.capacity_bytes()
    }

    fn working_bytes(&self) -> u64 {
        let answers = self.at_once() as u64 * answer_memory_bytes(self.parameters(), self.description.shape());
        // Responses need twice their length before they are packed.
        answers + 2 * self.answer_bytes() as u64
    }

    /// All queries of a request are answered from one version.
    fn answer(
        &self,
        client: ClientId,
        keys: &PreparedKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, RetrieveError> {
        let queries = message::read_request(&self.description, keys.mode(), query)?;
        self.sessions.admit(client, keys.session_seed(), &queries)?;
        let version = self.versions.current();
        if version.layout() != self.description.layout() {
            let (found, needed) = ("one rebuilt in another layout", "the service to be started anew");
            return Err(RetrieveError::mismatch("database", found, needed));
        }
        let (shape, planes) = (self.description.shape(), version.planes());
        let respond = |query| Ok(answer(keys, shape, &planes, query, cancel)?.0);
        let mut responses: Vec<Vec<Response>> = Vec::with_capacity(queries.len());
        // Not all queries of a request at the same time: a thread that waits for others begins the next query.
        for some in queries.chunks(self.at_once()) {
            responses.extend(some.par_iter().map(respond).collect::<Result<Vec<_>, RetrieveError>>()?);
        }
        Ok(message::write_answer(&self.description, version.version(), responses.iter().flatten()))
    }
}
