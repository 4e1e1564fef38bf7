//! The service's half of a database of encrypted entries: answers queries, and stores what the owner uploads.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::{DatabaseVersion, EMPTY_VERSION, PreparedKeys, UploadedDatabase, VersionedDatabase};
use unspoken_protocol::{ApplicationDescription, Call, KeyLimits, KeyLoader, KeySetId, Limits, Request, ServerHalf};

use super::message::{self, UploadRequest};
use crate::description::Description;
use crate::error::PirError;
use crate::server::PirServer;

/// A database of encrypted entries. Everyone who may use the service may query it, but only the keys of its owner give
/// answers that can be read. Only requests with the owner's write key change it.
pub struct EncryptedServer<D: UploadedDatabase> {
    database: Arc<D>,
    reads: PirServer<Arc<D>>,
    description: Description,
}

impl<D: UploadedDatabase> EncryptedServer<D> {
    /// Serves a database.
    ///
    /// # Errors
    /// As for [`PirServer::new`].
    pub fn new(database: Arc<D>) -> Result<Self, PirError> {
        let description = Description::new(database.current().tables())?;
        Ok(EncryptedServer { reads: PirServer::new(Arc::clone(&database))?, database, description })
    }

    /// Does what an upload request of untrusted bytes asks for, and returns the reply.
    fn store(&self, bytes: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, PirError> {
        let (write_key, request) = message::read_request(self.description.tables(), bytes)?;
        // Before anything else that the request says.
        if !self.database.is_write_key(&write_key) {
            return Err(PirError::WriteKey);
        }
        let state = match request {
            UploadRequest::State => self.database.upload_state()?,
            UploadRequest::Chunk { upload, chunk, entries } => self.database.stage(upload, chunk, &entries)?,
            UploadRequest::Commit { upload, chunks } => self.database.commit_upload(upload, chunks, cancel)?,
        };
        Ok(message::write_reply(&self.description, state))
    }
}

impl<D: UploadedDatabase> KeyLoader for EncryptedServer<D> {
    type Keys = PreparedKeys;
    type KeyError = PirError;

    fn key_set(&self) -> KeySetId {
        self.description.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        self.reads.key_limits()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PirError> {
        self.reads.loaded_key_bytes(front)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<PreparedKeys, PirError> {
        self.reads.load_keys(bundle)
    }

    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), PirError> {
        self.reads.check_keys(keys)
    }
}

impl<D: UploadedDatabase> ServerHalf for EncryptedServer<D> {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), PirError> {
        self.reads.check_ready()
    }

    /// An upload needs less memory than a query: a copy of its chunk.
    fn limits(&self) -> Limits {
        let (reads, tables) = (self.reads.limits(), self.description.tables());
        let query_bytes = reads.query_bytes.max(message::request_bytes(tables, message::most_entries(tables)));
        Limits {
            query_bytes,
            answer_bytes: reads.answer_bytes.max(message::REPLY_BYTES),
            working_bytes: reads.working_bytes.max(3 * query_bytes as u64),
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.reads.prepared_bytes()
    }

    fn release_idle_memory(&self) {
        self.reads.release_idle_memory();
    }

    fn answer(&self, request: &Request<'_, PreparedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        match message::is_upload(request.query) {
            true => self.store(request.query, call.cancel),
            false if self.database.current().version() == EMPTY_VERSION => Err(PirError::NotUploaded),
            false => self.reads.answer(request, call),
        }
    }
}
