//! Applications apart from a service, for programs that move keys, queries and answers themselves.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use unspoken_protocol::{AnswerHelpers, AnswerProgress, ClientId, KeySetId};

use crate::application::{AnyKeys, ApplicationError, ApplicationLimits, Applications, RegisteredApplication};
use crate::gather::Parcel;

/// An application without a service around it. Each call answers one query; the caller limits how many there are.
#[derive(Clone)]
pub struct Hosted {
    name: String,
    registered: RegisteredApplication,
}

/// The loaded keys of a client.
#[derive(Clone)]
pub struct HostedKeys(AnyKeys);

impl Applications {
    /// All applications, one by one.
    pub fn hosted(&self) -> Vec<Hosted> {
        let each = |(name, registered): (&str, &RegisteredApplication)| Hosted {
            name: name.to_owned(),
            registered: registered.clone(),
        };
        self.iter().map(each).collect()
    }
}

impl Hosted {
    /// Name in a service's URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description for clients, as it is now.
    pub fn describe(&self) -> Vec<u8> {
        self.registered.application.describe()
    }

    /// Limits on keys, queries and answers.
    pub fn limits(&self) -> ApplicationLimits {
        self.registered.limits()
    }

    /// Identifies the parameters and the kind of the keys.
    pub fn key_set(&self) -> KeySetId {
        self.registered.key_set
    }

    /// The model that its owner publishes, the bytes of a `PublishedModel`.
    pub fn published(&self) -> Option<Bytes> {
        self.registered.published.clone()
    }

    /// Whether answers are computed from the newest data, as far as known.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check_ready(&self) -> Result<(), String> {
        self.registered.application.check_ready()
    }

    /// Bytes of memory that loaded keys need, from the first bytes of their bundle.
    ///
    /// # Errors
    /// If they are no bundle of this application.
    pub fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        self.registered.application.loaded_key_bytes(header)
    }

    /// Parses and checks a bundle of untrusted bytes.
    ///
    /// # Errors
    /// If it is malformed, or does not fit.
    pub fn load_keys(&self, bundle: &mut dyn Read) -> Result<HostedKeys, ApplicationError> {
        let _in_use = self.registered.in_use();
        self.registered.application.load_keys(bundle).map(HostedKeys)
    }

    /// Number of queries that may wait in [`Hosted::answer`] at once, because one computation answers several of them:
    /// those that arrive while another one runs. 1 if each is computed alone.
    pub fn most_together(&self) -> usize {
        self.registered.application.most_together()
    }

    /// Computes the answer to a query of untrusted bytes, and reports how far it is; stops soon after `cancel` is set.
    /// Of an application that answers several queries together one computation runs at a time, the others wait, and
    /// nothing is reported.
    ///
    /// # Errors
    /// Any but [`ApplicationError::Read`].
    pub fn answer(
        &self,
        client: ClientId,
        keys: &HostedKeys,
        query: Bytes,
        cancel: &Arc<AtomicBool>,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError> {
        let _in_use = self.registered.in_use();
        let application = &self.registered.application;
        let Some(gathering) = &self.registered.gathering else {
            return application.answer_with_progress(client, &keys.0, &query, cancel, progress);
        };
        let parcel = Parcel { client, keys: Arc::clone(&keys.0), query, cancel: Arc::clone(cancel) };
        gathering.answer(application.as_ref(), 1, parcel, |_| {})
    }

    /// As [`Hosted::answer`], of an application that answers queries alone, with other processes that have the same
    /// application and compute parts of the answer by [`Hosted::compute_part`].
    ///
    /// # Errors
    /// As for [`Hosted::answer`].
    pub fn answer_with_helpers(
        &self,
        (client, keys): (ClientId, &HostedKeys),
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, ApplicationError> {
        let _in_use = self.registered.in_use();
        self.registered.application.answer_with_helpers(client, &keys.0, query, cancel, progress, helpers)
    }

    /// Computes a part of an answer of another process of the same service, with the same client's keys. Leaves memory
    /// behind for the next part, until [`Hosted::release_idle_memory`].
    ///
    /// # Errors
    /// If answers of the application have no parts, or as for [`Hosted::answer`].
    pub fn compute_part(
        &self,
        keys: &HostedKeys,
        part: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ApplicationError> {
        self.registered.application.compute_part(&keys.0, part, cancel)
    }

    /// Gives back the memory that parts left behind.
    pub fn release_idle_memory(&self) {
        self.registered.application.release_idle_memory();
    }
}
