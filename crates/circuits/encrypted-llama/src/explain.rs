//! What a pass does, step by step, counted without values.

use std::fmt::{self, Display, Formatter};

use unspoken_ckks::{CostModel, Encoder, Simulator, vector_bytes};
use unspoken_llama::Place;

use crate::arithmetic::{Method, PassArithmetic};
use crate::error::PassError;
use crate::evaluator::SimulatedEvaluator;
use crate::place::{CountedStep, Prices};
use crate::program::PassProgram;
use crate::public::Public;
use crate::session::Session;
use crate::spread::{SimulatedProcesses, SpreadTimes};

/// Where a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// On slots.
    Slots,
    /// On slots; its results are keys or values, arranged for products with later queries and weights.
    Cache,
    /// On coefficients, between the halves of a bootstrap.
    Coefficients,
}

impl Display for Work {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Slots => "slots",
            Work::Cache => "cache",
            Work::Coefficients => "coefficients",
        })
    }
}

/// A step of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedStep {
    /// The values it computes, one place for each result.
    pub places: Vec<Place>,
    /// Where it computes.
    pub work: Work,
    /// Vectors of its inputs that are bootstrapped before it.
    pub refreshed: usize,
    /// Vectors of all its inputs.
    pub inputs: usize,
    /// Vectors of its results.
    pub outputs: usize,
    /// Vectors that [`Work::Coefficients`] bootstraps as its results: fewer than these if several lie in one.
    pub fresh: usize,
    /// The level at which it works.
    pub level: usize,
    /// The lowest level of its results.
    pub output_level: usize,
    /// The binary logarithm of the largest scale of its results.
    pub log2_scale: f64,
    /// Key switches, with the key switches of bootstraps.
    pub key_switches: u64,
    /// Predicted seconds, with the seconds of bootstraps.
    pub seconds: f64,
    /// Predicted seconds of bootstraps.
    pub bootstrap_seconds: f64,
    /// Bytes of memory of its results.
    pub bytes: u64,
}

impl ExplainedStep {
    /// Vectors that are bootstrapped before the step and as its results.
    pub fn bootstraps(&self) -> usize {
        self.refreshed + self.fresh
    }
}

impl PassProgram {
    /// The steps of the pass of chunk `chunk`, counted from 0, of a session with room for `chunks` chunks after
    /// `public` tokens. `model` predicts the seconds.
    ///
    /// # Errors
    /// If `chunk` is not below `chunks`, or a pass cannot run.
    pub fn explain(
        &self,
        encoder: &Encoder,
        (public, chunk, chunks): (usize, usize, usize),
        model: &CostModel,
    ) -> Result<Vec<ExplainedStep>, PassError> {
        let prices = Prices::new(self, encoder, public, model)?;
        let mut session = self.session();
        let mut counted = Vec::new();
        for _ in 0..=chunk {
            counted = prices.pass(&mut session, chunks)?;
        }
        let bytes = |level: usize| vector_bytes(encoder.parameters(), level);
        Ok(counted.into_iter().map(|counted| explained(counted, bytes)).collect())
    }

    /// Predicts this pass for each number of processes. `model` describes each process, and the network of each carries
    /// `network` bytes a second.
    ///
    /// # Errors
    /// If `chunk` is not below `chunks`, or a pass cannot run.
    pub fn spread_times(
        &self,
        encoder: &Encoder,
        (public, chunk, chunks): (usize, usize, usize),
        (processes, network): (&[usize], f64),
        model: &CostModel,
    ) -> Result<Vec<SpreadTimes>, PassError> {
        if processes.is_empty() {
            return Ok(Vec::new());
        }
        let public = Public::counted(public);
        let simulator = Simulator::counting(encoder);
        let input = self.input_without_values(&simulator)?;
        let pass = |evaluator: &SimulatedEvaluator<'_>, session: &mut Session<_>| -> Result<(), PassError> {
            PassArithmetic::new(evaluator, self, public, session, (true, chunks))?.run(input.clone())?;
            Ok(())
        };
        let mut before = self.session();
        for _ in 0..chunk {
            pass(&SimulatedEvaluator::new(&simulator, &self.bootstrap), &mut before)?;
        }
        let prepared = self.prepared_matrices();
        let times = |&count: &usize| {
            let simulator = Simulator::counting(encoder);
            let processes = SimulatedProcesses::new(count, network, model);
            let evaluator = SimulatedEvaluator::new(&simulator, &self.bootstrap).with_processes(&processes);
            pass(&evaluator, &mut before.clone())?;
            Ok(processes.times(&simulator))
        };
        let times = processes.iter().map(times).collect();
        // A pass in one process does not use the matrices of blocks.
        self.retain_matrices(&prepared);
        times
    }
}

fn explained(counted: CountedStep, bytes: impl Fn(usize) -> u64) -> ExplainedStep {
    let CountedStep { step, own, refreshed, key_switches } = counted;
    let work = match step.methods[step.choice.way] {
        Method::Slots(_) => Work::Slots,
        Method::Cache => Work::Cache,
        Method::Coefficients(_) => Work::Coefficients,
    };
    let vectors = step.vectors.iter().zip(&step.choice.refreshed);
    ExplainedStep {
        places: step.places,
        work,
        refreshed: vectors.filter(|(_, refreshed)| **refreshed).map(|(vectors, _)| vectors).sum(),
        inputs: step.vectors.iter().sum(),
        outputs: step.results.len(),
        fresh: step.fresh,
        level: step.choice.level,
        output_level: step.results.iter().map(|result| result.0).min().unwrap_or(0),
        log2_scale: step.results.iter().fold(0.0, |most: f64, result| most.max(result.1.log2())),
        key_switches,
        seconds: own + refreshed,
        bootstrap_seconds: refreshed + if work == Work::Coefficients { own } else { 0.0 },
        bytes: step.results.iter().map(|result| bytes(result.0)).sum(),
    }
}
