//! The phases of a pass, and what each takes: counted by a simulator without values, or measured.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use unspoken_ckks::{CkksError, CkksParameters, CoefficientMatrix, CostModel, Encoder, Simulator};
use unspoken_encrypted_llama::{
    Part, PassArithmetic, PassError, PassEvaluator, PassProgram, Requirements, Session, SimulatedEvaluator,
};
use unspoken_llama::{Place, Quantity};
use unspoken_llama_model::KvCache;

use crate::clock::process_seconds;
use crate::harness::pool;

/// A part of a pass. The bootstraps that a step needs belong to the phase of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Makes the rows of the chunk before final, at the first pass of a chunk.
    Earlier,
    AttentionNorm,
    /// Queries, keys and values, RoPE, and the arrangement of keys and values for products.
    Projections,
    Scores,
    Softmax,
    /// Values, weighted by softmax.
    WeightedValues,
    OutputProjection,
    FfnNorm,
    FeedForward,
    /// The last norm and the logits.
    Head,
}

impl Phase {
    pub(super) const ALL: [Phase; 10] = [
        Phase::Earlier,
        Phase::AttentionNorm,
        Phase::Projections,
        Phase::Scores,
        Phase::Softmax,
        Phase::WeightedValues,
        Phase::OutputProjection,
        Phase::FfnNorm,
        Phase::FeedForward,
        Phase::Head,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Earlier => "rows of the chunk before",
            Phase::AttentionNorm => "attention norm",
            Phase::Projections => "queries, keys, values",
            Phase::Scores => "scores",
            Phase::Softmax => "softmax",
            Phase::WeightedValues => "weighted values",
            Phase::OutputProjection => "output projection",
            Phase::FfnNorm => "FFN norm",
            Phase::FeedForward => "FFN",
            Phase::Head => "last norm and head",
        }
    }

    /// The phase that computes a value.
    fn of(place: Place) -> Self {
        match place.quantity {
            Quantity::AttentionNormSquare | Quantity::AttentionNormFactor | Quantity::AttentionNorm => {
                Phase::AttentionNorm
            }
            Quantity::Query
            | Quantity::Key
            | Quantity::Value
            | Quantity::QueryNormSquare
            | Quantity::QueryNormFactor
            | Quantity::QueryNorm
            | Quantity::KeyNormSquare
            | Quantity::KeyNormFactor
            | Quantity::KeyNorm
            | Quantity::RotatedQuery
            | Quantity::RotatedKey => Phase::Projections,
            Quantity::Score => Phase::Scores,
            Quantity::Exponential
            | Quantity::SoftmaxSquare(_)
            | Quantity::SoftmaxFactor(_)
            | Quantity::SoftmaxScaled(_)
            | Quantity::SoftmaxWeight(_) => Phase::Softmax,
            Quantity::Attention => Phase::WeightedValues,
            Quantity::AttentionOutput | Quantity::MiddleResidual => Phase::OutputProjection,
            Quantity::FfnNormSquare | Quantity::FfnNormFactor | Quantity::FfnNorm => Phase::FfnNorm,
            Quantity::Gate
            | Quantity::Up
            | Quantity::Silu
            | Quantity::Hidden
            | Quantity::FfnOutput
            | Quantity::Residual => Phase::FeedForward,
            Quantity::LastNormSquare | Quantity::LastNormFactor | Quantity::LastNorm | Quantity::Logits => Phase::Head,
        }
    }
}

/// Seconds, measured or predicted, CPU seconds of all threads, if they are measured, and key switches, if they are
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) seconds: f64,
    pub(super) cpu: f64,
    pub(super) key_switches: f64,
}

impl Reading {
    fn since(self, before: Reading) -> Reading {
        Reading {
            seconds: self.seconds - before.seconds,
            cpu: self.cpu - before.cpu,
            key_switches: self.key_switches - before.key_switches,
        }
    }

