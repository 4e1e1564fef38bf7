//! What every measurement of a run shares: options, threads, and where rows go.

use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Map, Value, json};

use crate::clock::{Clock, Effort};
use crate::error::BenchError;
use crate::machine::peak_memory_bytes;
use crate::row::{Metric, Row, params};
use crate::{Options, Suite};

pub(crate) struct Session<'a> {
    suite: Suite,
    pub(crate) options: &'a Options,
    /// The one thread of all rows that do not say otherwise.
    pub(crate) single: ThreadPool,
    sink: &'a mut dyn FnMut(Row),
    progress: &'a mut dyn FnMut(&str),
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        suite: Suite,
        options: &'a Options,
        sink: &'a mut dyn FnMut(Row),
        progress: &'a mut dyn FnMut(&str),
    ) -> Result<Self, BenchError> {
        let parts = suite.parts();
        if let Some(found) = options.only.iter().find(|part| !parts.contains(&part.as_str())) {
            return Err(BenchError::Part { found: found.clone(), suite: suite.name(), needed: parts.join(", ") });
        }
        Ok(Session { suite, options, single: pool(1)?, sink, progress })
    }

    /// Whether a part of the suite is to be measured.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.options.only.is_empty() || self.options.only.iter().any(|only| only == part)
    }

    pub(crate) fn note(&mut self, message: impl AsRef<str>) {
        (self.progress)(message.as_ref());
    }

    /// The clock of single-threaded rows.
    pub(crate) fn clock(&self) -> Clock {
        self.options.clock
    }

    /// How often to repeat what takes milliseconds.
    pub(crate) fn effort(&self) -> Effort {
        if self.options.quick {
            Effort { least: 3, most: 15, budget: Duration::from_millis(250) }
        } else {
            Effort { least: 5, most: 41, budget: Duration::from_secs(4) }
        }
    }

    /// How often to repeat what takes seconds.
    pub(crate) fn slow_effort(&self) -> Effort {
        let full = self.effort();
        Effort { least: 3, budget: full.budget / 2, ..full }
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

    /// Sends a row of numbers that are what they are: bytes, errors, counts, or timings that say their own parameters.
    pub(crate) fn fact(
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

    /// Sends the most memory this process has held, where the system tells; `of` says what that holds.
    pub(crate) fn peak_memory(&mut self, of: &str) {
        if let Some(bytes) = peak_memory_bytes() {
            self.fact(Metric::less("peak_memory", "bytes"), "this process", bytes as f64, None, params! { "of": of });
        }
    }

    /// Sends a row as it is.
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
pub(crate) fn pool(threads: usize) -> Result<ThreadPool, BenchError> {
    let refuse = |reason: String| BenchError::Threads { threads, reason };
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| refuse(error.to_string()))
}
