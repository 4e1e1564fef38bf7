//! The planner: all plans for a permutation, their costs, and the cheapest allowed plan.

use std::collections::BTreeSet;

use unspoken_ckks::{CkksParameters, Complex64, CostModel, Encoder, Steps};

use crate::benes::{collapsed_levels, levels};
use crate::copies::Copies;
use crate::copies_choice::{Choice, LayerSearch, Structure};
use crate::copies_route::route;
use crate::diagonals::{Diagonals, Packing, Shifts};
use crate::error::{PermuteError, shape, wrong};
use crate::estimate::{Estimate, estimate_with};
use crate::explain::{Explanation, Row, Verdict};
use crate::factors::to_depth;
use crate::groups::{GiantKeys, Groups, shifted};
use crate::network::Network;
use crate::permutation::Permutation;
use crate::plan::{Plan, Stage, Strategy};
use crate::prepared::linear_plan;
use crate::search::{Halving, ideal_factors};
use crate::windows::Windows;

/// A planning task: the permutation, the packing, the levels and the limits.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The permutation. It is padded to a power of two with entries that stay.
    pub permutation: &'a Permutation,
    /// Known factors of the permutation, in the order they are applied; may be empty. The planner searches for factors
    /// in either case.
    pub factors: &'a [Permutation],
    /// Placement of vectors in the slots.
    pub packing: Packing,
    /// The level of the result, the same for all plans: a deeper plan runs its first steps over more primes.
    pub output_level: usize,
    /// The level of the input.
    pub input_level: usize,
    /// Maximum number of rotation keys, if there is a limit.
    pub max_keys: Option<usize>,
    /// Maximum number of bytes of prepared masks.
    pub max_prepared_bytes: u64,
}

/// A plan with its cost.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The plan.
    pub plan: Plan,
    /// Its cost.
    pub estimate: Estimate,
    /// Predicted seconds.
    pub seconds: f64,
}

/// Limits of baby steps to try. Each stage uses the cheapest number up to the limit.
const BABIES: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64];

/// Maximum number of baby steps: beyond it, keys cost more than giant steps.
const MAX_BABIES: usize = 512;

/// Number of diagonals beyond which small numbers of baby steps are not tried, because they are never cheapest.
const MANY_DIAGONALS: usize = 1 << 11;

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
const MOST_OVER_BEST: f64 = 1.25;

impl<'a> Task<'a> {
    /// A task from the highest level down to `output_level`, with any number of keys and up to 4 GiB of masks.
    pub fn new(
        permutation: &'a Permutation,
        packing: Packing,
        parameters: &CkksParameters,
        output_level: usize,
    ) -> Self {
        Task {
            permutation,
            factors: &[],
            packing,
            output_level,
            input_level: parameters.circuit_level(),
            max_keys: None,
            max_prepared_bytes: 4 << 30,
        }
    }

