//! The interface of an application towards a service, for every encryption scheme.
//!
//! The bytes of bundles and queries come from clients and may be hostile. [`KeyLoader::load_keys`] and the computation
//! of answers run on threads of their own and may take long; everything else must be quick.

use std::io::Read;

use crate::call::Call;
use crate::client_id::ClientId;
use crate::error::ApplicationError;
use crate::key_set::KeySetId;

/// Limits on the keys of one application alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Version of the format of bundles.
    pub format: u32,
    /// Bytes at the start of a bundle that [`KeyLoader::loaded_key_bytes`] reads.
    pub front_bytes: usize,
    /// Maximum length of a bundle, in bytes.
    pub max_bytes: u64,
    /// Maximum memory of loaded keys, in bytes.
    pub memory_bytes: u64,
}

/// Loading of the keys of an application's clients: the part of a [`ServerHalf`] that applications may share.
pub trait KeyLoader: Send + Sync + 'static {
    /// The keys of one client, ready for use.
    type Keys: Send + Sync + 'static;
    /// Errors of keys.
    type KeyError: ApplicationError;

    /// Identifies the parameters and the kind of the keys. Applications with the same key set have the same type of
    /// keys, and each can load the bundles of the others. A service reads it once, when it starts.
    fn key_set(&self) -> KeySetId;

    /// Limits on the keys of this application alone.
    fn key_limits(&self) -> KeyLimits;

    /// Reads the start of a key bundle, [`KeyLimits::front_bytes`] or all of a shorter bundle, and returns the bytes of
    /// memory that its keys will need. A service calls it as soon as they have arrived, and before each load.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, or lacks keys that the application needs.
    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, Self::KeyError>;

    /// Reads and expands a key bundle of untrusted bytes. Reading fails once the load is cancelled.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, lacks a key, or reading fails.
    fn load_keys(&self, bundle: &mut dyn Read) -> Result<Self::Keys, Self::KeyError>;

    /// Checks keys that another application of this key set loaded: whether all keys are there that this application
    /// needs.
    ///
    /// # Errors
    /// If a key is missing.
    fn check_keys(&self, keys: &Self::Keys) -> Result<(), Self::KeyError>;
}

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, K> {
    /// The client.
    pub client: ClientId,
    /// Its keys.
    pub keys: &'a K,
    /// The untrusted bytes of its query.
    pub query: &'a [u8],
}

impl<'a, K> Request<'a, K> {
    /// A query of a client with these keys.
    pub const fn new(client: ClientId, keys: &'a K, query: &'a [u8]) -> Self {
        Request { client, keys, query }
    }
}

/// Requests that [`ServerHalf::answer_together`] answers together: requests with the same number, up to a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of the group.
    pub id: u32,
    /// Weight of this request, for instance its number of queries.
    pub weight: usize,
    /// Maximum weight of the requests of the group that are answered together. A heavier one is answered alone. With 1,
    /// every request is answered alone, and others of the group at the same time.
    pub most: usize,
}

impl Group {
    /// The group of requests that are answered alone.
    pub const ALONE: Group = Group { id: 0, weight: 1, most: 1 };
}

/// Limits on the queries and answers of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a query in bytes.
    pub query_bytes: usize,
    /// Maximum length of an answer in bytes.
    pub answer_bytes: usize,
    /// Bytes of memory that one answer needs while it is computed, beyond query, keys and model, and beyond the answer
    /// itself.
    pub working_bytes: u64,
    /// Maximum number of requests that may wait, with their keys loaded, to be answered together, or for other
    /// services. With 1 every request is answered alone, and as few at the same time as there are workers. A service
    /// reads it once, when it starts.
    pub most_together: usize,
    /// Whether an answer waits for other services or for a disk. It must not wait on a thread of the pool that
    /// computations of this process share. All of [`most_together`](Self::most_together) may then wait at the same
    /// time. A service reads it once, when it starts.
    pub waits_for_others: bool,
}

/// The server's half of an application: a model or a database that never sees the questions.
pub trait ServerHalf: KeyLoader {
    /// Errors of answers.
    type Error: ApplicationError;

    /// The description for clients. It may change while the application is served, and the limits on queries and
    /// answers with it: clients then read it again.
    fn describe(&self) -> Vec<u8>;

    /// Limits on queries and answers. Read for every request.
    fn limits(&self) -> Limits;

    /// Bytes of memory that the application uses for as long as it is served: the prepared model, whether it is encoded
    /// already or on first use, and the replay guards. A service reads it once, when it starts.
    fn prepared_bytes(&self) -> u64;

    /// Checks that answers are computed from the newest data, as far as known. Called often.
    ///
    /// # Errors
    /// Why they are not, and what the owner of the service should do. Strangers may read it.
    fn check_ready(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Gives back the memory that answers keep for later ones. Called when the last answer or load of keys that was
    /// running has ended, so that this memory never exceeds the [`Limits::working_bytes`] of the answers that run.
    fn release_idle_memory(&self) {}

    /// Computes the answer to a request, at most [`Limits::answer_bytes`] long. Looks at [`Call::cancel`] a few times a
    /// second and stops when it is set. An application whose answers take seconds reports its steps.
    ///
    /// # Errors
    /// If the query is malformed or does not fit, or when cancelled.
    fn answer(&self, request: &Request<'_, Self::Keys>, call: &Call<'_>) -> Result<Vec<u8>, Self::Error>;

    /// The group of a request.
    fn group(&self, _request: &Request<'_, Self::Keys>) -> Group {
        Group::ALONE
    }

    /// Answers requests of one group together, each as [`answer`](Self::answer) would, in their order. A request that
    /// cannot be answered must not keep the others from their answers.
    fn answer_together(
        &self,
        requests: &[Request<'_, Self::Keys>],
        call: &Call<'_>,
    ) -> Vec<Result<Vec<u8>, Self::Error>> {
        requests.iter().map(|request| self.answer(request, call)).collect()
    }

    /// Computes a part of an answer of another process, with the same client's keys; stops soon after
    /// [`Call::cancel`] is set. `None` if answers of this application have no parts, which is the default.
    fn compute_part(&self, _keys: &Self::Keys, _part: &[u8], _call: &Call<'_>) -> Option<Result<Vec<u8>, Self::Error>> {
        None
    }
}
