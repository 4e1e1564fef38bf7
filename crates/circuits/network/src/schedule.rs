//! Levels of values and places of bootstraps.
//!
//! Without bootstraps, levels are counted from the results backwards. With parameters that bootstrap, every step is
//! planned once at the highest level and priced at each level, and `unspoken-placement` finds the shortest path: the
//! level of each step, and the values that are bootstrapped before it. The plan of the program follows it, with maps
//! planned again for their levels.

use unspoken_ckks::{Arithmetic, Bootstrap, CkksError, CkksParameters, Cost, CostModel, Simulator, SlotValues};
use unspoken_placement::{Ladder, Landing, Path, Segment, Step, Way};

use crate::design::Design;
use crate::diagonals::Prices;
use crate::error::NetworkError;
use crate::layout::Layout;
use crate::network::{self, ValueId};
use crate::program::{Operation, Program};

const PLACE: &str = "place bootstraps";

/// Most states that the search for a path follows after each step. Two live values have fewer, so that networks with
/// residual connections have shortest paths; with more live values the path is short, but maybe not the shortest. A
/// path is found if there is one, because a step has one way, which needs all its arguments at one level.
const MOST_STATES: usize = 2000;

/// Fewest slots of a bootstrap.
const LEAST_SLOTS: usize = 4;

/// The levels of values, and where they are bootstrapped.
#[derive(Clone)]
pub(crate) struct Schedule {
    /// The level of the inputs.
    pub(crate) input_level: usize,
    /// The level of each value when it is made.
    pub(crate) levels: Vec<usize>,
    /// The values that are bootstrapped before each step.
    pub(crate) refreshed: Vec<Vec<ValueId>>,
    /// The slots after which bootstrapped vectors repeat, if there are any.
    pub(crate) slots: Option<usize>,
}

impl Schedule {
    /// All values at the levels of a design, without bootstraps.
    pub(crate) fn of_design(design: &Design) -> Self {
        let (levels, refreshed) = (design.levels.clone(), vec![Vec::new(); design.levels.len()]);
        Schedule { input_level: design.depth(), levels, refreshed, slots: None }
    }

    /// Every step on fresh arguments at the highest level of circuits.
    pub(crate) fn of_fresh(design: &Design, parameters: &CkksParameters) -> Self {
        let top = parameters.circuit_level();
        let levels = design.depths().into_iter().map(|depth| top.saturating_sub(depth)).collect();
        let refreshed = design.network().steps().iter().map(network::Step::arguments).collect();
        Schedule { input_level: top, levels, refreshed, slots: None }
    }
}

/// Checks that each step has the levels that it uses.
pub(crate) fn check_depths(design: &Design, parameters: &CkksParameters) -> Result<(), NetworkError> {
    let most = parameters.circuit_level() - lowest_of_circuits(parameters);
    if design.depths().into_iter().all(|depth| depth <= most) { Ok(()) } else { Err(too_deep(design, parameters)) }
}

fn too_deep(design: &Design, parameters: &CkksParameters) -> NetworkError {
    let (entry, top) =
        (parameters.bootstrap().map_or(0, |literal| literal.slots_to_coeffs), parameters.circuit_level());
    let found = format!("preset {}, which bootstraps from level {entry} to level {top}", parameters.name());
    let deepest = design.depths().into_iter().max().unwrap_or(0);
    let needed = format!("more levels between, for steps of up to {deepest} levels; allow larger errors");
    NetworkError::mismatch(PLACE, found, needed)
}

/// The slots of a bootstrap that keeps the repetitions of all these layouts.
pub(crate) fn slots<'a>(layouts: impl Iterator<Item = &'a Layout>) -> usize {
    layouts.map(|layout| layout.period() * layout.batch()).max().unwrap_or(1).max(LEAST_SLOTS)
}

/// The search for a path.
pub(crate) struct Scheduler<'a> {
    design: &'a Design,
    prices: &'a Prices,
    /// The steps, each planned on fresh arguments.
    program: &'a mut Program,
    layouts: &'a [Layout],
    /// The scale of each value that was made at the highest level.
    scales: Vec<f64>,
    /// The steps with their seconds up to a level, once they are known. They do not depend on the slots of bootstraps.
    steps: Option<(usize, Vec<Step>)>,
}

impl<'a> Scheduler<'a> {
    pub(crate) fn new(
        design: &'a Design,
        prices: &'a Prices,
        (program, layouts): (&'a mut Program, &'a [Layout]),
    ) -> Self {
        let scales = vec![program.scale(); layouts.len()];
        Scheduler { design, prices, program, layouts, scales, steps: None }
    }

