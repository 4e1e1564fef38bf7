//! What a bootstrapper does again and again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspoken_rlwe::WorkId;

/// Work of a bootstrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// From slots to slots, of one vector.
    Refresh,
    /// From slots to slots, of two real vectors.
    RefreshPair,
    /// From slots to coefficients, of one vector.
    Coefficients,
    /// From slots to coefficients, of two real vectors.
    CoefficientsOfPair,
    /// From coefficients to slots.
    RefreshCoefficients,
    /// From coefficients to one part of slots.
    Part,
    /// From coefficients to both parts of slots.
    Parts,
    /// From raised coefficients to exponentials.
    Exponential,
}

/// What a bootstrapper knows of its work.
pub(super) struct Works {
    pub(super) number: u64,
    /// Level and scale of each output, from the first time that work was done.
    outputs: Mutex<HashMap<WorkId, Vec<(usize, f64)>>>,
}

impl Works {
    /// The works of a new bootstrapper: none yet.
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Works { number: NUMBER.fetch_add(1, Ordering::Relaxed), outputs: Mutex::default() }
    }

    pub(super) fn outputs(&self) -> MutexGuard<'_, HashMap<WorkId, Vec<(usize, f64)>>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
