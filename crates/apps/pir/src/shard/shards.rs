//! The shards of a database, as a router accesses them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use unspoken_protocol::ApplicationDescription;

use crate::description::Description;
use crate::error::PirError;
use crate::shard::description::ShardDescription;
use crate::shard::problem::ShardProblem;

/// Interval at which the thread that waits for shards looks whether the clients are gone.
const LOOK: Duration = Duration::from_millis(50);

/// The keys of a client, as it has uploaded them, to be passed on to shards.
#[derive(Debug)]
pub struct ForwardedKeys {
    pub(crate) bundle: Vec<u8>,
    pub(crate) id: [u8; 32],
}

impl ForwardedKeys {
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

/// All shards of a database, and what they have agreed on: the version from which they are cut.
pub struct Shards<A> {
    shards: Vec<A>,
    /// Whether insecure parameters are accepted.
    accept_insecure: bool,
    agreed: RwLock<Arc<Agreed>>,
    /// What the last look at the shards has found.
    problem: RwLock<Option<ShardProblem>>,
}

/// What all shards have agreed on.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// In the order of the addresses.
    pub shards: Vec<ShardDescription>,
}

impl Agreed {
    /// The description of the whole database.
    pub fn database(&self) -> &Description {
        self.shards[0].database()
    }

    /// Version of the database.
    pub fn version(&self) -> u64 {
        self.shards[0].version()
    }
}

impl<A: ShardAccess> Shards<A> {
    /// All shards of a database, which must all be there. Their order does not matter.
    ///
    /// # Errors
    /// If a shard does not answer, or they are not all shards of one split.
    pub fn new(shards: Vec<A>) -> Result<Self, PirError> {
        Self::open(shards, false)
    }

    /// As [`Shards::new`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Shards::new`].
    pub fn insecure_new(shards: Vec<A>) -> Result<Self, PirError> {
        Self::open(shards, true)
    }

    fn open(shards: Vec<A>, accept_insecure: bool) -> Result<Self, PirError> {
        if shards.is_empty() {
            return Err(PirError::mismatch("shards of a router", 0, "the address of each shard"));
        }
        let numbers: Vec<u32> = (1..=shards.len() as u32).collect();
        let agreed = RwLock::new(Arc::new(agreement(&shards, &numbers, accept_insecure)?));
        Ok(Shards { shards, accept_insecure, agreed, problem: RwLock::new(None) })
    }

    /// Looks at all shards: whether they answer, and whether shards of a later version have replaced all of them. A
    /// later version is then served. Returns whether there is one. Call this every few seconds: readiness is the result
    /// of the last call.
    ///
    /// # Errors
    /// What is wrong with the shards. The version before stays until its shards answer again or all shards are
    /// replaced.
    pub fn look(&self) -> Result<bool, ShardProblem> {
        let before = self.agreed();
        let numbers: Vec<u32> = before.shards.iter().map(|shard| shard.id().number).collect();
        let found = agreement(&self.shards, &numbers, self.accept_insecure);
        let found = found.and_then(|now| check_successor(&before, &now).map(|()| now));
        let problem = found.as_ref().err().cloned();
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
        let now = found?;
        let changed = now.shards.iter().zip(&before.shards).any(|(now, before)| now.id() != before.id());
        if changed {
            *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
        }
        Ok(changed)
    }

    /// The version of the database that is served.
    pub fn version(&self) -> u64 {
        self.agreed().version()
    }

    /// What the last look at the shards has found.
    pub(crate) fn problem(&self) -> Option<ShardProblem> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of shards.
    pub(crate) fn count(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn agreed(&self) -> Arc<Agreed> {
        Arc::clone(&self.agreed.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answers of all shards to a request, in the order of the addresses. As soon as a shard fails, the others are
    /// told to stop.
    pub(crate) fn ask_all(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &AtomicBool,
    ) -> Vec<Result<Vec<u8>, ShardFailure>> {
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
        answers
    }
}

/// What all shards agree on. `numbers` are the numbers that errors give to shards that do not answer.
fn agreement<A: ShardAccess>(shards: &[A], numbers: &[u32], accept_insecure: bool) -> Result<Agreed, ShardProblem> {
    let count = shards.len() as u32;
    let described: Vec<Result<Vec<u8>, ShardFailure>> = thread::scope(|scope| {
        let ask = |shard| thread::Builder::new().spawn_scoped(scope, move || A::describe(shard));
        let asked: Vec<_> = shards.iter().map(ask).collect();
        let described = |thread: io::Result<ScopedJoinHandle<'_, _>>| thread.ok()?.join().ok();
        asked.into_iter().map(|thread| described(thread).unwrap_or(Err(ShardFailure::NoAnswer))).collect()
    });
    let mut agreed: Vec<ShardDescription> = Vec::with_capacity(shards.len());
    for (described, &number) in described.into_iter().zip(numbers) {
        let bytes = described.map_err(|_| ShardProblem::NoAnswer { number, shards: count })?;
        let named = (number, count);
        let read = ShardDescription::read(&bytes, accept_insecure);
        let shard = read.map_err(|error| ShardProblem::differs(named, error.to_string(), "a shard of this release"))?;
        let id = shard.id();
        if id.shards != count {
            let needed = format!("one of {count}: give the router the address of every shard once");
            return Err(ShardProblem::differs(named, format!("one of {} shards", id.shards), needed));
        }
        let first = agreed.first().unwrap_or(&shard);
        if (id.split, shard.version(), shard.database().layout_id())
            != (first.id().split, first.version(), first.database().layout_id())
        {
            let found = format!("version {} of the database, cut at another time", shard.version());
            let needed =
                format!("version {} as at shard {}: serve shards of one split", first.version(), first.id().number);
            return Err(ShardProblem::differs(named, found, needed));
        }
        if agreed.iter().any(|other| other.id().number == id.number) {
            let found = format!("shard {} at two addresses", id.number);
            return Err(ShardProblem::differs(named, found, "the address of every shard once"));
        }
        agreed.push(shard);
    }
    Ok(Agreed { shards: agreed })
}

/// Checks that the clients of a version can use a later one, and that version numbers do not fall.
fn check_successor(before: &Agreed, now: &Agreed) -> Result<(), ShardProblem> {
    let named = (now.shards[0].id().number, now.shards.len() as u32);
    let needed = "shards of a later version of the same database, or a restart of the router";
    if now.database().parameters().fingerprint() != before.database().parameters().fingerprint() {
        return Err(ShardProblem::differs(named, "other parameters", needed));
    }
    if now.version() < before.version() {
        let found = format!("version {}, earlier than {}", now.version(), before.version());
        return Err(ShardProblem::differs(named, found, needed));
    }
    Ok(())
}
