//! The choice of how a service stores the keys of its clients.

use std::sync::atomic::AtomicBool;

use unspoken_rlwe::{EvaluationKeys, KeyStorage};

use crate::application::{KeyLoader, ServerHalf};
use crate::ckks::CkksServerHalf;
use crate::client_id::ClientId;
use crate::header::CkksHeader;
use crate::progress::AnswerProgress;

/// A server half that stores the keys of clients in the given way.
pub struct WithKeyStorage<H> {
    half: H,
    storage: KeyStorage,
}

impl<H> WithKeyStorage<H> {
    /// The server half with another storage of keys.
    pub fn new(half: H, storage: KeyStorage) -> Self {
        WithKeyStorage { half, storage }
    }
}

impl<H: CkksServerHalf> CkksServerHalf for WithKeyStorage<H> {
    fn header(&self) -> &CkksHeader {
        self.half.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }
}

impl<H: CkksServerHalf + ServerHalf + KeyLoader<Keys = EvaluationKeys>> ServerHalf for WithKeyStorage<H> {
    type Error = H::Error;

    fn describe(&self) -> Vec<u8> {
        self.half.describe()
    }

    fn check_ready(&self) -> Result<(), Self::Error> {
        self.half.check_ready()
    }

    fn query_bytes(&self) -> usize {
        self.half.query_bytes()
    }

    fn answer_bytes(&self) -> usize {
        self.half.answer_bytes()
    }

    fn prepared_bytes(&self) -> u64 {
        self.half.prepared_bytes()
    }

    fn working_bytes(&self) -> u64 {
        self.half.working_bytes()
    }

    fn release_idle_memory(&self) {
        self.half.release_idle_memory();
    }

    fn answer(
        &self,
        client: ClientId,
        keys: &EvaluationKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Self::Error> {
        self.half.answer(client, keys, query, cancel)
    }

    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &EvaluationKeys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, Self::Error> {
        self.half.answer_with_progress(client, keys, query, cancel, progress)
    }
}
