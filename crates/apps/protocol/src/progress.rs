//! How far an answer is.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far an answer is: threads that compute the answer tell threads that wait for it. Only the newest report counts;
/// reporting is one store, never waits, and may be done from any thread.
#[derive(Debug, Default)]
pub struct AnswerProgress(AtomicU64);

impl AnswerProgress {
    /// Nothing reported yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports that `done` of `total` steps are done. More than `total` count as all, and a report of no steps as none.
    pub fn report(&self, done: u32, total: u32) {
        self.0.store(u64::from(total) << 32 | u64::from(done.min(total)), Ordering::Relaxed);
    }

    /// The newest report: steps done, and in total.
    pub fn newest(&self) -> Option<(u32, u32)> {
        let packed = self.0.load(Ordering::Relaxed);
        let (done, total) = (packed as u32, (packed >> 32) as u32);
        (total > 0).then_some((done, total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_report_counts() {
        let progress = AnswerProgress::new();
        assert_eq!(progress.newest(), None);
        for (done, total, newest) in [
            (0, 9, Some((0, 9))),
            (3, 9, Some((3, 9))),
            (u32::MAX, u32::MAX, Some((u32::MAX, u32::MAX))),
            (10, 9, Some((9, 9))),
            (1, 0, None),
        ] {
            progress.report(done, total);
            assert_eq!(progress.newest(), newest);
        }
    }

    #[test]
    fn reports_of_many_threads_are_never_mixed() {
        let progress = AnswerProgress::new();
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let progress = &progress;
                scope.spawn(move || (0..10_000).for_each(|_| progress.report(thread, 10 * thread)));
            }
            for _ in 0..10_000 {
                let newest = progress.newest();
                assert!(newest.is_none_or(|(done, total)| total == 10 * done), "{newest:?}");
            }
        });
    }
}
