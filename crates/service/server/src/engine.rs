//! Work on worker threads: loading keys and computing answers. A job has a slot of the queue, memory from the budget, a
//! deadline, and a cancel flag.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use unspoken_protocol::ClientId;
use unspoken_wire::ProblemCode;

use crate::application::{AnyKeys, ApplicationError, ClientInput, RegisteredApplication};
use crate::auth::ClientName;
use crate::memory::{CountedBytes, KeyCache, LoadedKeys, Reservation};
use crate::metrics::Metrics;
use crate::queue::FairQueue;
use crate::refusal::Refusal;
use crate::store::{Entry, KeyId, Store, StoreError, WriteGuard};

/// Bytes read from disk at once while keys are loaded.
const READ_BYTES: usize = 1 << 20;

pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) cache: KeyCache,
    pub(crate) queue: FairQueue,
    pub(crate) metrics: Metrics,
    pub(crate) workers: usize,
    /// Time limit from a complete request to its answer.
    pub(crate) answer_timeout: Duration,
    /// Cancelled when running jobs must stop for a shutdown.
    pub(crate) stop: CancellationToken,
    /// Moving average of the time of a job, in milliseconds.
    pub(crate) recent_millis: AtomicU64,
}

impl Engine {
    /// Computes one answer. `memory` counts the query's bytes; the answer's bytes are counted until they are dropped.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        client: &ClientName,
        (name, offer): (&str, &RegisteredApplication),
        entry: Arc<Entry>,
        query: Bytes,
        memory: Reservation,
    ) -> Result<Bytes, Refusal> {
        let (name, offer, id) = (name.to_owned(), offer.clone(), client_id(client, entry.id));
        self.work(client, move |engine, cancel| {
            let _query_memory = memory;
            let keys = engine.load(&offer, &name, &entry, cancel)?;
            engine.compute(&offer, &name, id, &keys, &query, cancel)
        })
        .await
    }

    /// Checks a complete upload by loading it, then makes it a finished bundle. An upload that fails the check is
    /// removed.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        client: &ClientName,
        offer: &RegisteredApplication,
        entry: Arc<Entry>,
        guard: WriteGuard,
    ) -> Result<(), Refusal> {
        let offer = offer.clone();
        self.work(client, move |engine, cancel| {
            let _guard = guard;
            match engine.load(&offer, &entry.meta.application, &entry, cancel) {
                Ok(_keys) => {}
                Err(refusal) => {
                    if is_final_rejection(refusal.code) {
                        engine.store.discard(&entry)?;
                        engine.cache.remove(entry.id);
                    }
                    return Err(refusal);
                }
            }
            engine.store.finish(&entry).map_err(|error| {
                engine.cache.remove(entry.id);
                Refusal::from(error)
            })
        })
        .await
    }

    /// Waits for a turn and runs `job` on a blocking thread. The job is told to stop when this future is dropped, at
    /// the deadline, and at shutdown.
    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        client: &ClientName,
        job: impl FnOnce(&Engine, &AtomicBool) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let deadline = tokio::time::sleep(self.answer_timeout);
        tokio::pin!(deadline);
        let slot = tokio::select! {
            slot = self.queue.acquire(client) => {
                slot.map_err(|full| Refusal::from_queue_full(&full, self.wait_seconds()))?
            }
            () = self.stop.cancelled() => return Err(Refusal::shutting_down()),
            () = &mut deadline => {
                let message = format!("no worker was free for {:?}", self.answer_timeout);
                return Err(Refusal::new(ProblemCode::QueueFull, message, "ask again later")
                    .retry_after(self.wait_seconds()));
            }
        };
        let cancel = CancelOnDrop::default();
        let flag = cancel.0.clone();
        let engine = self.clone();
        let mut running = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            engine.metrics.busy.inc();
            let _busy = OnDrop(|| engine.metrics.busy.dec());
            let start = Instant::now();
            let result = job(&engine, &flag);
            engine.note_time(start.elapsed());
            result
        });
        loop {
            tokio::select! {
                finished = &mut running => return finished.unwrap_or_else(|error| {
                    tracing::error!(%error, "a worker failed");
                    Err(internal())
                }),
                () = self.stop.cancelled(), if !cancel.is_set() => cancel.set(),
                () = &mut deadline => return Err(Refusal::new(
                    ProblemCode::AnswerTimeout,
                    format!("no answer within {:?}", self.answer_timeout),
                    "ask for less, or have the service owner raise timeouts.answer",
                )),
            }
        }
    }

    /// Loads the keys of a bundle, from memory or disk.
    fn load(
        &self,
        offer: &RegisteredApplication,
        name: &str,
        entry: &Entry,
        cancel: &AtomicBool,
    ) -> Result<Arc<LoadedKeys>, Refusal> {
        let bytes = || {
            self.check_header(offer, entry).or_else(|refusal| {
                // The bundle was valid when it was finished: checks whether it was damaged since.
                if entry.is_ready() && is_final_rejection(refusal.code) {
                    self.check_hash(entry, cancel)?;
                }
                Err(refusal)
            })
        };
        let loaded = self.cache.get_or_load(entry.id, bytes, || {
            let start = Instant::now();
            let keys = self.load_checked(offer, entry, cancel)?;
            self.metrics.loaded(name, start.elapsed());
            Ok(keys)
        })?;
        if entry.is_gone() {
            // Deleted meanwhile: nothing else would remove the keys from memory.
            self.cache.remove(entry.id);
        }
        // Another application may have loaded them.
        let checked = offer.application.check_keys(&loaded.keys);
        checked.map_err(|error| Refusal::from_application(&error, ClientInput::Keys))?;
        Ok(loaded)
    }

    /// Bytes of memory that a bundle needs when loaded, from its header. Blocks.
    pub(crate) fn check_header(&self, offer: &RegisteredApplication, entry: &Entry) -> Result<u64, Refusal> {
        let header = self.store.read_header(entry, offer.limits.header_bytes)?;
        offer
            .application
            .loaded_key_bytes(&header)
            .map_err(|error| Refusal::from_application(&error, ClientInput::Keys))
    }

    /// Lets the application parse the bundle while its checksum is computed.
    fn load_checked(
        &self,
        offer: &RegisteredApplication,
        entry: &Entry,
        cancel: &AtomicBool,
    ) -> Result<AnyKeys, Refusal> {
        let mut reader = HashingReader::new(self.store.open(entry)?, cancel);
        let loaded = offer.application.load_keys(&mut reader);
        if cancel.load(Ordering::Relaxed) {
            return Err(Refusal::shutting_down());
        }
        // Checks the checksum first, to distinguish damage from malformed keys.
        finish_hash(reader, entry)?;
        loaded.map_err(|error| {
            log_internal(&entry.meta.application, &error);
            Refusal::from_application(&error, ClientInput::Keys)
        })
    }

    fn check_hash(&self, entry: &Entry, cancel: &AtomicBool) -> Result<(), Refusal> {
        finish_hash(HashingReader::new(self.store.open(entry)?, cancel), entry)
    }

    fn compute(
        &self,
        offer: &RegisteredApplication,
        name: &str,
        client: ClientId,
        keys: &LoadedKeys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Bytes, Refusal> {
        let limit = offer.limits.max_answer_bytes;
        let needed = offer.application.working_bytes().saturating_add(limit as u64);
        let memory = self.cache.reserve(needed)?;
        let start = Instant::now();
        let answer = offer.application.answer(client, &keys.keys, query, cancel).map_err(|error| {
            log_internal(name, &error);
            Refusal::from_application(&error, ClientInput::Query)
        })?;
        self.metrics.answered(name, start.elapsed());
        if answer.len() > limit {
            tracing::error!(application = name, bytes = answer.len(), limit, "answer is too long");
            return Err(internal());
        }
        Ok(Bytes::from_owner(CountedBytes::new(answer, memory)))
    }

    /// Estimate of the waiting time in the queue, for `Retry-After`.
    fn wait_seconds(&self) -> u32 {
        let millis = self.recent_millis.load(Ordering::Relaxed);
        let waiting = self.queue.depth() as u64 + 1;
        let seconds = millis.saturating_mul(waiting) / (1000 * self.workers.max(1) as u64);
        seconds.clamp(1, 60) as u32
    }

    fn note_time(&self, time: Duration) {
        let millis = time.as_millis().min(u128::from(u32::MAX)) as u64;
        let recent = self.recent_millis.load(Ordering::Relaxed);
        self.recent_millis.store((3 * recent + millis) / 4, Ordering::Relaxed);
    }
}

