//! The HTTP client of this process and the runtime that it needs.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Certificate, Client};
use tokio::runtime::Runtime;
use unspoken_ring::process_generation;

use super::Error;
use super::resolver::SystemResolver;

/// What a client is made from, again in each forked process.
pub(super) struct ClientSettings {
    pub(super) headers: HeaderMap,
    pub(super) connect_timeout: Duration,
    pub(super) authorities: Vec<Certificate>,
    /// Whether the service is this machine's, so that no proxy leads to it.
    pub(super) is_local: bool,
}

/// An HTTP client and its runtime, for the process that made them. A forked child has none of its parent's threads, so
/// it would wait for ever on the parent's client. It makes a client and a runtime of its own.
pub(super) struct Live {
    generation: u64,
    /// Taken when dropped.
    parts: Option<(Client, Runtime)>,
    of_child: OnceLock<Box<Live>>,
}

impl Live {
    pub(super) fn new(settings: &ClientSettings) -> Result<Self, Error> {
        let generation = process_generation();
        let mut builder = Client::builder()
            .default_headers(settings.headers.clone())
            .connect_timeout(settings.connect_timeout)
            .dns_resolver(SystemResolver)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("unspoken/", env!("CARGO_PKG_VERSION")));
        if settings.is_local {
            builder = builder.no_proxy();
        }
        if !settings.authorities.is_empty() {
            builder = builder.tls_certs_merge(settings.authorities.iter().cloned());
        }
        let client = builder.build().map_err(|error| Error::config(reasons(&error)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("unspoken-transport")
            .enable_all()
            .build()
            .map_err(|error| Error::config(format!("no thread for the connection: {error}")))?;
        Ok(Live { generation, parts: Some((client, runtime)), of_child: OnceLock::new() })
    }

    /// The client and the runtime of this process; makes them if it was forked since. Takes no lock of the parent's: a
    /// thread that held one at the fork is not in the child.
    pub(super) fn of_this_process(&self, settings: &ClientSettings) -> Result<(&Client, &Runtime), Error> {
        let mut live = self;
        // The generation is read in each turn: it changes twice if two threads of a child notice the fork together.
        while live.generation != process_generation() {
            if live.of_child.get().is_none() {
                // Another thread of the child may be first; then its parts are used.
                let _ = live.of_child.set(Box::new(Live::new(settings)?));
            }
            let Some(next) = live.of_child.get() else { break };
            live = next;
        }
        live.parts.as_ref().map(|(client, runtime)| (client, runtime)).ok_or_else(thread_gone)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let Some((client, runtime)) = self.parts.take() else { return };
        if self.generation == process_generation() {
            drop(client);
            runtime.shutdown_background();
        } else {
            // Client and runtime are the parent's. To end them here would wait for the parent's threads, and take the
            // parent's sockets out of the poll that both processes share.
            std::mem::forget((client, runtime));
        }
    }
}

/// No call can be made any more.
pub(super) fn thread_gone() -> Error {
    Error::config("the thread of the connection is gone")
}

/// An error and what caused it, on one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
