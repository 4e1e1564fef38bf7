//! Parts of a pass in several processes, or in simulated ones.
//!
//! An evaluator with helpers spreads independent work: bootstraps of pairs, first halves of bootstraps, blocks of the
//! outputs of a product with their second halves, polynomials of vectors, and the attention of each block of heads. A
//! `Part` has its own vectors, lowered to the level at which they are needed, so any process with the program and the
//! keys can compute it. Heads of one block run the same steps as in the whole pass, from the step number of the part
//! on. Rows of keys and values are made where the heads run, from skewed vectors; rows of narrow heads that are kept
//! are sent.
//!
//! With simulated processes each part is run and counted alone. `PassProgram::spread_times` then gives parts to
//! processes as passes do, with the network of this process as a second bound. Each block of outputs has a matrix of
//! its own, so a process that spreads products keeps the matrices twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, CostModel, Simulated, Simulator};
use unspoken_rlwe as rlwe;

use crate::error::PassError;
use crate::layout::Layout;
use crate::part::Part;

/// Other processes with the same program and the keys of the same client.
pub trait Helpers: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Computes a part in one of them, and waits for it. `None` if it does not compute it: then another process does.
    fn compute(&self, helper: usize, part: &Part<Ciphertext>) -> Option<Vec<Ciphertext>>;
}

type Results = Result<Vec<Vec<Ciphertext>>, PassError>;

/// Computes parts here and at the helpers. Each process takes the next part when it has computed one. If a helper does
/// not compute its part, the part is computed here, and the helper gets no other part.
pub(crate) fn spread(
    (helpers, layout): (Option<&dyn Helpers>, &Layout),
    parts: &[Part<Ciphertext>],
    compute: impl Fn(&Part<Ciphertext>) -> Result<Vec<Ciphertext>, PassError>,
) -> Results {
    let board = Board::new(parts.len());
    std::thread::scope(|scope| {
        let board = &board;
        if let Some(helpers) = helpers {
            // This process takes one of the parts.
            for helper in 0..helpers.count().min(parts.len().saturating_sub(1)) {
                scope.spawn(move || {
                    // A part must come back, whatever happens: this process waits for it.
                    let helped = |part: usize| {
                        let computed = catch_unwind(AssertUnwindSafe(|| helpers.compute(helper, &parts[part])));
                        computed.ok().flatten().filter(|result| result.len() == parts[part].results(layout))
                    };
                    while board.take().is_some_and(|part| board.put_from_helper(part, helped(part))) {}
                });
            }
        }
        while let Some(part) = board.take_or_wait() {
            if !board.put(part, compute(&parts[part])) {
                break;
            }
        }
    });
    board.into_results()
}

/// What is to be done, and what is done.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Parts that nobody computes, the next one last.
    open: Vec<usize>,
    /// Number of parts that helpers compute.
    at_helpers: usize,
    results: Vec<Vec<Ciphertext>>,
    error: Option<PassError>,
}

