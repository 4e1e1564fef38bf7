//! Places of bootstraps: the steps of a pass as segments for `unspoken_placement`, with the costs that a
//! simulator without values counts.
//!
//! `place` runs the pass once without values, counts what each step costs, and finds the cheapest levels and bootstraps
//! (`unspoken_placement`). Only values that a bootstrap resolves are bootstrapped: factors of norms and of
//! softmax exceed 1 and are not. Two vectors share the linear maps of a bootstrap.
//!
//! `Dimensions` does the same for a model without weights, whose polynomials have given degrees (`unspoken llama plan
//! --shape`): matrices and public tokens have no values then, and of more than four layers, which are alike, one in
//! the middle is counted. Tests compare this with programs that have weights: steps, levels, key switches and memory
//! are the same.
//!
//! For stories260K with 16 tokens to a chunk and `n16_boot_depth15_scale40` a layer has 5 or 6 bootstraps, depending on
//! the degrees of its polynomials.

use std::collections::HashMap;

use unspoken_ckks::{CkksError, CkksParameters, Cost, CostModel, Encoder, Simulated, Simulator};
use unspoken_llama::Quantity;
use unspoken_placement::{Ladder, Landing, Segment, Step as PlacedStep, Way, chain};

use crate::arithmetic::{Method, PassArithmetic, Step};
use crate::error::PassError;
use crate::evaluator::{PassEvaluator, SimulatedEvaluator};
use crate::layout::{Blocks, Columns};
use crate::ops::Context;
use crate::program::PassProgram;
use crate::public::Public;
use crate::session::Session;

/// A pass with its bootstraps placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Predicted seconds.
    pub seconds: f64,
    /// Predicted seconds if inputs were bootstrapped only when a step has too few levels.
    pub greedy_seconds: f64,
}

impl PassProgram {
    /// Decides, for all passes after `public` tokens, which vectors are bootstrapped before which step, at which level
    /// each step works, and which linear maps run between the halves of a bootstrap: a shortest path under the cost
    /// model.
    ///
    /// # Errors
    /// If the parameters have too few levels for a step.
    pub fn place(&mut self, encoder: &Encoder, public: usize, model: &CostModel) -> Result<Placed, PassError> {
        self.placement = None;
        let prices = Prices::new(self, encoder, public, model)?;
        let counted = prices.pass(&mut self.session(), 1)?;
        let greedy_seconds = counted.iter().map(|counted| counted.own + counted.refreshed).sum();
        let (steps, seconds): (Vec<Step>, Vec<f64>) =
            counted.into_iter().map(|counted| (counted.step, counted.own)).unzip();
        let ends = |step: &Step| step.place.quantity == Quantity::Residual;
        let (mut segments, mut begin, mut residual) = (Vec::new(), 0, 0);
        for end in (0..steps.len()).filter(|&number| ends(&steps[number]) || number + 1 == steps.len()) {
            segments.push(prices.segment(&steps[begin..=end], &seconds[begin..=end], residual)?);
            residual = steps[end].outputs[0];
            begin = end + 1;
        }
        let order: Vec<usize> = (0..segments.len()).collect();
        let top = self.bootstrap.output_level();
        let place = steps[0].place;
        let needed = self.bootstrap.input_level();
        let found = chain(&segments, &order, top).filter(|(seconds, _)| seconds.is_finite());
        let (best, paths) = found.ok_or(PassError::Levels { place, found: top - needed, needed: top })?;
        self.forget_transforms();
        self.placement = Some(paths.into_iter().flat_map(|path| path.moves).collect());
        Ok(Placed { seconds: best, greedy_seconds })
    }
}

/// Seconds on a grid on which all sums of a placement are exact: layers that are alike tie in the same way.
fn on_grid(seconds: f64) -> f64 {
    const STEPS: f64 = (1u64 << 30) as f64;
    (seconds * STEPS).round() / STEPS
}

/// Part of a bootstrap's time that a step may cost more where its results are higher.
const TOLERANCE: f64 = 1.0 / 256.0;

