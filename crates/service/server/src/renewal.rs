//! Files that are read again while the service runs: tokens, certificate and key.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::service::Service;

/// SIGHUP, the usual request to a service to read its files again. From its creation on it does not end the process.
pub struct ReloadSignal(Signal);

impl ReloadSignal {
    /// Receives the signal. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn new() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Reads the files of a service again at each signal, until it stops.
    pub(crate) async fn reload(mut self, service: Arc<Service>, stop: CancellationToken) {
        loop {
            tokio::select! {
                received = self.0.recv() => if received.is_none() { return },
                () = stop.cancelled() => return,
            }
            let service = service.clone();
            let read = tokio::task::spawn_blocking(move || {
                if !read_again(&service) {
                    tracing::info!("SIGHUP: tokens and certificate have not changed");
                }
            });
            if let Err(error) = read.await {
                tracing::error!(%error, "reading files again failed");
            }
        }
    }
}

/// Reads tokens, certificate and key again. What cannot be used changes nothing; the log says why. Returns whether
/// anything was replaced or is unusable, which was logged. Blocks.
pub(crate) fn read_again(service: &Service) -> bool {
    let tokens = log("tokens", "tokens", service.authenticator.reload());
    let certificate = match &service.certificates {
        Some(certificates) => log("certificate", "certificate and key", certificates.reload()),
        None => false,
    };
    tokens || certificate
}

fn log<E: std::fmt::Display>(what: &'static str, files: &str, reloaded: Result<bool, E>) -> bool {
    match reloaded {
        Ok(false) => return false,
        Ok(true) => tracing::info!(what, "{files} read again"),
        Err(error) => tracing::error!(what, %error, "cannot read {files} again; the old ones stay valid"),
    }
    true
}
