//! Work on worker threads: loading keys and computing answers. A job has a slot of the queue, memory from the budget, a
//! deadline, and a cancel flag.
//!
//! A blocking thread waits for each answer, which is computed in the shared pool of threads. The application is told to
//! stop when the client disconnects, when the time limit is reached, or when a shutdown has waited long enough.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use unspoken_protocol::{AnswerProgress, ClientId, ErrorKind, PlainError};
use unspoken_wire::ProblemCode;

use crate::application::Application;
use crate::arriving::{ArrivingMemory, BodyMemory};
use crate::auth::ClientName;
use crate::blocking::blocking;
use crate::budget::Reservation;
use crate::gather::OwnedRequest;
use crate::memory::{CountedBytes, JobMemory, KeyCache, KeyMemory, KeysInUse};
use crate::metrics::Metrics;
use crate::network::Network;
use crate::queue::FairQueue;
use crate::refusal::{ClientInput, Refusal, internal};
use crate::store::{Bundle, KeyId, Store, StoreError, WriteGuard};
use crate::untyped::LoadedKeys;

/// Bytes read from disk at once while keys are loaded.
const READ_BYTES: usize = 1 << 20;

pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) cache: Arc<KeyCache>,
    /// Memory of request bodies.
    pub(crate) bodies: Arc<BodyMemory>,
    pub(crate) queue: FairQueue,
    /// The queues of applications whose requests are answered together, with a slot for each request that may wait.
    pub(crate) gathering_queues: HashMap<String, FairQueue>,
    /// Permits to load keys: more requests may wait to be answered together than there are workers.
    pub(crate) loads: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) workers: usize,
    /// Time limit from a complete request to its answer.
    pub(crate) answer_timeout: Duration,
    /// Cancelled when running jobs must stop for a shutdown.
    pub(crate) stop: CancellationToken,
    /// Moving average of the time of a job that is answered alone, in milliseconds.
    pub(crate) recent_millis: AtomicU64,
}

impl Engine {
    /// Computes one answer and reports to `progress`. The bytes of the query and of the answer are counted until they
    /// are dropped.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        (client, network): (&ClientName, Option<Network>),
        application: &Application,
        bundle: Arc<Bundle>,
        query: Query,
        progress: Arc<AnswerProgress>,
    ) -> Result<Bytes, Refusal> {
        let id = client_id(client, network, bundle.id);
        let queue = self.gathering_queues.get(application.name()).unwrap_or(&self.queue);
        self.work(queue, client, application, bundle, move |job, memory| {
            let JobMemory { keys, work } = memory;
            let keys = job.load(keys)?;
            job.compute(id, &keys, &query, work, &progress)
        })
        .await
    }

    /// Checks a complete upload by loading it, then makes it a finished bundle. An upload that fails the check is
    /// deleted.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        client: &ClientName,
        application: &Application,
        bundle: Arc<Bundle>,
        guard: WriteGuard,
    ) -> Result<(), Refusal> {
        // With the memory of an answer, so that keys never take the place of buffers that answers keep for later ones.
        let job = self.work(&self.queue, client, application, bundle.clone(), move |job, memory| {
            let _guard = guard;
            let (store, cache, bundle) = (&job.engine.store, &job.engine.cache, &job.bundle);
            if let Err(refusal) = job.load(memory.keys) {
                delete_rejected(store, bundle, &refusal)?;
                if is_final_rejection(refusal.code) {
                    cache.evict(bundle.id);
                }
                return Err(refusal);
            }
            store.finish(bundle).map_err(|error| {
                cache.evict(bundle.id);
                Refusal::from(error)
            })
        });
        let Err(refusal) = job.await else { return Ok(()) };
        // The header may have been rejected before the job began.
        let engine = self.clone();
        blocking(move || delete_rejected(&engine.store, &bundle, &refusal).and(Err(refusal))).await?
    }

    /// Waits for a turn and for memory, and runs `work` on a blocking thread. It is told to stop when this future is
    /// dropped, at the deadline, and at shutdown.
    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        queue: &FairQueue,
        client: &ClientName,
        application: &Application,
        bundle: Arc<Bundle>,
        work: impl FnOnce(&Job, JobMemory) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let deadline = tokio::time::sleep(self.answer_timeout);
        tokio::pin!(deadline);
        let turn = turn_name(client, bundle.id);
        let cancel = CancelOnDrop::default();
        let (engine, application) = (self.clone(), application.clone());
        let job = Arc::new(Job { engine, application, bundle, cancel: cancel.0.clone() });
        let ready = async {
            let slot = queue.acquire(&turn).await;
            let slot = slot.map_err(|full| Refusal::from_queue_full(&full, self.wait_seconds()))?;
            Ok::<_, Refusal>((slot, job.reserve().await?))
        };
        let (slot, memory) = tokio::select! {
            ready = ready => ready?,
            () = self.stop.cancelled() => return Err(Refusal::shutting_down()),
            () = &mut deadline => {
                let message = format!("no worker and memory were free for {:?}", self.answer_timeout);
                return Err(Refusal::new(ProblemCode::QueueFull, message, "ask again later")
                    .retry_after(self.wait_seconds()));
            }
        };
        let mut running = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let engine = &job.engine;
            engine.metrics.busy.inc();
            let _busy = OnDrop(|| engine.metrics.busy.dec());
            let start = Instant::now();
            let result = work(&job, memory);
            if job.application.gathering.is_none() {
                engine.note_time(start.elapsed());
            }
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

    /// Bytes of memory that a bundle needs when loaded, from its header. Blocks.
    pub(crate) fn check_header(&self, application: &Application, bundle: &Bundle) -> Result<u64, Refusal> {
        let header = self.store.read_header(bundle, application.half().key_limits().front_bytes)?;
        let bytes = application.half().loaded_key_bytes(&header);
        bytes.map_err(|error| Refusal::from_application(&error, ClientInput::Keys))
    }

    /// Estimate of the waiting time in the queue, for `Retry-After`.
    fn wait_seconds(&self) -> u32 {
        let millis = self.recent_millis.load(Ordering::Relaxed);
        let waiting = self.waiting() as u64 + 1;
        let seconds = millis.saturating_mul(waiting) / (1000 * self.workers.max(1) as u64);
        seconds.clamp(1, 60) as u32
    }

    /// Number of requests that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.depth() + self.gathering_queues.values().map(FairQueue::depth).sum::<usize>()
    }

    fn note_time(&self, time: Duration) {
        let millis = time.as_millis().min(u128::from(u32::MAX)) as u64;
        let recent = self.recent_millis.load(Ordering::Relaxed);
        self.recent_millis.store((3 * recent + millis) / 4, Ordering::Relaxed);
    }
}

