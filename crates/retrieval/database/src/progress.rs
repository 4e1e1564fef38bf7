//! Progress and cancellation of long operations.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::DatabaseError;

/// Progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Units done in this phase.
    pub done: u64,
    /// Total units of this phase, if known.
    pub total: Option<u64>,
}

/// Phases of long operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Reading records; counted in records.
    Read,
    /// Finding a bucket for each record; counted in records.
    Place,
    /// Writing cells; counted in cells.
    Write,
    /// Encoding the tables; counted in entries, or in groups of dense tables.
    Encode,
}

/// Progress callback and cancellation.
pub(crate) struct Monitor<'a> {
    pub progress: &'a mut dyn FnMut(Progress),
    pub cancel: &'a AtomicBool,
}

impl Monitor<'_> {
    /// Reports progress, and returns an error when the work is cancelled.
    pub fn at(&mut self, phase: Phase, done: u64, total: Option<u64>) -> Result<(), DatabaseError> {
        (self.progress)(Progress { phase, done, total });
        check(self.cancel)
    }
}

/// Returns an error when the work is cancelled.
pub(crate) fn check(cancel: &AtomicBool) -> Result<(), DatabaseError> {
    match cancel.load(Ordering::Relaxed) {
        true => Err(DatabaseError::Cancelled),
        false => Ok(()),
    }
}