    /// The cheapest schedule: without bootstraps if the levels are enough, or else with bootstraps of vectors that
    /// repeat after `slots` slots.
    pub(crate) fn schedule(&mut self, slots: usize) -> Result<Schedule, NetworkError> {
        let bootstrap = Bootstrap::new(&self.program.parameters, slots, SlotValues::Real)?;
        let segment = self.segment(&bootstrap)?;
        let top = segment.ladder.top;
        // Keys of bootstraps are large: without need they are not asked for, even if bootstraps would save time.
        let without = Segment { refresh: vec![f64::INFINITY; segment.refresh.len()], ..segment.clone() };
        let path = without.cheapest_within(top, MOST_STATES).or_else(|| segment.cheapest_within(top, MOST_STATES));
        let path = path.ok_or_else(|| too_deep(self.design, &self.program.parameters))?;
        Ok(self.of_path(&segment, &path, slots))
    }

    /// The steps, and bootstraps of each value. Tensors are the values, the query (which has all inputs) and the answer
    /// (which has all outputs).
    fn segment(&mut self, bootstrap: &Bootstrap) -> Result<Segment, NetworkError> {
        let count = self.layouts.len();
        let (query, answer) = (count, count + 1);
        let (entry, top) = (bootstrap.input_level(), bootstrap.output_level());
        let steps = match self.steps.take().filter(|(known, _)| *known == top) {
            Some((_, steps)) => steps,
            None => self.steps(top)?,
        };
        self.steps = Some((top, steps.clone()));
        let seconds = [self.refreshing(bootstrap, 1)?, self.refreshing(bootstrap, 2)?];
        let of_vectors = |vectors: usize| (vectors / 2) as f64 * seconds[1] + (vectors % 2) as f64 * seconds[0];
        let mut refresh: Vec<f64> = self.layouts.iter().map(|layout| of_vectors(layout.vectors())).collect();
        refresh.extend([f64::INFINITY; 2]);
        Ok(Segment { ladder: Ladder { entry, top }, refresh, steps, tolerance: 0.0, input: query, output: answer })
    }

    /// The steps with their seconds at each level up to `top`.
    fn steps(&mut self, top: usize) -> Result<Vec<Step>, NetworkError> {
        let count = self.layouts.len();
        let (query, answer) = (count, count + 1);
        let free = |inputs: Vec<usize>, outputs: Vec<usize>, landing: Landing| {
            let way = Way { least: 0, above: vec![0; inputs.len()], landing, seconds: vec![0.0; top + 1] };
            Step { inputs, outputs, ways: vec![way] }
        };
        let numbers = |values: &[ValueId]| distinct(values).into_iter().map(ValueId::index).collect::<Vec<_>>();
        let mut steps = vec![free(vec![query], numbers(&self.program.inputs), Landing::Below(0))];
        for index in 0..count {
            let arguments = self.program.steps[index].arguments();
            if !arguments.is_empty() {
                let ways = vec![self.way(index, top)?];
                steps.push(Step { inputs: numbers(&arguments), outputs: vec![index], ways });
            }
        }
        steps.push(free(numbers(&self.program.outputs), vec![answer], Landing::At(0)));
        Ok(steps)
    }

    fn seconds(&self, cost: &Cost) -> f64 {
        CostModel::nominal(&self.program.parameters).seconds(cost)
    }

    /// How a step runs: its seconds by working level.
    fn way(&mut self, index: usize, top: usize) -> Result<Way, NetworkError> {
        self.prices.check_cancel()?;
        let parameters = self.program.parameters.clone();
        let depth = self.design.depths()[index];
        let step = &self.program.steps[index];
        let arguments = step.arguments();
        let (is_map, mut seconds) = (matches!(step, Operation::Affine { .. }), vec![0.0; top + 1]);
        // Only maps give their results a scale of their own: the levels of a bootstrap may have other moduli, where
        // products of ciphertexts grow.
        let floor = if is_map { 0 } else { lowest_of_circuits(&parameters) };
        if is_map {
            let cost = self.cost(index, depth, top)?;
            for (level, seconds) in seconds.iter_mut().enumerate().skip(depth) {
                *seconds = self.seconds(&at_level(&parameters, &cost, (top, level)));
            }
        } else {
            for (level, seconds) in seconds.iter_mut().enumerate().skip(depth + floor) {
                let cost = self.cost(index, depth, level)?;
                *seconds = self.seconds(&cost);
            }
        }
        let above = vec![0; distinct(&arguments).len()];
        Ok(Way { least: depth + floor, above, landing: Landing::Below(depth), seconds })
    }