    /// All plans with their costs and verdicts, including the cheapest allowed plan.
    ///
    /// # Errors
    /// If the construction of a candidate fails, which a valid permutation rules out.
    pub fn explain(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Explanation, PermuteError> {
        Ok(self.explained(self.candidates(parameters, model)?))
    }

    /// As [`Task::explain`], with the plans of stages alone ([`Program::Stages`](crate::Program::Stages)): for callers
    /// that run no others, whose search takes most of the time.
    ///
    /// # Errors
    /// Same as [`Task::explain`].
    pub fn explain_stages(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Explanation, PermuteError> {
        let permutation = self.permutation.padded(self.permutation.len().next_power_of_two())?;
        let mut builder = CandidateBuilder::new(self, parameters, model, &permutation);
        builder.all_of_stages()?;
        Ok(self.explained(builder.candidates))
    }

    fn explained(&self, candidates: Vec<Candidate>) -> Explanation {
        let rows = candidates.into_iter().map(|candidate| {
            let verdict = self.verdict(&candidate);
            Row { candidate, verdict }
        });
        Explanation::new(self.input_level, self.output_level, rows.collect())
    }

    /// The cheapest allowed plan of diagonals or ideal factors, if it has at most `2 log2` of the length rotations. A
    /// network for any permutation has more, so there is no need to search for one, which takes most of the time of
    /// [`Task::explain`].
    ///
    /// # Errors
    /// If the construction of a candidate fails, which a valid permutation rules out.
    pub fn structured(
        &self,
        parameters: &CkksParameters,
        model: &CostModel,
    ) -> Result<Option<Candidate>, PermuteError> {
        let permutation = self.permutation.padded(self.permutation.len().next_power_of_two())?;
        let mut builder = CandidateBuilder::new(self, parameters, model, &permutation);
        builder.structured()?;
        let most = 2 * u64::from(permutation.len().ilog2());
        let few = |candidate: &Candidate| candidate.estimate.total_rotations().iter().sum::<u64>() <= most;
        let allowed = builder.candidates.into_iter().filter(|candidate| self.verdict(candidate) == Verdict::Allowed);
        Ok(allowed.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).filter(few))
    }

    /// The cheapest allowed plan. One of [`Task::structured`] is taken without a search for networks.
    ///
    /// # Errors
    /// If no plan is allowed: the error says what is missing.
    pub fn plan(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Candidate, PermuteError> {
        match self.structured(parameters, model)? {
            Some(candidate) => Ok(candidate),
            None => self.explain(parameters, model)?.into_best().and_then(|chosen| self.checked(chosen)),
        }
    }

    /// The chosen plan, after one run in the clear. The search checks none of the many that it makes.
    fn checked(&self, chosen: Candidate) -> Result<Candidate, PermuteError> {
        let wanted = self.permutation.padded(chosen.plan.length())?;
        if chosen.plan.permutation()? == wanted {
            return Ok(chosen);
        }
        Err(wrong("the chosen plan", "another permutation", "the one that was asked for; this is a bug, report it"))
    }

    fn verdict(&self, candidate: &Candidate) -> Verdict {
        let Estimate { depth, keys, prepared_bytes, .. } = &candidate.estimate;
        let limit = self.max_keys.unwrap_or(usize::MAX);
        if self.output_level + depth > self.input_level {
            Verdict::NeedsLevel(self.output_level + depth)
        } else if keys.len() > limit {
            Verdict::NeedsKeys(keys.len())
        } else if *prepared_bytes > self.max_prepared_bytes {
            Verdict::NeedsPreparedBytes(*prepared_bytes)
        } else {
            Verdict::Allowed
        }
    }

    /// The plans of all strategies, with their costs.
    ///
    /// # Errors
    /// Same as [`Task::explain`].
    pub fn candidates(&self, parameters: &CkksParameters, model: &CostModel) -> Result<Vec<Candidate>, PermuteError> {
        let permutation = self.permutation.padded(self.permutation.len().next_power_of_two())?;
        let mut builder = CandidateBuilder::new(self, parameters, model, &permutation);
        if let Some(mut groups) = builder.all_of_stages()? {
            builder.copies(&mut groups)?;
            builder.networks()?;
        }
        Ok(builder.candidates)
    }
}

/// Collects the plans of a task with their costs.
struct CandidateBuilder<'a> {
    task: &'a Task<'a>,
    parameters: &'a CkksParameters,
    /// The encoder of the simulators that count operations.
    encoder: Encoder,
    model: &'a CostModel,
    length: usize,
    permutation: &'a Permutation,
    candidates: Vec<Candidate>,
}

impl<'a> CandidateBuilder<'a> {
    /// `permutation` is that of the task, padded to a power of two.
    fn new(
        task: &'a Task<'a>,
        parameters: &'a CkksParameters,
        model: &'a CostModel,
        permutation: &'a Permutation,
    ) -> Self {
        let encoder = Encoder::new(parameters);
        CandidateBuilder {
            task,
            parameters,
            encoder,
            model,
            length: permutation.len(),
            permutation,
            candidates: Vec::new(),
        }
    }

    /// Adds the plan of the identity, or those of diagonals and of ideal factors.
    fn structured(&mut self) -> Result<(), PermuteError> {
        if self.permutation.is_identity() {
            return self.add(Plan::stages(Strategy::Identity, self.task.packing, self.length, vec![])?);
        }
        self.stages(Strategy::Diagonals, std::slice::from_ref(self.permutation))?;
        self.factors()
    }

    /// Adds all plans of stages. Returns the prices of groups for the search for others, if others are possible.
    fn all_of_stages(&mut self) -> Result<Option<Groups<'a>>, PermuteError> {
        self.structured()?;
        if self.permutation.is_identity() {
            return Ok(None);
        }
        let (bits, task) = (self.length.ilog2() as usize, self.task);
        let mut groups = Groups::new(self.parameters, self.model, bits, task.packing, task.output_level);
        self.collapsed_networks(&mut groups)?;
        Ok(Some(groups))
    }

    /// Number of levels of the parameters above the output level.
    fn levels(&self) -> usize {
        self.parameters.max_level().saturating_sub(self.task.output_level)
    }

    /// Adds a plan if the parameters have enough levels for it.
    fn add(&mut self, plan: Plan) -> Result<(), PermuteError> {
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
        let options: Vec<Vec<StageChoice>> = options.collect::<Result<_, _>>()?;
        let mut last: Option<Vec<usize>> = None;
        for limit in BABIES.into_iter().chain([MAX_BABIES]) {
            let choose = |(factor, options): (&&Permutation, &Vec<StageChoice>)| cheapest(factor, options, limit);
            let stages: Vec<Stage> = factors.iter().zip(&options).map(choose).collect::<Result<_, _>>()?;
            let babies = stages.iter().map(|stage| stage.babies).collect();
            if last.as_ref() != Some(&babies) {
                self.add(Plan::stages(strategy, self.task.packing, self.length, stages)?)?;
            }
            last = Some(babies);
        }
        Ok(())
    }

