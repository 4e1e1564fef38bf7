//! The interface of applications: the boundary to the cryptography.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use unspoken_protocol::{AnswerHelpers, AnswerProgress, ClientId, Group, KeySetId, Request};
use unspoken_wire::v1::PublishedModel;
use unspoken_wire::{Message, ProblemCode, is_application_name};

use crate::gather::{Gathering, Parcel};

/// An application of the service, e.g. a text classifier.
///
/// The service stores and transfers bytes; only the application knows what they mean. All bytes passed to it come from
/// a client and may be hostile. [`load_keys`](Self::load_keys) and [`answer`](Self::answer) run on a worker thread and
/// may take long; the other methods must be quick.
pub trait Application: Send + Sync + 'static {
    /// Keys of one client, parsed and ready for use.
    type Keys: Send + Sync + 'static;

    /// Stable name in the URL, e.g. `classify/spam`; see
    /// [`is_application_name`].
    fn name(&self) -> &str;

    /// What a client needs before it makes keys: the bytes of a message that the application defines.
    fn describe(&self) -> Vec<u8>;

    /// Limits on keys, queries and answers. Those on queries and answers may change with the description.
    fn limits(&self) -> ApplicationLimits;

    /// Checks that answers are computed from the newest data, as far as known. Called for every check of readiness.
    ///
    /// # Errors
    /// Why they are not, and what to do. Everyone who reaches the service can read it.
    fn check_ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Identifies the parameters and the kind of the keys. Applications of one key set have the same
    /// [`Keys`](Self::Keys), and each may get bundles and loaded keys of the others. By default the application shares
    /// its keys with no other. Read once, when the service starts.
    fn key_set(&self) -> KeySetId {
        KeySetId::new(self.name(), &[0; 16])
    }

    /// Checks that keys that another application of this key set loaded are all that this one needs.
    ///
    /// # Errors
    /// [`ApplicationError::DoesNotFit`], which names what is missing.
    fn check_keys(&self, _keys: &Self::Keys) -> Result<(), ApplicationError> {
        Ok(())
    }

    /// Bytes of memory that the loaded keys will need, computed from the first
    /// [`header_bytes`](ApplicationLimits::header_bytes) of the bundle (fewer if the bundle is shorter). Called as soon
    /// as these have arrived, so that a bundle of the wrong version is refused early, and again before each load.
    ///
    /// # Errors
    /// [`ApplicationError::Malformed`] or [`ApplicationError::DoesNotFit`].
    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError>;

    /// Parses and checks a complete bundle. The keys are used only if the
    /// bundle's checksum holds too. Reading fails once the load is cancelled.
    ///
    /// # Errors
    /// [`ApplicationError::Malformed`], [`ApplicationError::DoesNotFit`], or
    /// [`ApplicationError::Read`] as the reader returned it.
    fn load_keys(&self, bundle: &mut dyn Read) -> Result<Self::Keys, ApplicationError>;

    /// Bytes of memory that the application itself uses for as long as it is offered. Read once, when the service
    /// starts.
    fn prepared_bytes(&self) -> u64;

    /// Bytes of memory one answer needs at most while it is computed, beyond
    /// keys, query and answer.
    fn working_bytes(&self) -> u64;

    /// Gives back the memory that answers left behind for the next ones. Called when the last answer or load of keys
    /// that was running has ended: until then, this memory is part of what they reserved.
    fn release_idle_memory(&self) {}

    /// Computes one answer to a client, at most [`max_answer_bytes`](ApplicationLimits::max_answer_bytes) long. Should
    /// check `cancel` a few times a second and stop when it is set: the client disconnected, the time limit was
    /// reached, or the service is shutting down.
    ///
    /// # Errors
    /// Any except [`ApplicationError::Read`].
    fn answer(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ApplicationError>;

    /// Like [`answer`](Self::answer), and reports to `progress` which steps are done: clients that ask for it are told.
    /// This is what the service calls. By default nothing is reported.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        _progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError> {
        self.answer(client, keys, query, cancel)
    }

    /// Like [`answer_with_progress`](Self::answer_with_progress), with other processes that compute parts of it. By
    /// default they are not used.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    fn answer_with_helpers(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        _helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, ApplicationError> {
        self.answer_with_progress(client, keys, query, cancel, progress)
    }

    /// Computes a part of an answer of another process, with the same client's keys. Only a process of the service
    /// sends parts. By default answers have none.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    fn compute_part(
        &self,
        _keys: &Self::Keys,
        _part: &[u8],
        _cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ApplicationError> {
        Err(ApplicationError::Internal(format!(
            "found a part of an answer of {}, whose answers have none",
            self.name()
        )))
    }

    /// Maximum number of requests that may wait, with their keys loaded, to be answered together. With 1, the default,
    /// every request is answered alone, and reports progress. Read once, when the service starts.
    fn most_together(&self) -> usize {
        1
    }

    /// Whether answers come from other services: then any number of computations may run at the same time, as many as
    /// [`most_together`](Self::most_together) allows, because they only wait.
    fn waits_for_others(&self) -> bool {
        false
    }

    /// The group of a request: the service may answer those of one group together.
    fn group(&self, _keys: &Self::Keys, _query: &[u8]) -> Group {
        Group::ALONE
    }

    /// Answers requests of one group together, each as [`answer`](Self::answer) would, in their order.
    fn answer_together(
        &self,
        requests: &[Request<'_, Self::Keys>],
        cancel: &AtomicBool,
    ) -> Vec<Result<Vec<u8>, ApplicationError>> {
        let answer = |request: &Request<'_, _>| self.answer(request.client, request.keys, request.query, cancel);
        requests.iter().map(answer).collect()
    }
}

