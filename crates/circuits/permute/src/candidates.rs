//! The plans of all strategies for a task, with their costs.

use std::collections::BTreeSet;
use std::rc::Rc;

use unspoken_ckks::{CkksParameters, CostModel, Encoder};

use crate::benes::{collapsed_levels, levels};
use crate::copies::Copies;
use crate::copies_choice::{Choice, LayerSearch, Structure};
use crate::copies_route::route;
use crate::diagonals::{Diagonals, Packing, Shifts};
use crate::error::PermuteError;
use crate::estimate::{Estimate, estimate_with};
use crate::factors::to_depth;
use crate::groups::{GiantKeys, Groups, shifted};
use crate::network::Network;
use crate::permutation::Permutation;
use crate::plan::{PermutationPlan, Strategy};
use crate::prices::Prices;
use crate::search::{Halving, ideal_factors};
use crate::stage_options::{BABIES, MAX_BABIES, StageOption, StageOptions};
use crate::task::PermutationTask;
use crate::windows::Windows;

/// A plan with its cost.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The plan.
    pub plan: PermutationPlan,
    /// Its cost.
    pub estimate: Estimate,
    /// Predicted seconds.
    pub seconds: f64,
}

/// Maximum number of collapsed first steps, and of collapsed last steps, of a network.
const MAX_COLLAPSED: usize = 5;

/// Maximum number of masks of a network. A network with more is dropped, and the search for networks ends: the
/// distances are too regular for this strategy.
const MAX_NETWORK_MASKS: usize = 1 << 11;

/// Key budgets to try for Benes networks, in multiples of `log2` of the length.
const KEY_BUDGETS: [usize; 4] = [1, 2, 4, 16];

/// Maximum number of layers of a network over several copies.
const MAX_LAYERS: usize = 9;

/// Bits by which the number of paths through several copies is increased, in the order of the attempts to route them.
const MORE_PATHS: [f64; 2] = [0.0, 1.0];

/// Networks over several copies predicted to take more than this many times as long as the best one are not routed.
const MAX_OVER_BEST: f64 = 1.25;

/// Which plans are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The plans of diagonals and of ideal factors.
    Structured,
    /// All plans of stages.
    Stages,
    /// The plans of all strategies.
    All,
}

/// The candidates of a task, with their costs.
///
/// # Errors
/// If the construction of a candidate fails, which a valid permutation rules out.
pub(crate) fn candidates(
    task: &PermutationTask<'_>,
    scope: Scope,
    parameters: &CkksParameters,
    model: &CostModel,
) -> Result<Vec<Candidate>, PermuteError> {
    let permutation = task.permutation.padded(task.permutation.len().next_power_of_two())?;
    let mut builder = CandidateBuilder::new(task, parameters, model, &permutation)?;
    builder.structured()?;
    if scope != Scope::Structured && !permutation.is_identity() {
        let mut groups = builder.groups();
        builder.collapsed_networks(&mut groups)?;
        if scope == Scope::All {
            builder.copies(&mut groups)?;
            builder.networks()?;
        }
    }
    Ok(builder.candidates)
}

/// Collects the plans of a task with their costs.
struct CandidateBuilder<'a> {
    task: &'a PermutationTask<'a>,
    parameters: &'a CkksParameters,
    prices: Rc<Prices<'a>>,
    /// The encoder of the simulators that count operations.
    encoder: Encoder,
    model: &'a CostModel,
    length: usize,
    permutation: &'a Permutation,
    candidates: Vec<Candidate>,
}

impl<'a> CandidateBuilder<'a> {
    /// `permutation` is the task's permutation, padded to a power of two.
    fn new(
        task: &'a PermutationTask<'a>,
        parameters: &'a CkksParameters,
        model: &'a CostModel,
        permutation: &'a Permutation,
    ) -> Result<Self, PermuteError> {
        Ok(CandidateBuilder {
            task,
            parameters,
            prices: Rc::new(Prices::new(parameters, permutation.len(), model)?),
            encoder: Encoder::new(parameters),
            model,
            length: permutation.len(),
            permutation,
            candidates: Vec::new(),
        })
    }

    /// Adds the plan of the identity, or the plans of diagonals and of ideal factors.
    fn structured(&mut self) -> Result<(), PermuteError> {
        if self.permutation.is_identity() {
            return self.add(PermutationPlan::stages(Strategy::Identity, self.task.packing, self.length, vec![])?);
        }
        self.stages(Strategy::Diagonals, std::slice::from_ref(self.permutation))?;
        self.factors()
    }

