//! The recordings of a device.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::counters::Launches;
use crate::driver::Graph;
use crate::kernel::Address;
use crate::recorder::Kept;

/// How far a recording is.
#[derive(Default)]
pub(crate) enum State {
    /// Not done yet.
    #[default]
    New,
    /// Done before, so that caches are full.
    Done {
        /// How often there was too little memory to record it.
        shortages: u32,
    },
    Recorded(Recorded),
    /// It cannot be recorded.
    Unfit,
}

impl State {
    pub(crate) const DONE: State = State::Done { shortages: 0 };
}

/// Work as a graph.
pub(crate) struct Recorded {
    /// The number of the device.
    pub(crate) device: u64,
    pub(crate) graph: Box<dyn Graph>,
    pub(crate) launches: Vec<(usize, Launches)>,
    pub(crate) inputs: Vec<Place>,
    pub(crate) outputs: Vec<Place>,
    /// The device, and buffers that the graph uses. Fields are dropped in their order: the graph goes before them.
    pub(crate) _kept: Vec<Kept>,
}

/// Where a buffer of a recording is.
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) words: usize,
    pub(crate) bytes: usize,
}

/// The recordings of a device.
#[derive(Default)]
pub(crate) struct Recordings {
    /// Held while a recording is made or repeated.
    alone: Mutex<()>,
    made: Mutex<Vec<Weak<Mutex<State>>>>,
    /// One thread, which runs the work that is recorded. Work that otherwise runs in parallel runs on this thread
    /// alone.
    thread: OnceLock<Option<ThreadPool>>,
}

impl Recordings {
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_alone(&self) -> Option<MutexGuard<'_, ()>> {
        match self.alone.try_lock() {
            Ok(alone) => Some(alone),
            Err(TryLockError::Poisoned(alone)) => Some(alone.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn made(&self) -> MutexGuard<'_, Vec<Weak<Mutex<State>>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn thread(&self) -> Option<&ThreadPool> {
        let start = || ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "recorder".into()).build().ok();
        self.thread.get_or_init(start).as_ref()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.made().iter().filter(|state| state.strong_count() > 0).count()
    }

    pub(crate) fn add(&self, state: &Arc<Mutex<State>>) {
        let mut made = self.made();
        made.retain(|state| state.strong_count() > 0);
        made.push(Arc::downgrade(state));
    }

    /// Gives up all recordings. Returns a guard if there are none now; there will be none as long as it is held.
    pub(crate) fn give_up(&self) -> Option<MutexGuard<'_, ()>> {
        let alone = self.try_alone()?;
        let made = std::mem::take(&mut *self.made());
        let mut in_use = Vec::new();
        for state in made.iter().filter_map(Weak::upgrade) {
            match state.try_lock() {
                Ok(mut state) => *state = State::DONE,
                Err(_) => in_use.push(Arc::downgrade(&state)),
            }
        }
        let none = in_use.is_empty();
        self.made().extend(in_use);
        none.then_some(alone)
    }
}
