//! Services that compute a part of an answer each, as a router accesses them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::shard_problem::ShardProblem;

/// Interval at which the thread that waits for shards looks whether the clients are gone.
const LOOK: Duration = Duration::from_millis(50);

/// The keys of a client, as it has uploaded them, to be passed on to shards.
#[derive(Debug)]
pub struct ForwardedKeys {
    format: u32,
    bundle: Vec<u8>,
    id: [u8; 32],
}

impl ForwardedKeys {
    /// Keys of this format and these bytes.
    pub fn new(format: u32, bundle: Vec<u8>) -> Self {
        let id = *blake3::hash(&bundle).as_bytes();
        ForwardedKeys { format, bundle, id }
    }

    /// Format of the bundle.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The bytes of the bundle.
    pub fn bundle(&self) -> &[u8] {
        &self.bundle
    }

    /// Hash of the bundle.
    pub fn id(&self) -> [u8; 32] {
        self.id
    }
}

/// Why a shard has not answered. Whoever accesses it logs the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardFailure {
    /// The request was cancelled.
    Cancelled,
    /// There was no answer after all tries that are allowed.
    NoAnswer,
}

/// Access of a router to the service of one shard. Several threads use it at the same time.
pub trait ShardAccess: Send + Sync + 'static {
    /// The description of what is served there: untrusted bytes. Does not wait long for a service that is not there.
    ///
    /// # Errors
    /// If there is no answer.
    fn describe(&self) -> Result<Vec<u8>, ShardFailure>;

    /// Sends a query, and before it the keys if the shard does not have them; returns the answer of at most `most`
    /// untrusted bytes. Stops soon after `cancel` is set.
    ///
    /// # Errors
    /// If there is no answer.
    fn ask(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, ShardFailure>;
}

/// What all shards of something have agreed on.
pub trait Agreement: Sized + Send + Sync + 'static {
    /// What a shard describes.
    type Shard;

    /// Reads a description of untrusted bytes. The error says what was found.
    ///
    /// # Errors
    /// If it is malformed, or of insecure parameters that are not accepted.
    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self::Shard, String>;

    /// Checks that a shard fits those at earlier addresses. `named` are its number, for errors, and the number of all.
    ///
    /// # Errors
    /// If it does not.
    fn check_next(earlier: &[Self::Shard], shard: &Self::Shard, named: (u32, u32)) -> Result<(), ShardProblem>;

    /// What shards agree on, which fit each other and come in the order of their addresses.
    ///
    /// # Errors
    /// If some are missing.
    fn new(shards: Vec<Self::Shard>) -> Result<Self, ShardProblem>;

    /// The number of each shard, in the order of the addresses.
    fn numbers(&self) -> Vec<u32>;

    /// Checks that clients of this agreement can use the later one.
    ///
    /// # Errors
    /// If they cannot.
    fn check_successor(&self, now: &Self) -> Result<(), ShardProblem>;

    /// Whether the other one says the same.
    fn is_same(&self, other: &Self) -> bool;
}

/// All shards of something, and what they have agreed on.
pub struct Shards<A, G> {
    shards: Vec<A>,
    /// Whether insecure parameters are accepted.
    accept_insecure: bool,
    agreed: RwLock<Arc<G>>,
    /// What the last look at the shards has found.
    problem: RwLock<Option<ShardProblem>>,
}

impl<A: ShardAccess, G: Agreement> Shards<A, G> {
    /// All shards, which must all be there. Their order does not matter.
    ///
    /// # Errors
    /// If a shard does not answer, or they do not fit each other.
    pub fn new(shards: Vec<A>) -> Result<Self, ShardProblem> {
        Self::open(shards, false)
    }

    /// As [`Shards::new`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Shards::new`].
    pub fn insecure_new(shards: Vec<A>) -> Result<Self, ShardProblem> {
        Self::open(shards, true)
    }

    fn open(shards: Vec<A>, accept_insecure: bool) -> Result<Self, ShardProblem> {
        if shards.is_empty() {
            return Err(ShardProblem::None);
        }
        let numbers: Vec<u32> = (1..=shards.len() as u32).collect();
        let agreed = RwLock::new(Arc::new(agreement(&shards, &numbers, accept_insecure)?));
        Ok(Shards { shards, accept_insecure, agreed, problem: RwLock::new(None) })
    }