    /// The cost of a step that works at a level.
    fn cost(&mut self, index: usize, depth: usize, level: usize) -> Result<Cost, NetworkError> {
        self.program.schedule.levels[index] = level - depth;
        let program = &*self.program;
        let simulator = Simulator::counting(self.prices.encoder());
        let arguments = program.steps[index].arguments();
        let fresh = |value: &ValueId| {
            let vectors = self.layouts[value.index()].vectors();
            (0..vectors).map(|_| simulator.encrypt(&[], level, self.scales[value.index()])).collect()
        };
        let inputs = arguments.iter().map(fresh).collect::<Result<Vec<Vec<_>>, CkksError>>()?;
        let argument = |value: ValueId| {
            let place = arguments.iter().position(|argument| *argument == value);
            Ok(place.map_or(&[][..], |place| inputs[place].as_slice()))
        };
        let result = program.result(&simulator, &program.steps[index], index, argument)?;
        if let Some(vector) = result.first().filter(|_| level == program.parameters.circuit_level()) {
            self.scales[index] = simulator.scale(vector);
        }
        Ok(simulator.cost())
    }

    /// Seconds of a bootstrap of `count` vectors together.
    fn refreshing(&self, bootstrap: &Bootstrap, count: usize) -> Result<f64, CkksError> {
        let simulator = Simulator::counting(self.prices.encoder());
        let input = simulator.encrypt(&[], bootstrap.input_level(), self.program.parameters.scale())?;
        bootstrap.simulate_refresh_many(&simulator, &vec![&input; count])?;
        Ok(self.seconds(&simulator.cost()))
    }

    /// The schedule of a path. The inputs are at the lowest level that the path allows.
    fn of_path(&self, segment: &Segment, path: &Path, slots: usize) -> Schedule {
        let count = self.layouts.len();
        let (mut levels, mut refreshed) = (vec![0; count], vec![Vec::new(); count]);
        let (mut input_level, mut fresh) = (0, vec![false; count]);
        for (step, choice) in segment.steps.iter().zip(&path.moves).skip(1) {
            for (&value, &is_refreshed) in step.inputs.iter().zip(&choice.refreshed) {
                if self.program.inputs.contains(&ValueId(value)) && !fresh[value] {
                    input_level = input_level.max(if is_refreshed { segment.ladder.entry } else { choice.level });
                }
                fresh[value] |= is_refreshed;
            }
            // The last step makes the answer: outputs are never bootstrapped for it, because its level is 0.
            let Some(made) = step.outputs.first().filter(|made| **made < count) else { continue };
            levels[*made] = step.ways[choice.way].lands(choice.level);
            let flagged = step.inputs.iter().zip(&choice.refreshed).filter(|(_, is_refreshed)| **is_refreshed);
            refreshed[*made] = flagged.map(|(&value, _)| ValueId(value)).collect();
        }
        self.program.inputs.iter().for_each(|input| levels[input.index()] = input_level);
        let is_used = refreshed.iter().any(|values| !values.is_empty());
        Schedule { input_level, levels, refreshed, slots: is_used.then_some(slots) }
    }
}

/// Values, each once.
fn distinct(values: &[ValueId]) -> Vec<ValueId> {
    let mut distinct: Vec<ValueId> = Vec::with_capacity(values.len());
    values.iter().for_each(|value| {
        if !distinct.contains(value) {
            distinct.push(*value);
        }
    });
    distinct
}

/// The lowest level above which a rescale keeps the parameters' scale.
fn lowest_of_circuits(parameters: &CkksParameters) -> usize {
    let keeps = |level: &usize| (parameters.level_modulus(*level) / parameters.scale()).log2().abs() < 0.5;
    (1..=parameters.circuit_level()).rev().take_while(keeps).last().map_or(parameters.circuit_level(), |last| last - 1)
}

