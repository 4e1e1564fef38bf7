//! Shared parts of all measurements of a suite: options, threads, and the sink of rows.

use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Map, Value, json};

use crate::clock::{Clock, Repetitions, Stopwatch};
use crate::machine::peak_memory_bytes;
use crate::peer::Library;
use crate::row::{Metric, Row, params};
use crate::{Options, Suite};

pub(crate) struct Harness<'a> {
    suite: Suite,
    pub(crate) options: &'a Options,
    /// A pool of one thread; all rows are measured on it unless they say otherwise.
    pub(crate) single_thread: ThreadPool,
    sink: &'a mut dyn FnMut(Row),
    report_progress: &'a mut dyn FnMut(&str),
}

impl<'a> Harness<'a> {
    pub(crate) fn new(
        suite: Suite,
        options: &'a Options,
        sink: &'a mut dyn FnMut(Row),
        report_progress: &'a mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let parts = suite.parts();
        if let Some(found) = options.only.iter().find(|part| !parts.contains(&part.as_str())) {
            let needed = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
            anyhow::bail!("no part '{found}' of the suite {}; there are {needed}", suite.name());
        }
        Ok(Harness { suite, options, single_thread: pool(1)?, sink, report_progress })
    }

    /// Whether this part of the suite is to be measured.
    pub(crate) fn includes(&self, part: &str) -> bool {
        self.options.only.is_empty() || self.options.only.iter().any(|only| only == part)
    }

    /// Reports what is being measured, or why something is skipped.
    pub(crate) fn progress(&mut self, message: impl AsRef<str>) {
        (self.report_progress)(message.as_ref());
    }

    /// The clock of single-threaded rows.
    pub(crate) fn clock(&self) -> Clock {
        self.options.clock
    }

    /// A stopwatch for work on one thread, with the clock of the options.
    pub(crate) fn stopwatch(&self) -> Stopwatch<'_> {
        Stopwatch::new(self.clock(), &self.single_thread)
    }

    /// Number of repetitions for operations that take milliseconds.
    pub(crate) fn repetitions(&self) -> Repetitions {
        if self.options.quick {
            Repetitions { min: 3, max: 15, budget: Duration::from_millis(250) }
        } else {
            Repetitions { min: 5, max: 41, budget: Duration::from_secs(4) }
        }
    }

    /// Number of repetitions for operations that take seconds.
    pub(crate) fn slow_repetitions(&self) -> Repetitions {
        let usual = self.repetitions();
        Repetitions { min: 3, budget: usual.budget / 2, ..usual }
    }

    /// Sends a row of timings on one thread, with threads, clock and repetitions added to its parameters.
    pub(crate) fn timing(
        &mut self,
        metric: Metric,
        case: impl Into<String>,
        ours: &[f64],
        baseline: Option<(&str, &[f64])>,
        mut params: Map<String, Value>,
    ) {
        params.insert("clock".into(), json!(self.clock().name()));
        params.insert("threads".into(), json!(1));
        params.insert("repetitions".into(), json!(ours.len()));
        (self.sink)(metric.row(self.suite.name(), case, ours, baseline, params));
    }

    /// Sends a row of single values: bytes, errors, counts, or times that were measured once.
    pub(crate) fn value(
        &mut self,
        metric: Metric,
        case: impl Into<String>,
        ours: f64,
        baseline: Option<(&str, f64)>,
        params: Map<String, Value>,
    ) {
        let baseline = baseline.map(|(name, value)| (name, [value]));
        let baseline = baseline.as_ref().map(|(name, value)| (*name, value.as_slice()));
        (self.sink)(metric.row(self.suite.name(), case, &[ours], baseline, params));
    }

    /// Whether a library is set up; says so if it is not.
    pub(crate) fn is_set_up(&mut self, library: Library) -> bool {
        let is_set_up = library.is_set_up(&self.options.root);
        if !is_set_up {
            let name = library.name();
            self.progress(format!("{name} is not set up: rows come without that baseline; 'make peers' sets it up"));
        }
        is_set_up
    }

    /// Sends the peak memory of this process, if the system reports it; `of` describes the contents.
    pub(crate) fn peak_memory(&mut self, of: &str) {
        if let Some(bytes) = peak_memory_bytes() {
            self.value(Metric::less("peak_memory", "bytes"), "this process", bytes as f64, None, params! { "of": of });
        }
    }

    /// Sends a row of samples without additional parameters.
    pub(crate) fn row(
        &mut self,
        metric: Metric,
        case: impl Into<String>,
        ours: &[f64],
        baseline: Option<(&str, &[f64])>,
        params: Map<String, Value>,
    ) {
        (self.sink)(metric.row(self.suite.name(), case, ours, baseline, params));
    }
}

/// A pool of `threads` threads.
pub(crate) fn pool(threads: usize) -> anyhow::Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| anyhow::anyhow!("cannot start {threads} threads: {error}; request fewer"))
}

/// The rows that `measure` sends with the options of a quick run, for tests.
#[cfg(test)]
pub(crate) fn test_rows(suite: Suite, measure: impl FnOnce(&mut Harness<'_>) -> anyhow::Result<()>) -> Vec<Row> {
    test_rows_below(".", suite, measure)
}

/// The same with the files below a root.
#[cfg(test)]
pub(crate) fn test_rows_below(
    root: &str,
    suite: Suite,
    measure: impl FnOnce(&mut Harness<'_>) -> anyhow::Result<()>,
) -> Vec<Row> {
    let options = Options { quick: true, peers: false, clock: Clock::Cpu, root: root.into(), ..Options::default() };
    let mut rows = Vec::new();
    let (mut sink, mut progress) = (|row| rows.push(row), |_: &str| ());
    let mut harness = Harness::new(suite, &options, &mut sink, &mut progress).unwrap();
    measure(&mut harness).unwrap();
    rows
}