/// Limits of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationLimits {
    /// Version of its key bundle format.
    pub key_format: u32,
    /// Bytes at the start of a bundle that
    /// [`loaded_key_bytes`](Application::loaded_key_bytes) needs.
    pub header_bytes: usize,
    /// Largest key bundle with the keys of this application alone, in bytes.
    pub max_key_bytes: u64,
    /// Largest memory of the loaded keys of this application alone, in bytes.
    pub key_memory_bytes: u64,
    /// Largest query, in bytes.
    pub max_query_bytes: usize,
    /// Largest answer, in bytes.
    pub max_answer_bytes: usize,
}

/// Why an application did not do what was requested. The text of `Internal` is only logged; the others are sent to the
/// client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// The bytes are not a key bundle or query of this application.
    #[error("{0}")]
    Malformed(String),
    /// The bytes are well-formed, but for other parameters, another model or other keys.
    #[error("{0}")]
    DoesNotFit(String),
    /// The query is right, but what the application holds, or who asks, does not allow it. It changed nothing.
    #[error("{text}")]
    Refused {
        /// What was found and what was needed.
        text: String,
        /// What the client can do.
        remedy: String,
    },
    /// What is needed is in use; the same query may be answered later.
    #[error("{0}")]
    Busy(String),
    /// The client has used up what it may ask for; the same query may be answered later.
    #[error("{text}")]
    Exhausted {
        /// What is used up.
        text: String,
        /// Seconds after which the query may be answered.
        wait_seconds: u32,
    },
    /// Stopped because `cancel` was set.
    #[error("cancelled")]
    Cancelled,
    /// The reader given to `load_keys` failed.
    #[error("read the key bundle: {0}")]
    Read(#[from] io::Error),
    /// An error inside the application.
    #[error("{0}")]
    Internal(String),
}

impl RegisteredApplication {
    /// Bytes of memory that one answer needs, beyond the query and the keys.
    pub(crate) fn work_bytes(&self) -> u64 {
        self.application.working_bytes().saturating_add(self.limits().max_answer_bytes as u64)
    }
}

/// The applications a service offers.
#[derive(Clone, Default)]
pub struct Applications {
    by_name: BTreeMap<String, RegisteredApplication>,
}