    /// Looks at all shards: whether they answer, and whether later ones have replaced all of them. Those are then
    /// served. Returns whether they are. Call this every few seconds: readiness is the result of the last call.
    ///
    /// # Errors
    /// What is wrong with the shards. What was agreed before stays until its shards answer again or all shards are
    /// replaced.
    pub fn look(&self) -> Result<bool, ShardProblem> {
        let before = self.agreed();
        let found = agreement::<A, G>(&self.shards, &before.numbers(), self.accept_insecure);
        let found = found.and_then(|now| before.check_successor(&now).map(|()| now));
        let problem = found.as_ref().err().cloned();
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
        let now = found?;
        let changed = !before.is_same(&now);
        if changed {
            *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
        }
        Ok(changed)
    }

    /// What the last look at the shards has found.
    pub fn problem(&self) -> Option<ShardProblem> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of shards.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// What the shards have agreed on.
    pub fn agreed(&self) -> Arc<G> {
        Arc::clone(&self.agreed.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answers of all shards to a request, in the order of the addresses, after an agreement. As soon as a shard
    /// fails, the others are told to stop.
    ///
    /// # Errors
    /// The shard that failed, by its number in the agreement; `None` if the request was cancelled.
    pub fn ask_all(
        &self,
        agreed: &G,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &AtomicBool,
    ) -> Result<Vec<Vec<u8>>, Option<ShardProblem>> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut answers: Vec<_> = self.shards.iter().map(|_| Err(ShardFailure::NoAnswer)).collect();
        let (done, arriving) = channel();
        thread::scope(|scope| {
            for (position, shard) in self.shards.iter().enumerate() {
                let (sent, stop) = (done.clone(), &stop);
                let ask = move || sent.send((position, shard.ask(keys, query, most, stop)));
                if thread::Builder::new().spawn_scoped(scope, ask).is_err() {
                    let _ = done.send((position, Err(ShardFailure::NoAnswer)));
                }
            }
            drop(done);
            loop {
                match arriving.recv_timeout(LOOK) {
                    Ok((position, answer)) => {
                        // After the first failure, the other shards fail because they were stopped.
                        let stopped = answer.is_err() && stop.swap(true, Ordering::Relaxed);
                        answers[position] = if stopped { Err(ShardFailure::Cancelled) } else { answer };
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if cancel.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        // The first failure has stopped the others.
        if let Some(failed) = answers.iter().position(|answer| matches!(answer, Err(ShardFailure::NoAnswer))) {
            let number = agreed.numbers()[failed];
            return Err(Some(ShardProblem::NoAnswer { number, shards: self.count() as u32 }));
        }
        answers.into_iter().collect::<Result<_, _>>().map_err(|_| None)
    }
}

/// What all shards agree on. `numbers` are the numbers that errors give to shards.
fn agreement<A: ShardAccess, G: Agreement>(
    shards: &[A],
    numbers: &[u32],
    accept_insecure: bool,
) -> Result<G, ShardProblem> {
    let count = shards.len() as u32;
    let described: Vec<Result<Vec<u8>, ShardFailure>> = thread::scope(|scope| {
        let ask = |shard| thread::Builder::new().spawn_scoped(scope, move || A::describe(shard));
        let asked: Vec<_> = shards.iter().map(ask).collect();
        let described = |thread: io::Result<ScopedJoinHandle<'_, _>>| thread.ok()?.join().ok();
        asked.into_iter().map(|thread| described(thread).unwrap_or(Err(ShardFailure::NoAnswer))).collect()
    });
    let mut read = Vec::with_capacity(shards.len());
    for (described, &number) in described.into_iter().zip(numbers) {
        let bytes = described.map_err(|_| ShardProblem::NoAnswer { number, shards: count })?;
        let named = (number, count);
        let shard = G::read(&bytes, accept_insecure);
        let shard = shard.map_err(|found| ShardProblem::differs(named, found, "a shard of this release"))?;
        G::check_next(&read, &shard, named)?;
        read.push(shard);
    }
    G::new(read)
}