/// A query that has arrived.
pub(crate) struct Query {
    bytes: Bytes,
    // Dropped after the bytes.
    _memory: ArrivingMemory,
}

impl Query {
    /// A query whose bytes `memory` covers.
    pub(crate) fn new(bytes: Bytes, memory: ArrivingMemory) -> Self {
        Self { bytes, _memory: memory }
    }

    /// The bytes, which stay together with their memory: a closure that used the field would capture the field alone.
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Work of one request with the keys of one bundle.
struct Job {
    engine: Arc<Engine>,
    /// The application that is asked. The bundle may have been declared for another one.
    application: Application,
    bundle: Arc<Bundle>,
    cancel: Arc<AtomicBool>,
}

impl Job {
    /// Waits for memory: for the keys, unless they are loaded, and for the computation and its answer.
    async fn reserve(self: &Arc<Self>) -> Result<JobMemory, Refusal> {
        let (job, work) = (self.clone(), self.application.work_bytes());
        self.engine.cache.reserve_job(self.bundle.id, work, move || job.loaded_key_bytes()).await
    }

    /// Bytes of memory that the keys need. Blocks.
    fn loaded_key_bytes(&self) -> Result<u64, Refusal> {
        self.engine.check_header(&self.application, &self.bundle).or_else(|refusal| {
            // The bundle was valid when it was finished: checks whether it was damaged since.
            if self.bundle.is_ready() && is_final_rejection(refusal.code) {
                let reader = HashingReader::new(self.engine.store.open(&self.bundle)?, &self.cancel);
                finish_hash(reader, &self.bundle)?;
            }
            Err(refusal)
        })
    }

    /// Loads the keys, unless they are loaded, and checks that they are all that the application needs. Blocks.
    fn load(&self, memory: KeyMemory) -> Result<KeysInUse, Refusal> {
        let cache = &self.engine.cache;
        let loaded = match memory {
            KeyMemory::Loaded(keys) => keys,
            KeyMemory::Reserved(memory) => cache.get_or_load(self.bundle.id, memory, || {
                let _permit = Handle::current().block_on(self.engine.loads.acquire());
                let start = Instant::now();
                let keys = self.load_checked()?;
                self.engine.metrics.loaded(self.application.name(), start.elapsed());
                Ok::<_, Refusal>(keys)
            })?,
        };
        if self.bundle.is_gone() {
            // Deleted meanwhile: nothing else would evict the keys.
            cache.evict(self.bundle.id);
        }
        // Another application may have loaded them.
        let checked = self.application.half().check_keys(loaded.keys().ok_or_else(internal)?);
        checked.map_err(|error| Refusal::from_application(&error, ClientInput::Keys))?;
        Ok(loaded)
    }