    fn plus(self, other: Reading) -> Reading {
        Reading {
            seconds: self.seconds + other.seconds,
            cpu: self.cpu + other.cpu,
            key_switches: self.key_switches + other.key_switches,
        }
    }
}

/// Where a pass reads its seconds and key switches.
pub(super) type Meter<'a> = dyn Fn() -> Reading + Sync + 'a;

/// The clocks of this process.
pub(super) fn clock() -> impl Fn() -> Reading + Sync {
    let begin = Instant::now();
    move || Reading { seconds: begin.elapsed().as_secs_f64(), cpu: process_seconds().unwrap_or(0.0), key_switches: 0.0 }
}

/// What operations cost on one core of this machine.
pub(super) fn measured_costs(parameters: &CkksParameters) -> anyhow::Result<CostModel> {
    Ok(pool(1)?.install(|| CostModel::measure(parameters))?)
}

/// What a simulator has counted, and the seconds that a model predicts for it.
pub(super) fn counter(simulator: &Simulator, model: CostModel) -> impl Fn() -> Reading + Sync + '_ {
    move || {
        let cost = simulator.cost();
        Reading { seconds: model.seconds(&cost), cpu: 0.0, key_switches: cost.total_key_switches() as f64 }
    }
}

/// What a phase takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PhaseSum {
    pub(super) all: Reading,
    /// The part of bootstraps, with the products between their halves.
    pub(super) refreshes: Reading,
    /// Vectors that were bootstrapped.
    pub(super) vectors: usize,
}

/// What a pass takes.
#[derive(Clone, Debug, Default)]
pub(super) struct PassReport {
    phases: [PhaseSum; Phase::ALL.len()],
}

impl PassReport {
    pub(super) fn of(&self, phase: Phase) -> PhaseSum {
        self.phases[phase as usize]
    }

    /// The sum of phases.
    pub(super) fn sum(&self, phases: &[Phase]) -> PhaseSum {
        phases.iter().fold(PhaseSum::default(), |sum, phase| {
            let own = self.of(*phase);
            PhaseSum {
                all: sum.all.plus(own.all),
                refreshes: sum.refreshes.plus(own.refreshes),
                vectors: sum.vectors + own.vectors,
            }
        })
    }

    /// Phases that take time, the first in the order of the pass.
    pub(super) fn phases(&self) -> impl Iterator<Item = (Phase, PhaseSum)> + '_ {
        Phase::ALL.into_iter().map(|phase| (phase, self.of(phase))).filter(|(_, sum)| sum.all.seconds > 0.0)
    }

    fn add(&mut self, phase: Phase, (all, refreshes, vectors): (Reading, Reading, usize)) {
        let own = &mut self.phases[phase as usize];
        *own = PhaseSum {
            all: own.all.plus(all),
            refreshes: own.refreshes.plus(refreshes),
            vectors: own.vectors + vectors,
        };
    }
}

/// An evaluator that adds up what its bootstraps take.
struct Metered<'a, M> {
    pass_evaluator: &'a M,
    meter: &'a Meter<'a>,
    refreshes: Mutex<(Reading, usize)>,
}

