//! Work that blocks, on threads of its own.

use crate::refusal::{Refusal, internal};

/// Runs disk work on threads that serve no connections.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a disk thread failed");
        internal()
    })
}