impl Board {
    fn new(count: usize) -> Self {
        let (open, results) = ((0..count).rev().collect(), vec![Vec::new(); count]);
        Board { state: Mutex::new(State { open, at_helpers: 0, results, error: None }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next part for a helper, if there is one.
    fn take(&self) -> Option<usize> {
        let mut state = self.state();
        if state.error.is_some() {
            return None;
        }
        let part = state.open.pop()?;
        state.at_helpers += 1;
        Some(part)
    }

    /// Notes what a helper returned, and says whether it gets another part.
    fn put_from_helper(&self, part: usize, result: Option<Vec<Ciphertext>>) -> bool {
        let mut state = self.state();
        state.at_helpers -= 1;
        let computed = result.is_some();
        match result {
            Some(result) => state.results[part] = result,
            None => state.open.push(part),
        }
        self.changed.notify_one();
        computed
    }

    /// The next part for this process. Waits while a helper may still give one back.
    fn take_or_wait(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if let Some(part) = state.open.pop() {
                return Some(part);
            }
            if state.at_helpers == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes a result of this process, and says whether to go on.
    fn put(&self, part: usize, result: Result<Vec<Ciphertext>, PassError>) -> bool {
        let mut state = self.state();
        match result {
            Ok(result) => state.results[part] = result,
            Err(error) => state.error = Some(error),
        }
        state.error.is_none()
    }

    fn into_results(self) -> Results {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(state.results), Err)
    }
}

impl SpreadTimes {
    /// Seconds of the whole pass in the processes.
    pub fn seconds(&self) -> f64 {
        self.whole - self.alone + self.spread
    }
}

/// Processes of a simulated pass: predicts how long their parts take, and what they send.
pub struct SimulatedProcesses<'a> {
    count: usize,
    /// Bytes a second that the network of each process carries in each direction.
    network: f64,
    model: &'a CostModel,
    times: Mutex<SpreadTimes>,
}

/// Predicted times of the parts of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpreadTimes {
    /// Seconds of the whole pass in one process, with its parts one after the other.
    pub whole: f64,
    /// Seconds of all parts, one after the other in one process.
    pub alone: f64,
    /// Seconds of all parts in the processes, with what they send.
    pub spread: f64,
    /// Bytes to and from the other processes.
    pub bytes: f64,
    /// Number of parts.
    pub parts: usize,
}

impl<'a> SimulatedProcesses<'a> {
    /// `count` equal processes. The network of each carries `network` bytes a second, and `model` predicts the seconds
    /// of each.
    pub fn new(count: usize, network: f64, model: &'a CostModel) -> Self {
        SimulatedProcesses { count, network, model, times: Mutex::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What was predicted of the pass that a simulator has counted.
    pub fn times(&self, simulator: &Simulator) -> SpreadTimes {
        let times = *self.times.lock().unwrap_or_else(PoisonError::into_inner);
        SpreadTimes { whole: self.model.seconds(&simulator.cost()), ..times }
    }

    /// Computes parts one after the other, and predicts their times.
    pub(crate) fn spread(
        &self,
        simulator: &Simulator,
        parts: &[Part<Simulated>],
        compute: impl Fn(&Part<Simulated>) -> Result<Vec<Simulated>, PassError>,
    ) -> Result<Vec<Vec<Simulated>>, PassError> {
        let bytes = |vectors: &[Simulated]| -> f64 {
            vectors.iter().map(|vector| sent_bytes(simulator.parameters(), simulator.level(vector))).sum()
        };
        let seconds = || self.model.seconds(&simulator.cost());
        let (mut results, mut spans) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for part in parts {
            let before = seconds();
            let result = compute(part)?;
            spans.push((seconds() - before, [bytes(&part.vectors), bytes(&result)]));
            results.push(result);
        }
        self.note(&spans);
        Ok(results)
    }

    /// Gives each part to the process that is free first, as [`spread`] does. What this process sends and receives goes
    /// over one network.
    fn note(&self, spans: &[(f64, [f64; 2])]) {
        let mut free = vec![0.0f64; self.count];
        let [mut out, mut back] = [0.0f64; 2];
        for (seconds, [part, result]) in spans {
            let first = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
            free[first] += seconds;
            if first > 0 {
                (out, back) = (out + part, back + result);
                free[first] += (part + result) / self.network;
            }
        }
        let longest = free.into_iter().fold(0.0, f64::max);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.alone += spans.iter().map(|span| span.0).sum::<f64>();
        times.spread += longest.max(out.max(back) / self.network);
        times.bytes += out + back;
        times.parts += spans.len();
    }
}

/// Bytes of a vector as it is sent.
fn sent_bytes(parameters: &CkksParameters, level: usize) -> f64 {
    (size_of::<f64>() + rlwe::Ciphertext::byte_len(parameters.rlwe(), parameters.basis(level))) as f64
}
