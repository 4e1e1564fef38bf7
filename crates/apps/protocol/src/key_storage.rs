//! The choice of how a service stores the keys of its clients.

use unspoken_rlwe::{EvaluationKeys, KeyStorage};

use crate::call::Call;
use crate::ckks::CkksServerHalf;
use crate::header::CkksHeader;
use crate::server_half::{KeyLoader, Limits, Request, ServerHalf};

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

    fn limits(&self) -> Limits {
        self.half.limits()
    }

    fn prepared_bytes(&self) -> u64 {
        self.half.prepared_bytes()
    }

    fn release_idle_memory(&self) {
        self.half.release_idle_memory();
    }

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, Self::Error> {
        self.half.answer(request, call)
    }
}