    /// Lets the application parse the bundle while its checksum is computed.
    fn load_checked(&self) -> Result<LoadedKeys, Refusal> {
        let mut reader = HashingReader::new(self.engine.store.open(&self.bundle)?, &self.cancel);
        let loaded = self.application.load_keys(&mut reader);
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Refusal::shutting_down());
        }
        // Checks the checksum first, to distinguish damage from malformed keys.
        finish_hash(reader, &self.bundle)?;
        loaded.map_err(|error| {
            log_internal(&self.bundle.meta.application, &error);
            Refusal::from_application(&error, ClientInput::Keys)
        })
    }

    /// Computes the answer. `memory` is the memory of the computation and the answer. Blocks.
    fn compute(
        &self,
        client: ClientId,
        keys: &KeysInUse,
        query: &Query,
        memory: Reservation,
        progress: &AnswerProgress,
    ) -> Result<Bytes, Refusal> {
        let (name, limits) = (self.application.name(), self.application.half().limits());
        let start = Instant::now();
        let (keys, query) = (keys.keys().ok_or_else(internal)?.clone(), query.bytes().clone());
        let request = OwnedRequest { client, keys, query, cancel: Arc::clone(&self.cancel) };
        let computations = if limits.waits_for_others { usize::MAX } else { self.engine.workers };
        let observe = |requests| self.engine.metrics.answered_together(name, requests);
        let answer = self.application.answer(request, progress, None, computations, observe).map_err(|error| {
            log_internal(name, &error);
            Refusal::from_application(&error, ClientInput::Query)
        })?;
        self.engine.metrics.answered(name, start.elapsed());
        if answer.len() > limits.answer_bytes {
            let limit = limits.answer_bytes;
            tracing::error!(application = name, bytes = answer.len(), limit, "answer is too long");
            return Err(internal());
        }
        Ok(Bytes::from_owner(CountedBytes::new(answer, memory)))
    }
}

/// The id by which applications know the client of a query. The id depends on the name of the client's token or,
/// without tokens, on the key bundle. Then it has the network, too, because a client may make any number of bundles.
fn client_id(client: &ClientName, network: Option<Network>, key: KeyId) -> ClientId {
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 client of a service, as applications know it");
    if client.is_anonymous() {
        hasher.update(b"key bundle ").update(key.as_bytes());
    } else {
        hasher.update(b"token ").update(client.as_str().as_bytes());
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    let id = ClientId::new(id);
    network.filter(|_| client.is_anonymous()).map_or(id, |network| id.with_network(network.hash()))
}

/// The name under which a client takes turns with others. Clients without tokens are told apart by their key bundles,
/// so that a single client does not use up the places of all.
pub(crate) fn turn_name(client: &ClientName, key: KeyId) -> ClientName {
    if client.is_anonymous() { ClientName::new(&format!("key bundle {key}")) } else { client.clone() }
}

/// Deletes an upload that was refused for good. Blocks.
fn delete_rejected(store: &Store, bundle: &Bundle, refusal: &Refusal) -> Result<(), Refusal> {
    if !is_final_rejection(refusal.code) {
        return Ok(());
    }
    match store.delete(bundle) {
        Ok(()) | Err(StoreError::NotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
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

fn log_internal(application: &str, error: &PlainError) {
    if matches!(error.kind, ErrorKind::Unreadable | ErrorKind::Internal) {
        tracing::error!(application, reason = error.text, "application failed");
    }
}

/// Reads the rest of a bundle and compares its checksum.
fn finish_hash(mut reader: BufReader<HashingReader<'_>>, bundle: &Bundle) -> Result<(), Refusal> {
    io::copy(&mut reader, &mut io::sink()).map_err(StoreError::Io)?;
    if bundle.meta.has_hash(&reader.get_ref().hasher.finalize()) {
        return Ok(());
    }
    if !bundle.is_ready() {
        return Err(StoreError::ChecksumMismatch.into());
    }
    tracing::error!(key = %bundle.id, "checksum of a finished bundle is wrong");
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
        let network = Some(Network::of([192, 0, 2, 7].into()));
        let id = |client, key| client_id(client, network, key);
        assert_eq!(id(&one, key(1)), id(&one, key(2)));
        assert_ne!(id(&one, key(1)), id(&two, key(1)));
        assert_ne!(id(&anyone, key(1)), id(&anyone, key(2)));
        assert_eq!(id(&anyone, key(1)), id(&anyone, key(1)));
        // Whoever makes many bundles without a token is known by the network.
        assert_eq!(id(&anyone, key(1)).network(), id(&anyone, key(2)).network());
        assert!(id(&anyone, key(1)).network().is_some() && id(&one, key(1)).network().is_none());
    }
}
