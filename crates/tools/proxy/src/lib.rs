#![doc = include_str!("../README.md")]

mod failure;
mod remote;
mod request;
mod response;
mod routes;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use unspoken_llama_model::ClientModel;
use zeroize::Zeroizing;

pub use failure::Failure;
pub use remote::RemoteService;
pub use routes::Embed;
pub use worker::{Served, Service};

use crate::routes::{Routes, router};
use crate::worker::{Worker, WorkerOptions};

/// Requests that wait for others, at most.
const MAX_WAITING: usize = 16;

/// The key that requests must have.
#[derive(Clone)]
pub struct Key(Zeroizing<String>);

impl Key {
    /// Bytes of a key, at least.
    const LEAST: usize = 16;

    /// A key of one's own.
    ///
    /// # Errors
    /// If it is short.
    pub fn new(text: &str) -> io::Result<Self> {
        if text.len() < Self::LEAST {
            let found = format!("found a key of {} bytes, needed {} or more", text.len(), Self::LEAST);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, found));
        }
        Ok(Key(Zeroizing::new(text.to_owned())))
    }

    /// A new key: 32 random bytes.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
        Ok(Key(Zeroizing::new(format!("sk-unspoken-{}", hex::encode(bytes.as_slice())))))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a proxy serves.
pub struct Options {
    /// The name of the model, as requests give it.
    pub model: String,
    /// The key that requests must have.
    pub key: Key,
    /// Sessions that are kept at the service, so that a conversation runs only what is new.
    pub sessions: usize,
    /// Tokens of an answer, at most, if the request does not say how many.
    pub tokens: usize,
    /// Whether system messages in front are public, if the request does not say so.
    pub public_system: bool,
    /// Whether private texts go as they are, so that the service can count their tokens. Otherwise they are filled up
    /// to whole chunks.
    pub tell_length: bool,
    /// Embeds texts, under its name.
    pub embedder: Option<(String, Embed)>,
}

/// A listener on this machine only.
///
/// # Errors
/// If the address is not one of this machine alone, or cannot be used.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let needed = "needed one of this machine alone, such as 127.0.0.1:8081: who reaches the proxy reads the texts";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("found {address}, {needed}")));
    }
    TcpListener::bind(address).await
}

/// Serves until `end`, and then ends the sessions at the service. After each request `log` is told what left this
/// machine for it.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    service: impl Service + 'static,
    model: Arc<ClientModel>,
    log: impl FnMut(&Served) + Send + 'static,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (jobs, waiting) = mpsc::channel(MAX_WAITING);
    let Options { public_system, tell_length, .. } = options;
    let kept = WorkerOptions { sessions: options.sessions.max(1), public_system, tell_length };
    let worker = Worker::new(service, Arc::clone(&model), kept, Box::new(log));
    let worker = tokio::task::spawn_blocking(move || worker.run(waiting));
    let routes = Routes::new(options, jobs, model);
    axum::serve(listener, router(routes)).with_graceful_shutdown(end).await?;
    worker.await.map_err(io::Error::other)
}
