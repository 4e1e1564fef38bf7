//! The applications of a service: server halves by name, without the types of their keys and errors.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use unspoken_protocol::{AnswerHelpers, AnswerProgress, Call, KeySetId, PlainError, ServerHalf};
use unspoken_wire::v1::PublishedModel;
use unspoken_wire::{Message, is_application_name};

use crate::error::ServerError;
use crate::gather::{Gathering, OwnedRequest};
use crate::untyped::{AnyServerHalf, LoadedKeys, Untyped};

/// One application: a server half and its name. A service calls it; a program that moves keys, queries and answers
/// itself may do so too, and then limits how many calls there are.
#[derive(Clone)]
pub struct Application {
    name: Arc<str>,
    pub(crate) key_set: KeySetId,
    half: Arc<AnyServerHalf>,
    /// Number of uses in progress that may leave idle memory.
    running: Arc<AtomicUsize>,
    /// The requests that wait to be answered together, if the application does that.
    pub(crate) gathering: Option<Arc<Gathering>>,
    /// A `PublishedModel`.
    published: Option<Bytes>,
}

/// A use of an application that may leave idle memory. The last use that ends releases the memory.
struct InUse<'a>(&'a Application);

impl<'a> InUse<'a> {
    fn new(application: &'a Application) -> Self {
        application.running.fetch_add(1, Ordering::AcqRel);
        InUse(application)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.half.release_idle_memory();
        }
    }
}

impl Application {
    /// Name in a service's URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server half. The memory that its methods keep for later calls stays until
    /// [`release_idle_memory`](ServerHalf::release_idle_memory), or until the last
    /// [`load_keys`](Application::load_keys) or [`answer`](Application::answer) that runs has ended.
    pub fn half(&self) -> &AnyServerHalf {
        &*self.half
    }

    /// The model that its owner publishes, the bytes of a `PublishedModel`.
    pub fn published(&self) -> Option<&Bytes> {
        self.published.as_ref()
    }

    /// As [`KeyLoader::load_keys`](unspoken_protocol::KeyLoader::load_keys); no idle memory is left when nothing else
    /// runs.
    ///
    /// # Errors
    /// As [`KeyLoader::load_keys`](unspoken_protocol::KeyLoader::load_keys).
    pub fn load_keys(&self, bundle: &mut dyn Read) -> Result<LoadedKeys, PlainError> {
        let _in_use = InUse::new(self);
        self.half.load_keys(bundle)
    }

    /// Computes the answer to a request of untrusted bytes, and reports to `progress` how far it is; no idle memory is
    /// left when nothing else runs.
    ///
    /// Of an application that answers requests together
    /// ([`Limits::most_together`](unspoken_protocol::Limits::most_together)) at most `computations` run at a time. The
    /// other requests wait, nothing is reported and no helper is used; `observe` is told the number of requests of each
    /// computation that this thread runs.
    ///
    /// # Errors
    /// As [`ServerHalf::answer`].
    pub fn answer(
        &self,
        request: OwnedRequest,
        progress: &AnswerProgress,
        helpers: Option<&dyn AnswerHelpers>,
        computations: usize,
        observe: impl Fn(usize),
    ) -> Result<Vec<u8>, PlainError> {
        let _in_use = InUse::new(self);
        match &self.gathering {
            Some(gathering) => gathering.answer(self.half(), computations, request, observe),
            None => {
                let call = Call { cancel: &request.cancel, progress: Some(progress), helpers };
                self.half.answer(&request.borrowed(), &call)
            }
        }
    }

    /// Bytes of memory that the application uses for as long as it is served.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        let published = self.published.as_ref().map_or(0, |model| model.len() as u64);
        self.half.prepared_bytes().saturating_add(published)
    }

    /// Bytes of memory that one answer needs, beyond the query and the keys.
    pub(crate) fn work_bytes(&self) -> u64 {
        let limits = self.half.limits();
        limits.working_bytes.saturating_add(limits.answer_bytes as u64)
    }
}

/// The applications a service offers.
#[derive(Clone, Default)]
pub struct Applications {
    by_name: BTreeMap<Arc<str>, Application>,
}

impl Applications {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an application. It replaces one with the same name.
    ///
    /// # Errors
    /// [`ServerError::ApplicationName`] if the name is not valid in a URL, such as `classify/spam`; see
    /// [`is_application_name`].
    pub fn with(mut self, name: &str, half: impl ServerHalf) -> Result<Self, ServerError> {
        if !is_application_name(name) {
            return Err(ServerError::ApplicationName(name.to_owned()));
        }
        let (name, limits, key_set) = (Arc::<str>::from(name), half.limits(), half.key_set());
        let application = Application {
            name: Arc::clone(&name),
            key_set,
            half: Arc::new(Untyped { half, waits_for_others: limits.waits_for_others }),
            running: Arc::default(),
            gathering: (limits.most_together > 1).then(Arc::default),
            published: None,
        };
        self.by_name.insert(name, application);
        Ok(self)
    }

    /// Publishes a model of the application with this name, if there is one: everyone who may use the service may fetch
    /// it.
    pub fn publish(mut self, name: &str, model: &PublishedModel) -> Self {
        if let Some(application) = self.by_name.get_mut(name) {
            application.published = Some(model.encode_to_vec().into());
        }
        self
    }

    /// All applications, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Application> {
        self.by_name.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Application> {
        self.by_name.get(name)
    }

    /// Maximum length in bytes of a bundle of this key set: with the keys of all its applications.
    pub(crate) fn max_key_bytes(&self, key_set: KeySetId) -> u64 {
        let sharing = self.iter().filter(|application| application.key_set == key_set);
        sharing.fold(0, |sum, application| sum.saturating_add(application.half.key_limits().max_bytes))
    }
}