/// One application.
#[derive(Clone)]
pub(crate) struct RegisteredApplication {
    pub(crate) application: Arc<dyn DynApplication>,
    pub(crate) key_set: KeySetId,
    /// Number of uses in progress.
    running: Arc<AtomicUsize>,
    /// The requests that wait to be answered together, if the application does that.
    pub(crate) gathering: Option<Arc<Gathering>>,
    /// The model that its owner publishes, a `PublishedModel`.
    pub(crate) published: Option<Bytes>,
}

/// A use of an application that may leave idle memory behind. The last one that ends releases it.
pub(crate) struct InUse<'a>(&'a RegisteredApplication);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.application.release_idle_memory();
        }
    }
}

impl RegisteredApplication {
    /// Bytes of memory that the application uses for as long as it is served.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        let published = self.published.as_ref().map_or(0, |model| model.len() as u64);
        self.application.prepared_bytes().saturating_add(published)
    }

    pub(crate) fn limits(&self) -> ApplicationLimits {
        self.application.limits()
    }

    /// Begins a use, which ends when the result is dropped: before its reservation of memory does.
    pub(crate) fn in_use(&self) -> InUse<'_> {
        self.running.fetch_add(1, Ordering::AcqRel);
        InUse(self)
    }
}

impl Applications {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an application. It replaces one with the same name.
    ///
    /// # Errors
    /// [`InvalidName`] if the name is not valid in a URL.
    pub fn with(mut self, application: impl Application) -> Result<Self, InvalidName> {
        let name = application.name().to_owned();
        if !is_application_name(&name) {
            return Err(InvalidName(name));
        }
        let key_set = application.key_set();
        let application: Arc<dyn DynApplication> = Arc::new(application);
        let gathering = (application.most_together() > 1).then(Arc::default);
        let registered =
            RegisteredApplication { application, key_set, running: Arc::default(), gathering, published: None };
        self.by_name.insert(name, registered);
        Ok(self)
    }

    /// Publishes a model of the application with this name, if there is one: everyone who may use the service may fetch
    /// it.
    pub fn publish(mut self, name: &str, model: &PublishedModel) -> Self {
        if let Some(registered) = self.by_name.get_mut(name) {
            registered.published = Some(model.encode_to_vec().into());
        }
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RegisteredApplication> {
        self.by_name.get(name)
    }

    /// Maximum length in bytes of a bundle of this key set: with the keys of all its applications.
    pub(crate) fn max_key_bytes(&self, key_set: KeySetId) -> u64 {
        let sharing = self.by_name.values().filter(|offer| offer.key_set == key_set);
        sharing.fold(0, |sum, offer| sum.saturating_add(offer.limits().max_key_bytes))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RegisteredApplication)> {
        self.by_name.iter().map(|(name, offer)| (name.as_str(), offer))
    }
}

/// An application's name is not valid in a URL.
#[derive(Debug, thiserror::Error)]
#[error(
    "add application: name {0:?} is not valid in a URL; needed lower-case segments joined by \
     '/', such as classify/spam"
)]
pub struct InvalidName(String);

/// Loaded keys of any application.
pub(crate) type AnyKeys = Arc<dyn Any + Send + Sync>;