/// The id by which applications know the client of a query. It depends on the name of the client's token or, without
/// tokens, on the key bundle.
fn client_id(client: &ClientName, key: KeyId) -> ClientId {
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 client of a service, as applications know it");
    if client.is_anonymous() {
        hasher.update(b"key bundle ").update(key.as_bytes());
    } else {
        hasher.update(b"token ").update(client.as_str().as_bytes());
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    ClientId::new(id)
}

/// Whether a refusal is about the bundle itself, so that retries do not help.
pub(crate) fn is_final_rejection(code: ProblemCode) -> bool {
    matches!(
        code,
        ProblemCode::MalformedKeys
            | ProblemCode::DoesNotFit
            | ProblemCode::ChecksumMismatch
            | ProblemCode::UnsupportedFormat
    )
}

pub(crate) fn internal() -> Refusal {
    Refusal::new(ProblemCode::Internal, "the service failed", "report the request id to the service owner")
}

fn log_internal(application: &str, error: &ApplicationError) {
    if let ApplicationError::Internal(reason) = error {
        tracing::error!(application, reason, "application failed");
    }
}

/// Reads the rest of a bundle and compares its checksum.
fn finish_hash(mut reader: BufReader<HashingReader<'_>>, entry: &Entry) -> Result<(), Refusal> {
    io::copy(&mut reader, &mut io::sink()).map_err(StoreError::Io)?;
    if entry.meta.has_hash(&reader.get_ref().hasher.finalize()) {
        return Ok(());
    }
    if !entry.is_ready() {
        return Err(StoreError::ChecksumMismatch.into());
    }
    tracing::error!(key = %entry.id, "checksum of a finished bundle is wrong");
    Err(StoreError::Damaged { found: "its checksum is wrong".into() }.into())
}

/// Reads a bundle, hashes the bytes read, and stops when cancelled.
struct HashingReader<'a> {
    inner: Box<dyn Read + Send>,
    hasher: blake3::Hasher,
    cancel: &'a AtomicBool,
}

impl<'a> HashingReader<'a> {
    fn new(inner: Box<dyn Read + Send>, cancel: &'a AtomicBool) -> BufReader<Self> {
        let reader = Self { inner, hasher: blake3::Hasher::new(), cancel };
        BufReader::with_capacity(READ_BYTES, reader)
    }
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(io::Error::other("cancelled"));
        }
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl CancelOnDrop {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.set();
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_token_and_without_tokens_by_key() {
        let key = |byte| KeyId::from_bytes([byte; 16]);
        let (one, two, anyone) = (ClientName::new("one"), ClientName::new("two"), ClientName::new("anonymous"));
        assert_eq!(client_id(&one, key(1)), client_id(&one, key(2)));
        assert_ne!(client_id(&one, key(1)), client_id(&two, key(1)));
        assert_ne!(client_id(&anyone, key(1)), client_id(&anyone, key(2)));
        assert_eq!(client_id(&anyone, key(1)), client_id(&anyone, key(1)));
    }
}
