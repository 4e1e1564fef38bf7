//! Clocks, repetitions in turn, and medians.

use std::time::{Duration, Instant};

use rayon::ThreadPool;

use crate::error::BenchError;

/// Which clock is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time.
    Wall,
    /// CPU time of the one thread that computes: steadier on a machine that does other work too. Wall-clock time where
    /// the system cannot tell.
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

    /// Runs `work` on the calling thread; returns its result and the seconds it took. The result is dropped by the
    /// caller, outside the clock.
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

    /// As [`Clock::time`], on the threads of `pool`.
    pub(crate) fn time_in<T: Send>(self, pool: &ThreadPool, work: impl FnOnce() -> T + Send) -> (T, f64) {
        pool.install(|| self.time(work))
    }
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

/// How often to repeat: at least `least` times, then until `budget` is spent or `most` is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) budget: Duration,
}

/// Something timed: each call does it once and tells the seconds.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> Result<f64, BenchError> + 'a>;

/// Times the contenders in turn, after one untimed round; returns the seconds of each, repetition by repetition.
pub(crate) fn alternate(effort: Effort, contenders: &mut [Contender<'_>]) -> Result<Vec<Vec<f64>>, BenchError> {
    for contender in contenders.iter_mut() {
        contender()?;
    }
    let mut samples = vec![Vec::new(); contenders.len()];
    let start = Instant::now();
    for repetition in 0..effort.most {
        if repetition >= effort.least && start.elapsed() >= effort.budget {
            break;
        }
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            samples.push(contender()?);
        }
    }
    Ok(samples)
}

/// The median; the mean of the two in the middle of an even number. NaN of nothing.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// Every sample times `factor`.
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
    fn contenders_take_turns_and_keep_to_the_effort() {
        let log = RefCell::new(String::new());
        let contender = |name: char| -> Contender<'_> {
            let log = &log;
            Box::new(move || {
                log.borrow_mut().push(name);
                Ok(1.0)
            })
        };
        let effort = |budget| Effort { least: 2, most: 4, budget };
        let mut two = [contender('a'), contender('b')];
        let samples = alternate(effort(Duration::ZERO), &mut two).unwrap();
        assert_eq!(samples, [[1.0, 1.0], [1.0, 1.0]]);
        assert_eq!(log.borrow().as_str(), "ababab", "one round to warm up, two timed");
        log.borrow_mut().clear();
        alternate(effort(Duration::MAX), &mut two).unwrap();
        assert_eq!(log.borrow().len(), 2 * 5);
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