    /// The allowed representations of shifts and numbers of baby steps of a factor, with their costs.
    fn options(
        &self,
        factor: &Permutation,
        readings: &[Shifts],
        level: usize,
    ) -> Result<Vec<StageChoice>, PermuteError> {
        let mut options = Vec::new();
        for &shifts in readings {
            let diagonals = Diagonals::new(factor, shifts);
            if diagonals.single().is_some() {
                return Ok(vec![StageChoice { seconds: 0.0, shifts, babies: 1 }]);
            }
            let count = diagonals.progression().count;
            let few = diagonals.len() > MANY_DIAGONALS;
            let all = Some(count).filter(|&count| count <= MAX_BABIES && !few);
            let choices = BABIES.into_iter().chain([96, 128, 192, 256, MAX_BABIES]).filter(|&babies| babies < count);
            let choices = choices.filter(|babies| !few || *babies >= 64).chain(all);
            // Only the cost of the transformation is used, so the values of the masks do not matter.
            let one = |_: &[u32]| vec![Complex64::from(1.0)];
            let linear = linear_plan(self.parameters, &diagonals, 1, (level.max(1), self.parameters.scale()), &one)?;
            for babies in choices {
                let linear = linear.clone().with_steps(Steps { babies, ..linear.steps() })?;
                options.push(StageChoice { seconds: self.model.seconds(&linear.cost()), shifts, babies });
            }
        }
        Ok(options)
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
                stages.push(cheapest(factor, &self.options(factor, readings, level)?, limit)?);
            }
            level = level.saturating_sub(1).max(self.task.output_level);
        }
        self.add(Plan::stages(strategy, self.task.packing, self.length, stages)?)
    }

    /// Adds networks over several copies, of every depth, for each key budget.
    fn copies(&mut self, groups: &mut Groups<'a>) -> Result<(), PermuteError> {
        if self.task.packing != Packing::Repeated {
            return Ok(());
        }
        let budgets = self.budgets();
        let (parameters, model, length) = (self.parameters, self.model, self.length);
        let output_level = self.task.output_level;
        let mut search = LayerSearch { parameters, model, groups, length, output_level };
        let levels = self.levels().min(self.task.input_level.saturating_sub(output_level));
        // For each budget, the cheapest layers of each depth.
        let mut choices: Vec<Vec<Choice>> = vec![Vec::new(); budgets.len()];
        for depth in 1..=levels.min(MAX_LAYERS) {
            let mut best: Vec<Option<Choice>> = vec![None; budgets.len()];
            for structure in Structure::of_depth(depth, length, parameters.slots()) {
                for (best, choice) in best.iter_mut().zip(search.choose(structure, &budgets)?) {
                    let Some(choice) = choice else { continue };
                    if best.as_ref().is_none_or(|best| choice.seconds < best.seconds) {
                        *best = Some(choice);
                    }
                }
            }
            choices.iter_mut().zip(best).for_each(|(choices, best)| choices.extend(best));
        }
        let mut tried: Vec<Choice> = Vec::new();
        for (mut choices, budget) in choices.into_iter().zip(budgets) {
            choices.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let most = choices.first().map_or(0.0, |best| MOST_OVER_BEST * best.seconds);
            for choice in choices.into_iter().take_while(|choice| choice.seconds <= most) {
                if tried.contains(&choice) {
                    continue;
                }
                let network = routed(&mut search, self.permutation, &choice, budget)?;
                if let Some(network) = network {
                    self.add(Plan::of_copies(length, network))?;
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
                    self.add(Plan::of_network(self.task.packing, self.length, network.clone()))?;
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

/// The network of a permutation through these layers; if there are too few paths, through layers with more.
fn routed(
    search: &mut LayerSearch<'_, '_>,
    permutation: &Permutation,
    choice: &Choice,
    budget: usize,
) -> Result<Option<Copies>, PermuteError> {
    for bits in MORE_PATHS {
        let structure = choice.structure.with_more_paths(bits);
        let Some(choice) = search.choose(structure, &[budget])?.pop().flatten() else { break };
        if let Some(network) = route(permutation, structure.copies, &choice.shapes) {
            return Ok(Some(network));
        }
    }
    Ok(None)
}

/// An option for a stage: a representation of shifts and a number of baby steps, with the predicted seconds.
struct StageChoice {
    seconds: f64,
    shifts: Shifts,
    babies: usize,
}

/// The cheapest option with at most `limit` baby steps, or the one with the fewest baby steps if there is none.
fn cheapest(factor: &Permutation, options: &[StageChoice], limit: usize) -> Result<Stage, PermuteError> {
    let allowed = options.iter().filter(|option| option.babies <= limit);
    let best = allowed.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let best = best.or_else(|| options.iter().min_by_key(|option| option.babies));
    let none = || shape("choose baby steps", "no number", "at least 1");
    best.map(|&StageChoice { shifts, babies, .. }| Stage { factor: factor.clone(), shifts, babies }).ok_or_else(none)
}