/// The cost at level `to` of work that was counted at level `from`: each kind of work changes as it does in a key
/// switch or, element by element, with the number of primes.
fn at_level(parameters: &CkksParameters, cost: &Cost, (from, to): (usize, usize)) -> Cost {
    let switch = |level: usize| Cost::key_switch(parameters.ring(), parameters.basis(level), parameters.basis(level));
    let (own, other) = (switch(from), switch(to));
    let limbs = |level: usize| {
        let ring = parameters.ring();
        ring.limb_count(ring.switching_basis(parameters.basis(level))) as f64
    };
    let scaled = |count: u64, own: u64, other: u64| (count as f64 * other as f64 / own.max(1) as f64).round() as u64;
    let by_limbs = |count: u64| (count as f64 * limbs(to) / limbs(from)).round() as u64;
    Cost {
        limb_transforms: scaled(cost.limb_transforms, own.limb_transforms, other.limb_transforms),
        conversion_macs: scaled(cost.conversion_macs, own.conversion_macs, other.conversion_macs),
        key_macs: scaled(cost.key_macs, own.key_macs, other.key_macs),
        matrix_macs: by_limbs(cost.matrix_macs),
        run_macs: by_limbs(cost.run_macs),
        elementwise: by_limbs(cost.elementwise),
        encoded: by_limbs(cost.encoded),
        ..cost.clone()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};
    use unspoken_ckks::{Encoder, Preset};

    use super::*;
    use crate::function::Function;
    use crate::matrix::SparseMatrix;
    use crate::network::NetworkBuilder;
    use crate::{Options, Ranges};

    /// What bootstraps need: slots of at most 1, also those without an element, and imaginary parts that are noise.
    #[test]
    fn slots_before_bootstraps_are_real_and_in_range() {
        let mut builder = NetworkBuilder::new();
        let weights = |size: usize, seed: usize| {
            SparseMatrix::dense((size, size), |r, c| ((r * 31 + c * 17 + seed) as f64).sin() / 2.0).unwrap()
        };
        // Eleven elements leave gaps; sigmoid and softplus are not 0 there.
        let mut x = builder.input("x", 11).unwrap();
        for layer in 0..12 {
            let sum = builder.affine(vec![(x, weights(11, layer))], vec![0.1; 11]).unwrap();
            x = builder.function(sum, [Function::Sigmoid, Function::Softplus][layer % 2]).unwrap();
        }
        let network = builder.finish(&[("y", x)]).unwrap();
        let table = Array2::from_shape_fn((128, 11), |(row, i)| ((row * 11 + i) as f64 * 0.7).sin());
        let ranges = Ranges::of(&network, &[table.view()]).unwrap();
        let design = Design::new(&network, &ranges, &Options::default()).unwrap();
        let parameters = Preset::find("insecure_n11_boot_depth15_scale40").unwrap().build().unwrap();
        // Two vectors of each value at 128 rows, which go through the maps of a bootstrap as one.
        for batch in [8, 128] {
            let program = Program::new(&design, &parameters, batch).unwrap();
            let simulator = Simulator::new(&Encoder::new(&parameters), 1);
            let rows = program.inputs()[0].arrange(table.slice(s![..batch, ..])).unwrap();
            let encrypt = |slots: &Vec<_>| simulator.encrypt(slots, program.input_level(), program.scale()).unwrap();
            let mut values = vec![rows.iter().map(encrypt).collect::<Vec<_>>()];
            let mut bootstrapped = 0;
            for (index, step) in program.steps.iter().enumerate().skip(1) {
                for value in &program.schedule.refreshed[index] {
                    for vector in &values[value.index()] {
                        let largest = vector.exact().iter().fold(0.0f64, |most, slot| most.max(slot.re.abs()));
                        let imaginary = vector.noisy().iter().fold(0.0f64, |most, slot| most.max(slot.im.abs()));
                        assert!(largest <= 1.0 && imaginary < 1e-4, "{index}: {largest}, {imaginary:e}");
                        bootstrapped += 1;
                    }
                }
                let fresh = program.refresh(&simulator, index, |value| Ok(&values[value.index()])).unwrap();
                fresh.into_iter().for_each(|(value, vectors)| values[value.index()] = vectors);
                let result = program.result(&simulator, step, index, |value| Ok(&values[value.index()])).unwrap();
                assert!(result.iter().all(|vector| simulator.level(vector) == program.schedule.levels[index]));
                values.push(result);
            }
            assert_eq!(bootstrapped, program.bootstraps());
            let overflows = simulator.overflows();
            assert!(bootstrapped >= 1 && overflows.is_empty(), "{bootstrapped}, {overflows:?}");
        }
    }

    #[test]
    fn costs_by_level_are_near_those_that_are_counted() {
        let mut builder = NetworkBuilder::new();
        let x = builder.input("x", 64).unwrap();
        let dense = SparseMatrix::dense((64, 64), |r, c| (r + c) as f64 / 100.0).unwrap();
        let y = builder.affine(vec![(x, dense)], vec![0.0; 64]).unwrap();
        let network = builder.finish(&[("y", y)]).unwrap();
        let table = Array2::from_shape_fn((32, 64), |(row, i)| ((row * 64 + i) as f64 * 0.7).sin());
        let ranges = Ranges::of(&network, &[table.view()]).unwrap();
        let design = Design::new(&network, &ranges, &Options::default()).unwrap();
        let parameters = Preset::find("insecure_n11_boot_depth15_scale40").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        let counted = |level: usize| {
            let prices = Prices::new(&Encoder::new(&parameters));
            let planner =
                crate::planner::Planner { design: &design, prices: &prices, arrangement: 16.into(), values: false };
            let schedule =
                Schedule { input_level: level, levels: vec![level, level - 1], ..Schedule::of_design(&design) };
            planner.plan(Some(schedule)).unwrap().cost().clone()
        };
        let highest = counted(18);
        for level in [4, 9, 15] {
            let (found, expected) = (at_level(&parameters, &highest, (18, level)), counted(level));
            let ratio = model.seconds(&found) / model.seconds(&expected);
            println!("level {level}: {ratio:.3} of what is counted");
            assert!((0.8..1.25).contains(&ratio), "{level}: {ratio}");
        }
    }
}