/// [`Application`] without its key type, so that one map can contain several.
pub(crate) trait DynApplication: Send + Sync {
    fn describe(&self) -> Vec<u8>;
    fn limits(&self) -> ApplicationLimits;
    fn check_ready(&self) -> Result<(), String>;
    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError>;
    fn load_keys(&self, bundle: &mut dyn Read) -> Result<AnyKeys, ApplicationError>;
    fn check_keys(&self, keys: &AnyKeys) -> Result<(), ApplicationError>;
    fn prepared_bytes(&self) -> u64;
    fn working_bytes(&self) -> u64;
    fn release_idle_memory(&self);
    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &AnyKeys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError>;
    fn answer_with_helpers(
        &self,
        client: ClientId,
        keys: &AnyKeys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, ApplicationError>;
    fn compute_part(&self, keys: &AnyKeys, part: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ApplicationError>;
    fn most_together(&self) -> usize;
    fn waits_for_others(&self) -> bool;
    fn group(&self, keys: &AnyKeys, query: &[u8]) -> Result<Group, ApplicationError>;
    fn answer_together(&self, parcels: &[&Parcel], cancel: &AtomicBool) -> Vec<Result<Vec<u8>, ApplicationError>>;
}

impl<A: Application> DynApplication for A {
    fn describe(&self) -> Vec<u8> {
        Application::describe(self)
    }

    fn limits(&self) -> ApplicationLimits {
        Application::limits(self)
    }

    fn check_ready(&self) -> Result<(), String> {
        Application::check_ready(self)
    }

    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        Application::loaded_key_bytes(self, header)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<AnyKeys, ApplicationError> {
        Ok(Arc::new(Application::load_keys(self, bundle)?))
    }

    fn check_keys(&self, keys: &AnyKeys) -> Result<(), ApplicationError> {
        Application::check_keys(self, own_keys(keys)?)
    }

    fn prepared_bytes(&self) -> u64 {
        Application::prepared_bytes(self)
    }

    fn working_bytes(&self) -> u64 {
        Application::working_bytes(self)
    }

    fn release_idle_memory(&self) {
        Application::release_idle_memory(self);
    }

    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &AnyKeys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError> {
        Application::answer_with_progress(self, client, own_keys(keys)?, query, cancel, progress)
    }

    fn answer_with_helpers(
        &self,
        client: ClientId,
        keys: &AnyKeys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, ApplicationError> {
        Application::answer_with_helpers(self, client, own_keys(keys)?, query, cancel, progress, helpers)
    }

    fn compute_part(&self, keys: &AnyKeys, part: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ApplicationError> {
        Application::compute_part(self, own_keys(keys)?, part, cancel)
    }

    fn most_together(&self) -> usize {
        Application::most_together(self)
    }

    fn waits_for_others(&self) -> bool {
        Application::waits_for_others(self)
    }

    fn group(&self, keys: &AnyKeys, query: &[u8]) -> Result<Group, ApplicationError> {
        Ok(Application::group(self, own_keys(keys)?, query))
    }

    fn answer_together(&self, parcels: &[&Parcel], cancel: &AtomicBool) -> Vec<Result<Vec<u8>, ApplicationError>> {
        let mut requests = Vec::with_capacity(parcels.len());
        for Parcel { client, keys, query, .. } in parcels {
            // Their groups were found with their keys, so these are of the right type.
            match own_keys(keys) {
                Ok(keys) => requests.push(Request { client: *client, keys, query }),
                Err(_) => return Vec::new(),
            }
        }
        Application::answer_together(self, &requests, cancel)
    }
}

fn own_keys<K: 'static>(keys: &AnyKeys) -> Result<&K, ApplicationError> {
    let other = || ApplicationError::Internal("keys of another type were passed: two key sets have one id".into());
    keys.downcast_ref().ok_or_else(other)
}

/// The input that an application rejected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientInput {
    Keys,
    Query,
}

impl ApplicationError {
    /// The problem code that a client receives for this error.
    pub(crate) fn code(&self, input: ClientInput) -> ProblemCode {
        match (self, input) {
            (Self::Malformed(_), ClientInput::Keys) => ProblemCode::MalformedKeys,
            (Self::Malformed(_), ClientInput::Query) => ProblemCode::MalformedQuery,
            (Self::DoesNotFit(_), _) => ProblemCode::DoesNotFit,
            (Self::Refused { .. }, _) => ProblemCode::NotAllowed,
            (Self::Busy(_), _) => ProblemCode::Overloaded,
            (Self::Exhausted { .. }, _) => ProblemCode::TooManyRequests,
            (Self::Cancelled, _) => ProblemCode::ShuttingDown,
            (Self::Read(_), _) => ProblemCode::StorageFailed,
            (Self::Internal(_), _) => ProblemCode::Internal,
        }
    }
}
