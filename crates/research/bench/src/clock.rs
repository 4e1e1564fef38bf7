//! Clocks, alternating repetitions, and medians.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rayon::ThreadPool;

/// The clock to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time.
    Wall,
    /// CPU time of the one computing thread: steadier on a machine with other load. Wall-clock time if the system
    /// does not report it.
    Cpu,
}

impl Clock {
    /// `wall` or `cpu`.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Wall => "wall",
            Clock::Cpu => "cpu",
        }
    }

    /// Runs `work` on the calling thread; returns its result and the seconds it took. The caller drops the result,
    /// outside the measured time.
    pub(crate) fn time<T>(self, work: impl FnOnce() -> T) -> (T, f64) {
        if self == Clock::Cpu
            && let Some(start) = thread_seconds()
        {
            let result = work();
            let end = thread_seconds().unwrap_or(start);
            return (result, end - start);
        }
        let start = Instant::now();
        let result = work();
        (result, start.elapsed().as_secs_f64())
    }
}

/// The wall-clock times of the phases of code that tells when each of them ends.
pub(crate) struct PhaseClock<P> {
    since: Instant,
    phases: BTreeMap<P, Duration>,
}

impl<P: Ord> PhaseClock<P> {
    /// Starts with the first phase.
    pub(crate) fn start() -> Self {
        PhaseClock { since: Instant::now(), phases: BTreeMap::new() }
    }

    /// Adds the time since the end of the last phase to this one.
    pub(crate) fn ended(&mut self, phase: P) {
        let now = Instant::now();
        *self.phases.entry(phase).or_default() += now - self.since;
        self.since = now;
    }

    /// Seconds of a phase, of all times it ran.
    pub(crate) fn seconds(&self, phase: P) -> f64 {
        self.phases.get(&phase).map_or(0.0, Duration::as_secs_f64)
    }
}

/// A clock and the threads on which the timed work runs.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch<'a> {
    clock: Clock,
    threads: &'a ThreadPool,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn new(clock: Clock, threads: &'a ThreadPool) -> Self {
        Stopwatch { clock, threads }
    }

    /// Wall-clock time regardless of the options: the CPU time of one thread does not describe several threads.
    pub(crate) fn wall(threads: &'a ThreadPool) -> Self {
        Stopwatch { clock: Clock::Wall, threads }
    }

    /// Runs `work`; returns its result and the seconds it took. The caller drops the result, outside the measured time.
    pub(crate) fn time<T, E>(self, work: impl FnOnce() -> Result<T, E> + Send) -> anyhow::Result<(T, f64)>
    where
        T: Send,
        E: Send,
        anyhow::Error: From<E>,
    {
        let (result, seconds) = self.threads.install(|| self.clock.time(work));
        Ok((result?, seconds))
    }

    /// Runs `work`; returns the seconds it took, without the time to drop its result.
    pub(crate) fn seconds<T, E>(self, work: impl FnOnce() -> Result<T, E> + Send) -> anyhow::Result<f64>
    where
        T: Send,
        E: Send,
        anyhow::Error: From<E>,
    {
        self.time(work).map(|(_, seconds)| seconds)
    }
}

/// CPU seconds of all threads of this process; `None` if the system does not report them. Unlike wall-clock time they
/// leave out other programs' turns.
#[cfg(unix)]
pub(crate) fn process_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

#[cfg(not(unix))]
pub(crate) fn process_seconds() -> Option<f64> {
    None
}

/// CPU seconds of the calling thread.
#[cfg(unix)]
fn thread_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

#[cfg(not(unix))]
fn thread_seconds() -> Option<f64> {
    None
}

/// Number of repetitions: at least `min`, then until `budget` is spent or `max` is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repetitions {
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) budget: Duration,
}

impl Repetitions {
    /// Exactly this many repetitions.
    pub(crate) const fn exactly(count: usize) -> Self {
        Repetitions { min: count, max: count, budget: Duration::ZERO }
    }
}

/// An operation that is timed in turn with others: each call runs it once and returns the measurement, usually
/// seconds.
pub(crate) type TimedOperation<'a, T = f64> = Box<dyn FnMut() -> anyhow::Result<T> + 'a>;

/// Times the operations in turn, after one warm-up round; returns the samples of each operation, repetition by
/// repetition.
pub(crate) fn alternate<T>(
    repetitions: Repetitions,
    operations: &mut [TimedOperation<'_, T>],
) -> anyhow::Result<Vec<Vec<T>>> {
    for operation in operations.iter_mut() {
        operation()?;
    }
    let mut samples: Vec<Vec<T>> = operations.iter().map(|_| Vec::new()).collect();
    let start = Instant::now();
    for repetition in 0..repetitions.max {
        if repetition >= repetitions.min && start.elapsed() >= repetitions.budget {
            break;
        }
        for (operation, samples) in operations.iter_mut().zip(&mut samples) {
            samples.push(operation()?);
        }
    }
    Ok(samples)
}

/// The median; for an even number of samples the mean of the middle two; NaN for no samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// Every sample multiplied by `factor`.
pub(crate) fn scaled(samples: &[f64], factor: f64) -> Vec<f64> {
    samples.iter().map(|sample| sample * factor).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn operations_take_turns_and_keep_to_the_repetitions() {
        let log = RefCell::new(String::new());
        let operation = |name: char| -> TimedOperation<'_> {
            let log = &log;
            Box::new(move || {
                log.borrow_mut().push(name);
                Ok(1.0)
            })
        };
        let repetitions = |budget| Repetitions { min: 2, max: 4, budget };
        let mut two = [operation('a'), operation('b')];
        let samples = alternate(repetitions(Duration::ZERO), &mut two).unwrap();
        assert_eq!(samples, [[1.0, 1.0], [1.0, 1.0]]);
        assert_eq!(log.borrow().as_str(), "ababab", "one round that is not counted, two that are");
        log.borrow_mut().clear();
        alternate(repetitions(Duration::MAX), &mut two).unwrap();
        assert_eq!(log.borrow().len(), 2 * 5);
    }

    #[test]
    fn the_round_that_is_not_counted_is_the_first() {
        let mut count = 0;
        let operation: TimedOperation<'_, usize> = Box::new(|| {
            count += 1;
            Ok(count)
        });
        assert_eq!(alternate(Repetitions::exactly(3), &mut [operation]).unwrap(), [[2, 3, 4]]);
    }

    #[test]
    fn both_clocks_see_work() {
        for clock in [Clock::Wall, Clock::Cpu] {
            let (sum, seconds) = clock.time(|| (0..2_000_000u64).map(std::hint::black_box).sum::<u64>());
            assert_eq!(sum, 1_999_999_000_000);
            assert!(seconds > 0.0 && seconds < 60.0, "{clock:?} {seconds}");
        }
    }
}
