//! What a service can do at once with its memory and its file descriptors. Computed when it starts.
//!
//! Prepared models, the page, connections, bundles, keys, uploads, queries, work in progress and answers all count
//! against `memory_bytes`: models for as long as the service runs, connections (32 KiB each, 96 KiB with TLS) as if all
//! were open, the entries of bundles (1.25 KiB each, `src/store/index.rs`) as if all `bundles` were there, queries as
//! they arrive, answers until they have been sent. Of what models and connections leave, a quarter is for bodies, or
//! more if the largest body needs it; the rest is for keys, computations and answers. The number of workers is limited
//! by this rest; a service without room for one worker does not start. Keys that can never fit are refused when they
//! are uploaded.
//!
//! The limit is about bytes that the service knows of. Whether the process keeps to the limit depends on its allocator:
//! the `unspoken` command sets an allocator that returns freed memory soon. Another program that starts a `Server`
//! should do the same.

use crate::application::{Application, Applications};
use crate::config::ServerConfig;
use crate::connection::{CONNECTION_BYTES, TLS_BYTES};
use crate::error::ServerError;
use crate::routes::UPLOAD_BYTES;
use crate::store::ENTRY_BYTES;

/// Numbers of workers and connections, and how the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of answers computed at once: those that are configured, or fewer if the memory is not enough.
    pub workers: usize,
    /// Number of open connections: those that are configured, or fewer if the process may open too few files.
    pub connections: usize,
    /// Bytes of prepared models and published ones, as long as the service runs.
    pub model_bytes: u64,
    /// Bytes for request bodies.
    pub body_bytes: u64,
    /// Bytes of the largest request body.
    pub(crate) largest_body: u64,
    /// Bytes for keys, computations and answers.
    pub job_bytes: u64,
    /// Bytes of the longest bundle of keys of one client.
    pub longest_bundle: u64,
}

impl Capacity {
    /// The files of the page take `page` bytes. `descriptors` connections can be open at once.
    pub(crate) fn new(
        config: &ServerConfig,
        applications: &Applications,
        page: u64,
        descriptors: usize,
    ) -> Result<Self, ServerError> {
        let limit = config.limits.memory_bytes;
        let connections = config.limits.connections.min(descriptors);
        if connections == 0 {
            return Err(ServerError::Descriptors);
        }
        let each = CONNECTION_BYTES + if config.tls.is_some() { TLS_BYTES } else { 0 };
        let connection_bytes = each.saturating_mul(connections as u64);
        let bundles = config.limits.bundles;
        let bundle_bytes = ENTRY_BYTES.saturating_mul(bundles as u64);
        let prepared = applications.iter().map(Application::prepared_bytes).fold(0, u64::saturating_add);
        let largest_query =
            applications.iter().map(|application| application.half().limits().query_bytes as u64).max().unwrap_or(0);
        let largest_body = largest_query.max(UPLOAD_BYTES);
        let fixed = [connection_bytes, bundle_bytes, page].into_iter().fold(prepared, u64::saturating_add);

        let mut largest_worker = 1;
        for application in applications.iter() {
            let keys = application.half().key_limits().memory_bytes;
            let worker = application.work_bytes().saturating_add(keys);
            let needed = fixed.saturating_add(largest_body).saturating_add(worker);
            if needed > limit {
                let limits = application.half().limits();
                return Err(ServerError::Memory {
                    name: application.name().into(),
                    answer: limits.answer_bytes as u64,
                    working: limits.working_bytes,
                    keys,
                    bodies: largest_body,
                    connections,
                    connection_bytes,
                    bundles,
                    bundle_bytes,
                    page,
                    prepared,
                    needed,
                    limit,
                });
            }
            largest_worker = largest_worker.max(worker);
        }
        // Bodies take a quarter of what is left. One worker always has its memory.
        let free = limit.saturating_sub(fixed);
        let body_bytes = (free / 4).min(free.saturating_sub(largest_worker)).max(largest_body);
        let job_bytes = free.saturating_sub(body_bytes);
        let fitting = usize::try_from(job_bytes / largest_worker).unwrap_or(usize::MAX);
        let workers = config.worker_count().min(fitting).max(1);
        let longest = |application: &Application| applications.max_key_bytes(application.key_set);
        let longest_bundle = applications.iter().map(longest).max().unwrap_or(0);
        Ok(Self { workers, connections, model_bytes: prepared, body_bytes, largest_body, job_bytes, longest_bundle })
    }

    /// Logs the capacity, and what limits it.
    pub(crate) fn log(&self, config: &ServerConfig) {
        let Self { workers, connections, body_bytes, job_bytes, .. } = *self;
        tracing::info!(workers, connections, request_bytes = body_bytes, key_and_answer_bytes = job_bytes, "capacity");
        let (wanted, limit) = (config.worker_count(), config.limits.memory_bytes);
        if workers < wanted {
            tracing::warn!(
                "{workers} of {wanted} workers: limits.memory_bytes, {limit} bytes, has no room for the keys and the \
                 work of more; raise it (--memory-mib) or offer less"
            );
        }
        let wanted = config.limits.connections;
        if connections < wanted {
            tracing::warn!(
                "{connections} of {wanted} connections: the process may not open more files; raise the hard limit of \
                 open files (ulimit -Hn, or LimitNOFILE= of systemd)"
            );
        }
    }
}
