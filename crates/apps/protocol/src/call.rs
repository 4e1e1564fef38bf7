//! What a computation heeds besides the request.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::AnswerProgress;

/// Other processes with the same application and the keys of the same client, which compute parts of an answer. They
/// belong to the service: parts and their results are no hostile bytes.
pub trait AnswerHelpers: Sync {
    /// How many there are. It stays the same during an answer.
    fn count(&self) -> usize;

    /// Lets a helper compute a part by [`ServerHalf::compute_part`](crate::ServerHalf::compute_part), and waits for the
    /// result. `None` if the helper does not compute the part now, or has ended: then the asking process computes it.
    fn compute(&self, helper: usize, part: &[u8]) -> Option<Vec<u8>>;
}

/// What a computation heeds besides the request: when to stop, whom to tell how far it is, and who helps.
/// [`Call::default`] is one that runs to its end, tells nobody and has no help.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Set when nobody wants the result any more: the client is gone, the time limit is reached, or the service stops.
    pub cancel: &'a AtomicBool,
    /// Where [`Call::report`] puts the steps that are done, if somebody looks.
    pub progress: Option<&'a AnswerProgress>,
    /// Other processes that may compute parts of the answer.
    pub helpers: Option<&'a dyn AnswerHelpers>,
}

impl<'a> Call<'a> {
    /// A computation that stops soon after `cancel` is set, tells nobody how far it is, and has no help.
    pub const fn new(cancel: &'a AtomicBool) -> Self {
        Call { cancel, progress: None, helpers: None }
    }

    /// Whether it is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Reports that `done` of `total` steps are done: one store, from any thread. See [`AnswerProgress::report`].
    pub fn report(&self, done: u32, total: u32) {
        if let Some(progress) = self.progress {
            progress.report(done, total);
        }
    }
}

impl Default for Call<'_> {
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Call::new(&NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reported_if_somebody_looks() {
        let (cancel, progress) = (AtomicBool::new(false), AnswerProgress::new());
        let call = Call { progress: Some(&progress), ..Call::new(&cancel) };
        call.report(2, 3);
        Call::new(&cancel).report(3, 3);
        assert_eq!(progress.newest(), Some((2, 3)));
        cancel.store(true, Ordering::Relaxed);
        assert!(call.is_cancelled() && !Call::default().is_cancelled());
    }
}