    /// The search for groups of bits.
    fn groups(&self) -> Groups<'a> {
        let size = (self.parameters.slots(), self.length.ilog2() as usize);
        Groups::new(Rc::clone(&self.prices), size, self.task.packing, self.task.output_level)
    }

    /// Number of levels of the parameters above the output level.
    fn levels(&self) -> usize {
        self.parameters.max_level().saturating_sub(self.task.output_level)
    }

    /// Adds a plan if the parameters have enough levels for it.
    fn add(&mut self, plan: PermutationPlan) -> Result<(), PermuteError> {
        if plan.depth() <= self.levels() {
            let estimate = estimate_with(&self.encoder, &plan, self.task.output_level)?;
            let seconds = estimate.seconds(self.model);
            self.candidates.push(Candidate { plan, estimate, seconds });
        }
        Ok(())
    }

    /// Adds the plans of these factors, with baby steps up to each limit.
    fn stages(&mut self, strategy: Strategy, factors: &[Permutation]) -> Result<(), PermuteError> {
        let factors: Vec<&Permutation> = factors.iter().filter(|factor| !factor.is_identity()).collect();
        if factors.len() > self.levels() {
            return Ok(());
        }
        let level = |number: usize| self.task.output_level + factors.len() - number;
        let readings = self.task.packing.shifts();
        let options = factors.iter().enumerate().map(|(number, factor)| self.options(factor, readings, level(number)));
        let options: Vec<StageOptions> = options.collect::<Result<_, _>>()?;
        let mut last: Option<Vec<usize>> = None;
        for limit in BABIES.into_iter().chain([MAX_BABIES]) {
            let chosen = options.iter().map(|options| options.cheapest(limit));
            let chosen: Vec<StageOption> = chosen.collect::<Result<_, _>>()?;
            let babies = chosen.iter().map(|option| option.babies).collect();
            if last.as_ref() != Some(&babies) {
                let stages = factors.iter().zip(&chosen).map(|(factor, option)| option.stage(factor)).collect();
                self.add(PermutationPlan::stages(strategy, self.task.packing, self.length, stages)?)?;
            }
            last = Some(babies);
        }
        Ok(())
    }

    /// The options for a factor as a stage at `level`.
    fn options(&self, factor: &Permutation, readings: &[Shifts], level: usize) -> Result<StageOptions, PermuteError> {
        Ok(StageOptions::new(factor, readings, (level, self.parameters.slots()), &self.prices)?)
    }

    /// Adds plans of known factors and of ideal factors found by search, merged to every depth.
    fn factors(&mut self) -> Result<(), PermuteError> {
        let mut chains: Vec<Vec<Permutation>> = Vec::new();
        if !self.task.factors.is_empty() {
            let padded = self.task.factors.iter().map(|factor| factor.padded(self.length));
            chains.push(padded.collect::<Result<_, _>>()?);
        }
        for &shifts in self.task.packing.shifts() {
            let difference = Diagonals::new(self.permutation, shifts).progression().difference;
            for halving in [Halving::Exact, Halving::Up] {
                let found = ideal_factors(self.permutation, shifts, difference, halving);
                if !chains.contains(&found) {
                    chains.push(found);
                }
            }
        }
        for chain in chains {
            for depth in 2..=chain.len() {
                self.stages(Strategy::Factors, &to_depth(&chain, depth)?)?;
            }
        }
        Ok(())
    }

    /// The key budgets to try: the limit of the task, and multiples of the bits of the length.
    fn budgets(&self) -> Vec<usize> {
        let bits = self.length.ilog2() as usize;
        let multiples = KEY_BUDGETS.into_iter().map(|multiple| multiple * bits);
        let budgets: BTreeSet<usize> = multiples.chain(self.task.max_keys).filter(|&keys| keys > 0).collect();
        budgets.into_iter().collect()
    }

    /// Adds collapsed Benes networks of every depth for each key budget: published ones, also with a key for each giant
    /// step, and windowed ones.
    fn collapsed_networks(&mut self, groups: &mut Groups<'_>) -> Result<(), PermuteError> {
        let budgets = self.budgets();
        let deepest = (self.length.ilog2() as usize).min(self.levels().div_ceil(2));
        let repeated = self.task.packing == Packing::Repeated;
        let mut routes =
            Routes { levels: levels(self.permutation)?, windows: Windows::new(self.permutation, repeated) };
        for outer in 2..=deepest {
            for (strategy, giant_keys) in [
                (Strategy::Benes, GiantKeys::Shared),
                (Strategy::Benes, GiantKeys::Separate),
                (Strategy::Windowed, GiantKeys::Shared),
            ] {
                let windows = strategy == Strategy::Windowed;
                // Shifted stages end with one more rotation, which needs a key.
                let undone = usize::from(windows && repeated);
                let budgets: Vec<usize> = budgets.iter().map(|budget| budget - undone).collect();
                for choice in groups.choose(outer, &budgets, windows, giant_keys)? {
                    self.collapsed_network(&mut routes, strategy, &choice)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a collapsed Benes network with these groups of bits and limits of baby steps.
    fn collapsed_network(
        &mut self,
        routes: &mut Routes<'_>,
        strategy: Strategy,
        choice: &[(u32, usize)],
    ) -> Result<(), PermuteError> {
        let bits: Vec<u32> = choice.iter().map(|&(bits, _)| bits).collect();
        let repeated = self.task.packing == Packing::Repeated;
        let mut factors = match strategy {
            Strategy::Windowed => routes.windows.factors(&bits)?,
            _ => collapsed_levels(&routes.levels, &bits)?,
        };
        let count = factors.len();
        let mut readings = self.task.packing.shifts();
        if strategy == Strategy::Windowed && repeated {
            factors = shifted(&factors, self.length >> bits[0])?;
            readings = &[Shifts::Forward];
        }
        let mut stages = Vec::with_capacity(factors.len());
        let mut level = self.task.output_level + count;
        for (number, factor) in factors.iter().enumerate() {
            let (_, limit) = choice[number.min((count - 1).saturating_sub(number)).min(choice.len() - 1)];
            if !factor.is_identity() {
                stages.push(self.options(factor, readings, level)?.cheapest(limit)?.stage(factor));
            }
            level = level.saturating_sub(1).max(self.task.output_level);
        }
        self.add(PermutationPlan::stages(strategy, self.task.packing, self.length, stages)?)
    }

    /// Adds networks over several copies, of every depth, for each key budget.
    fn copies(&mut self, groups: &mut Groups<'a>) -> Result<(), PermuteError> {
        if self.task.packing != Packing::Repeated {
            return Ok(());
        }
        let budgets = self.budgets();
        let (parameters, model, length) = (self.parameters, self.model, self.length);
        let output_level = self.task.output_level;
        let mut search = LayerSearch::new(parameters, model, groups, length, output_level);
        let levels = self.levels().min(self.task.input_level.saturating_sub(output_level));
        // For each budget, the cheapest layers of each depth.
        let mut choices: Vec<Vec<Choice>> = vec![Vec::new(); budgets.len()];
        for depth in 1..=levels.min(MAX_LAYERS) {
            // What takes longer is not routed.
            let mut limits: Vec<f64> = choices.iter().map(|choices| most_seconds(choices)).collect();
            let mut best: Vec<Option<Choice>> = vec![None; budgets.len()];
            for structure in Structure::of_depth(depth, length, parameters.slots()) {
                let found = search.choose(structure, &budgets, &limits)?;
                for ((best, limit), choice) in best.iter_mut().zip(&mut limits).zip(found) {
                    let Some(choice) = choice else { continue };
                    if best.as_ref().is_none_or(|best| choice.seconds < best.seconds) {
                        *limit = limit.min(choice.seconds);
                        *best = Some(choice);
                    }
                }
            }
            choices.iter_mut().zip(best).for_each(|(choices, best)| choices.extend(best));
        }
        let mut tried: Vec<Choice> = Vec::new();
        for (mut choices, budget) in choices.into_iter().zip(budgets) {
            choices.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let most = most_seconds(&choices);
            for choice in choices.into_iter().take_while(|choice| choice.seconds <= most) {
                if tried.contains(&choice) {
                    continue;
                }
                let network = routed(&mut search, self.permutation, &choice, budget)?;
                if let Some(network) = network {
                    self.add(PermutationPlan::of_copies(length, network))?;
                }
                tried.push(choice);
            }
        }
        Ok(())
    }

    /// Adds multi-group networks with collapsed first and last steps, and with few or many keys for the first steps.
    fn networks(&mut self) -> Result<(), PermuteError> {
        let steps = Network::step_count(self.permutation, self.task.packing);
        for top in 0..=MAX_COLLAPSED.min(steps) {
            for bottom in 0..=MAX_COLLAPSED.min(steps - top) {
                let Ok(mut network) = Network::new(self.permutation, self.task.packing, top, bottom) else { continue };
                if network.masks() > MAX_NETWORK_MASKS {
                    return Ok(());
                }
                for together in BTreeSet::from([1, 2.min(top.max(1)), top.max(1)]) {
                    network.together = together;
                    self.add(PermutationPlan::of_network(self.task.packing, self.length, network.clone()))?;
                }
            }
        }
        Ok(())
    }
}

/// What the collapsed networks of a permutation have in common.
struct Routes<'a> {
    /// The levels of its Benes network.
    levels: Vec<Permutation>,
    windows: Windows<'a>,
}

/// The time up to which layers are routed, given the choices of some depths.
fn most_seconds(choices: &[Choice]) -> f64 {
    choices.iter().map(|choice| MAX_OVER_BEST * choice.seconds).fold(f64::INFINITY, f64::min)
}

/// The network of a permutation through these layers; if there are too few paths, through layers with more.
fn routed(
    search: &mut LayerSearch<'_, '_>,
    permutation: &Permutation,
    choice: &Choice,
    budget: usize,
) -> Result<Option<Copies>, PermuteError> {
    for bits in MORE_PATHS {
        let structure = choice.structure.with_more_paths(bits);
        let Some(choice) = search.choose(structure, &[budget], &[f64::INFINITY])?.pop().flatten() else { break };
        if let Some(network) = route(permutation, structure.copies, &choice.shapes) {
            return Ok(Some(network));
        }
    }
    Ok(None)
}