impl<M: PassEvaluator> Metered<'_, M> {
    fn metered(&self, work: impl FnOnce() -> Result<Vec<M::Vector>, CkksError>) -> Result<Vec<M::Vector>, CkksError> {
        let before = (self.meter)();
        let fresh = work()?;
        let own = (self.meter)().since(before);
        let mut refreshes = self.refreshes.lock().unwrap_or_else(PoisonError::into_inner);
        *refreshes = (refreshes.0.plus(own), refreshes.1 + fresh.len());
        Ok(fresh)
    }

    /// What bootstraps took since the last call.
    fn take(&self) -> (Reading, usize) {
        std::mem::take(&mut *self.refreshes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<M: PassEvaluator> PassEvaluator for Metered<'_, M> {
    type Vector = M::Vector;
    type Arithmetic = M::Arithmetic;

    fn arithmetic(&self) -> &M::Arithmetic {
        self.pass_evaluator.arithmetic()
    }

    fn bootstrap(&self) -> &unspoken_ckks::Bootstrap {
        self.pass_evaluator.bootstrap()
    }

    fn refresh(&self, inputs: &[&M::Vector]) -> Result<Vec<M::Vector>, CkksError> {
        self.metered(|| self.pass_evaluator.refresh(inputs))
    }

    fn refresh_product(
        &self,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&M::Vector],
    ) -> Result<Vec<M::Vector>, CkksError> {
        self.metered(|| self.pass_evaluator.refresh_product(matrix, parts, inputs))
    }

    fn coefficients(&self, parts: &[&M::Vector]) -> Result<M::Vector, CkksError> {
        self.pass_evaluator.coefficients(parts)
    }

    fn product(
        &self,
        matrix: &CoefficientMatrix,
        parts_and_scale: (usize, f64),
        lowest: &[M::Vector],
    ) -> Result<Vec<M::Vector>, CkksError> {
        self.metered(|| self.pass_evaluator.product(matrix, parts_and_scale, lowest))
    }

    fn processes(&self) -> usize {
        self.pass_evaluator.processes()
    }

    fn spread(
        &self,
        place: &unspoken_encrypted_llama::PassPlace<'_>,
        parts: Vec<Part<M::Vector>>,
    ) -> Result<Vec<Vec<M::Vector>>, PassError> {
        self.pass_evaluator.spread(place, parts)
    }
}

/// A session after public tokens.
pub(super) struct PassPlace<'a, V> {
    pub(super) public: &'a KvCache,
    pub(super) session: &'a mut Session<V>,
    /// Whether the pass begins a new chunk.
    pub(super) next: bool,
    /// Chunks for which the session has room.
    pub(super) chunks: usize,
}

/// Runs a pass. Returns its results, and what each phase took.
pub(super) fn run<M>(
    pass_evaluator: &M,
    program: &PassProgram,
    place: PassPlace<'_, M::Vector>,
    input: Vec<M::Vector>,
    meter: &Meter<'_>,
) -> anyhow::Result<(Vec<M::Vector>, PassReport)>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    let metered = Metered { pass_evaluator, meter, refreshes: Mutex::default() };
    let mut report = PassReport::default();
    let mut last = meter();
    let PassPlace { public, session, next, chunks } = place;
    let pass = PassArithmetic::new(&metered, program, public, session, (next, chunks))?;
    let now = meter();
    report.add(Phase::Earlier, (now.since(last), Reading::default(), 0));
    last = now;
    let mut watch = |place: Place, _: usize| {
        let now = meter();
        let (refreshes, vectors) = metered.take();
        report.add(Phase::of(place), (now.since(last), refreshes, vectors));
        last = now;
    };
    let mut pass = pass.with_watch(&mut watch);
    let results = pass.run(input)?;
    drop(pass);
    Ok((results, report))
}

/// The passes of a session without values.
pub(super) struct Counted {
    /// What each takes.
    pub(super) passes: Vec<PassReport>,
    /// What they need.
    pub(super) requirements: Requirements,
}

/// Runs the passes of `chunks` chunks after public tokens without values, with the seconds that a model predicts.
pub(super) fn count(
    program: &PassProgram,
    encoder: &Encoder,
    (public, chunks): (&KvCache, usize),
    model: CostModel,
) -> anyhow::Result<Counted> {
    let simulator = Simulator::counting(encoder);
    let meter = counter(&simulator, model);
    let pass_evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
    let (mut session, mut passes) = (program.session(), Vec::with_capacity(chunks));
    for _ in 0..chunks {
        let place = PassPlace { public, session: &mut session, next: true, chunks };
        passes.push(run(&pass_evaluator, program, place, program.input_without_values(&simulator)?, &meter)?.1);
    }
    Ok(Counted { passes, requirements: program.requirements(encoder, public.len(), chunks)? })
}