/// A step of a pass without values.
pub(crate) struct CountedStep {
    pub(crate) step: Step,
    /// Seconds of the step itself.
    pub(crate) own: f64,
    /// Seconds of the bootstraps before it.
    pub(crate) refreshed: f64,
    /// Key switches of both.
    pub(crate) key_switches: u64,
}

/// What steps cost.
pub(crate) struct Prices<'a> {
    program: &'a PassProgram,
    encoder: &'a Encoder,
    public: usize,
    model: &'a CostModel,
    /// Seconds of a bootstrap of one vector, and of two together.
    refresh: [f64; 2],
    /// Seconds of a key switch at each level.
    by_level: Vec<f64>,
}

impl<'a> Prices<'a> {
    pub(crate) fn new(
        program: &'a PassProgram,
        encoder: &'a Encoder,
        public: usize,
        model: &'a CostModel,
    ) -> Result<Self, PassError> {
        let parameters = encoder.parameters();
        let switch = |level: usize| {
            let basis = parameters.basis(level);
            model.seconds(&Cost::key_switch(parameters.ring(), basis, basis))
        };
        let by_level = (0..=parameters.circuit_level()).map(switch).collect();
        let mut prices = Prices { program, encoder, public, model, refresh: [0.0; 2], by_level };
        prices.refresh = [on_grid(prices.refreshing(1)?), on_grid(prices.refreshing(2)?)];
        Ok(prices)
    }

    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    /// Seconds that `work` takes on vectors at `level`.
    fn counted<E>(
        &self,
        (count, level): (usize, usize),
        work: impl FnOnce(&SimulatedEvaluator<'_>, &[Simulated]) -> Result<(), E>,
    ) -> Result<f64, PassError>
    where
        PassError: From<E>,
    {
        let simulator = Simulator::counting(self.encoder);
        let scale = self.parameters().scale();
        let inputs = (0..count).map(|_| simulator.encrypt(&[], level, scale)).collect::<Result<Vec<_>, _>>()?;
        let evaluator = self.evaluator(&simulator);
        work(&evaluator, &inputs)?;
        Ok(self.model.seconds(&simulator.cost()))
    }

    fn evaluator<'s>(&'s self, simulator: &'s Simulator) -> SimulatedEvaluator<'s> {
        SimulatedEvaluator::new(simulator, &self.program.bootstrap)
    }

    fn refreshing(&self, count: usize) -> Result<f64, PassError> {
        let level = self.program.bootstrap.input_level();
        self.counted((count, level), |evaluator, inputs| -> Result<(), CkksError> {
            evaluator.refresh(&inputs.iter().collect::<Vec<_>>())?;
            Ok(())
        })
    }

    /// Seconds of a bootstrap of several vectors: two at a time.
    fn refreshes(&self, vectors: usize) -> f64 {
        (vectors / 2) as f64 * self.refresh[1] + (vectors % 2) as f64 * self.refresh[0]
    }

    /// Counts the pass of the next chunk of a session with room for `chunks` chunks. Without a placement, inputs are
    /// bootstrapped when a step has too few levels.
    pub(crate) fn pass(&self, session: &mut Session<Simulated>, chunks: usize) -> Result<Vec<CountedStep>, PassError> {
        let program = self.program;
        let simulator = Simulator::counting(self.encoder);
        let evaluator = self.evaluator(&simulator);
        let read = || {
            let cost = simulator.cost();
            (self.model.seconds(&cost), cost.total_key_switches())
        };
        let mut readings = Vec::new();
        let mut watch = |_, _| readings.push(read());
        let pass = PassArithmetic::new(&evaluator, program, Public::counted(self.public), session, (true, chunks))?;
        let mut before = read();
        let mut pass = pass.with_watch(&mut watch);
        pass.run(program.input_without_values(&simulator)?)?;
        let steps = pass.into_steps();
        let (mut counted, mut next) = (Vec::with_capacity(steps.len()), 0);
        for step in steps {
            next += step.outputs.len();
            let refreshed = step.choice.refreshed.iter().zip(&step.vectors);
            let refreshed = refreshed.filter(|(refreshed, _)| **refreshed).map(|(_, count)| self.refreshes(*count));
            let refreshed: f64 = refreshed.sum();
            let after = readings[next - 1];
            let own = on_grid((after.0 - before.0 - refreshed).max(0.0));
            let key_switches = after.1 - before.1;
            counted.push(CountedStep { step, own, refreshed, key_switches });
            before = after;
        }
        Ok(counted)
    }

    /// The problem of a layer, or of the head: steps from tensor `input` on.
    fn segment(&self, steps: &[Step], seconds: &[f64], input: usize) -> Result<Segment, PassError> {
        let (entry, top) = (self.program.bootstrap.input_level(), self.program.bootstrap.output_level());
        let mut numbers = HashMap::from([(input, 0)]);
        let mut can_refresh = vec![true];
        // Tensors that are bootstrapped have the vectors that a step takes of them.
        let mut refresh = vec![f64::INFINITY];
        let mut placed = Vec::new();
        for (step, seconds) in steps.iter().zip(seconds) {
            for (tensor, count) in step.inputs.iter().zip(&step.vectors) {
                if can_refresh[numbers[tensor]] {
                    refresh[numbers[tensor]] = self.refreshes(*count);
                }
            }
            for tensor in &step.outputs {
                numbers.insert(*tensor, refresh.len());
                refresh.push(f64::INFINITY);
                can_refresh.push(self.program.units.can_refresh(step.place));
            }
            let ways = (0..step.methods.len()).map(|way| self.way(step, way, *seconds, (entry, top)));
            let of = |tensors: &[usize]| tensors.iter().map(|tensor| numbers[tensor]).collect();
            let (inputs, outputs) = (of(&step.inputs), of(&step.outputs));
            placed.push(PlacedStep { inputs, outputs, ways: ways.collect::<Result<_, _>>()? });
        }
        let output = steps.last().map_or(0, |step| numbers[&step.outputs[0]]);
        let tolerance = on_grid(TOLERANCE * self.refresh[0]);
        Ok(Segment { ladder: Ladder { entry, top }, refresh, steps: placed, tolerance, input: 0, output })
    }

    /// A way of a step whose chosen way takes `own` seconds at its level.
    fn way(&self, step: &Step, way: usize, own: f64, (entry, top): (usize, usize)) -> Result<Way, PassError> {
        let (level, own) = match (way == step.choice.way, step.methods[way]) {
            (true, _) => (step.choice.level, own),
            (false, Method::Coefficients(_)) => (entry, self.linear(step, entry)?),
            (false, _) => (top, self.linear(step, top)?),
        };
        // Rows are one level below the cache, which is the input after the tensors with vectors.
        let above: Vec<usize> = (0..step.inputs.len()).map(|input| usize::from(input >= step.vectors.len())).collect();
        let every = |seconds: &dyn Fn(usize) -> f64| (0..=top).map(|level| on_grid(seconds(level))).collect();
        // Levels below the entry of bootstraps have other moduli than levels of circuits: scales grow there. One
        // product fits, of logits.
        let floor = if PassProgram::is_last(step.place) { 0 } else { entry };
        let spending = |spent: usize| {
            let seconds = every(&|at| own * self.by_level[at] / self.by_level[level]);
            Way { least: spent + floor, above: above.clone(), landing: Landing::Below(spent), seconds }
        };
        Ok(match step.methods[way] {
            Method::Slots(spent) => spending(spent),
            Method::Cache => spending(1),
            Method::Coefficients(spent) => {
                Way { least: entry, above, landing: Landing::At(top - spent), seconds: every(&|_| own) }
            }
        })
    }

    /// Seconds of linear maps in the way that the greedy pass does not take: on coefficients at the entry of
    /// bootstraps, on slots above.
    fn linear(&self, step: &Step, level: usize) -> Result<f64, PassError> {
        let columns = Columns::new(&self.program.layout, self.public, 1);
        self.counted((step.vectors[0], level), |evaluator, inputs| -> Result<(), PassError> {
            let (public, blocks) = (Public::counted(self.public), Blocks::all(&self.program.layout));
            let context = Context { evaluator, program: self.program, public, columns, chunk: 0, blocks };
            match level == self.program.bootstrap.input_level() {
                true => context.linear_on_coefficients(inputs, &step.places)?,
                false => context.linear_on_slots(inputs, &step.places)?,
            };
            Ok(())
        })
    }
}
