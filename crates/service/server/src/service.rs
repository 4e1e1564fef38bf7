//! State that all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;
use unspoken_wire::ProblemCode;

use crate::application::{Application, Applications};
use crate::auth::{Authenticator, ClientName, RequestClient};
use crate::body::BodyDeadlines;
use crate::concurrency::ConcurrencyLimit;
use crate::engine::Engine;
use crate::origin::AllowedOrigin;
use crate::page::Page;
use crate::refusal::Refusal;
use crate::store::{Bundle, KeyId, Meta};
use crate::timeouts::Timeouts;
use crate::tls::Certificates;

pub(crate) struct Service {
    pub(crate) engine: Arc<Engine>,
    pub(crate) applications: Applications,
    pub(crate) authenticator: Authenticator,
    /// Certificate and key, unless it speaks plain HTTP.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// The files for browsers, if there are any.
    pub(crate) page: Option<Page>,
    /// Origins of other pages that may use the service.
    pub(crate) allow_origins: Vec<AllowedOrigin>,
    /// Concurrent queries of each client.
    pub(crate) queries: ConcurrencyLimit<ClientName>,
    pub(crate) timeouts: Timeouts,
    /// Set when the service shuts down and is not ready for new clients.
    pub(crate) draining: AtomicBool,
    /// Cancelled when the service accepts no more connections and waits for no more requests.
    pub(crate) closing: CancellationToken,
}

impl Service {
    pub(crate) fn application(&self, name: &str) -> Result<&Application, Refusal> {
        self.applications.get(name).ok_or_else(Refusal::application_not_found)
    }

    /// The bundle with this id, if the client owns it. A malformed id is answered like an unknown one.
    pub(crate) fn bundle(&self, client: &ClientName, id: &str) -> Result<Arc<Bundle>, Refusal> {
        let id = KeyId::parse(id).ok_or_else(Refusal::key_not_found)?;
        Ok(self.engine.store.find(client, id)?)
    }

    pub(crate) fn body_deadlines(&self) -> BodyDeadlines {
        let Timeouts { stall, query_body: total, .. } = self.timeouts;
        BodyDeadlines { stall, total, closing: self.closing.clone() }
    }

    /// An application that can use a bundle: the application for which it was declared, or another application of the
    /// same key set.
    pub(crate) fn application_of(&self, bundle: &Meta) -> Result<&Application, Refusal> {
        let can_use = |application: &&Application| application.key_set.to_string() == bundle.key_set;
        let declared = self.applications.get(&bundle.application).filter(can_use);
        let other = || self.applications.iter().find(can_use);
        declared.or_else(other).ok_or_else(Refusal::application_not_found)
    }
}

/// The client that sent a request. As an argument of a handler it refuses requests without a known token.
pub(crate) struct KnownClient(pub(crate) ClientName);

impl<S: Sync> FromRequestParts<S> for KnownClient {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        match parts.extensions.get::<RequestClient>() {
            Some(RequestClient(Some(client))) => Ok(Self(client.clone())),
            _ => Err(Refusal::new(
                ProblemCode::Unauthorized,
                "no bearer token, or one this service does not know",
                "send Authorization: Bearer with a token from the service owner",
            )),
        }
    }
}
