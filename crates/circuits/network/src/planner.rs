//! The way from a design to a program.

use unspoken_ckks::{Arithmetic, Bootstrap, Bootstrapper, CkksParameters, Cost, Simulated, Simulator, SlotValues};
use unspoken_rlwe::KeyPlan;

use crate::activation::Prepared;
use crate::affine::{Affine, Scales};
use crate::design::{Design, MOST_INPUT};
use crate::diagonals::{Planned, Prices, Shape, Term, plans};
use crate::error::NetworkError;
use crate::layout::{Arrangement, Layout, Port};
use crate::matrix::SparseMatrix;
use crate::network::{Step, ValueId};
use crate::program::{Operation, Program, encrypt_nothing};
use crate::schedule::{Schedule, Scheduler, check_depths, slots};

const PLAN: &str = "plan a program";

/// What a program is planned from.
pub(crate) struct Planner<'a> {
    pub(crate) design: &'a Design,
    pub(crate) prices: &'a Prices,
    pub(crate) arrangement: Arrangement,
    /// Whether weights are known; else all are 1, and the program can only be counted.
    pub(crate) values: bool,
}

impl Planner<'_> {
    /// Plans a program by a schedule, or by the best one.
    pub(crate) fn plan(&self, schedule: Option<Schedule>) -> Result<Program, NetworkError> {
        self.check_room()?;
        let (mut program, layouts) = match schedule {
            Some(schedule) => self.scheduled(schedule)?,
            None if self.parameters().bootstraps() => self.bootstrapped()?,
            None => {
                self.check_levels()?;
                self.scheduled(Schedule::of_design(self.design))?
            }
        };
        let (design, network) = (self.design, self.design.network());
        let port = |(name, value): (&str, ValueId), bound: f64| {
            Port::of(name, layouts[value.index()].clone(), design.encoding(value), bound)
        };
        program.input_ports = network.inputs().into_iter().map(|input| port(input, MOST_INPUT)).collect();
        program.output_ports = network.outputs().into_iter().map(|output| port(output, design.bound())).collect();
        if let Some(slots) = program.schedule.slots {
            let bootstrap = Bootstrap::new(self.parameters(), slots, SlotValues::Real)?;
            let bootstrapper = Bootstrapper::deferred(self.prices.encoder(), bootstrap)?;
            program.prepared_bytes += bootstrapper.prepared_bytes();
            program.bootstrapper = Some(bootstrapper);
        }
        program.count(self.prices, design)?;
        Ok(program)
    }

    fn parameters(&self) -> &CkksParameters {
        self.prices.encoder().parameters()
    }

    /// A program with bootstraps on the cheapest path. Its layouts decide how many slots they have; the layouts of maps
    /// may be others at other levels, and bootstraps of all slots fit each.
    fn bootstrapped(&self) -> Result<(Program, Vec<Layout>), NetworkError> {
        check_depths(self.design, self.parameters())?;
        let counted = Planner { values: false, ..*self };
        let (mut fresh, layouts) = counted.scheduled(Schedule::of_fresh(self.design, self.parameters()))?;
        let mut scheduler = Scheduler::new(self.design, self.prices, (&mut fresh, &layouts));
        let found = slots(layouts.iter());
        let (program, layouts) = self.scheduled(scheduler.schedule(found)?)?;
        let refreshed = program.schedule.refreshed.iter().flatten();
        if slots(refreshed.map(|value| &layouts[value.index()])) <= found {
            return Ok((program, layouts));
        }
        self.scheduled(scheduler.schedule(self.parameters().slots())?)
    }

    /// A program whose steps follow a schedule, with their layouts, before ports and counts.
    fn scheduled(&self, schedule: Schedule) -> Result<(Program, Vec<Layout>), NetworkError> {
        let network = self.design.network();
        let mut program = Program {
            parameters: self.parameters().clone(),
            arrangement: self.arrangement,
            steps: Vec::with_capacity(network.steps().len()),
            schedule,
            bootstrapper: None,
            uses: network.uses(),
            inputs: network.inputs().into_iter().map(|(_, value)| value).collect(),
            outputs: network.outputs().into_iter().map(|(_, value)| value).collect(),
            input_ports: Vec::new(),
            output_ports: Vec::new(),
            planned: Vec::new(),
            prepared_bytes: 0,
            working_bytes: 0,
            keys: KeyPlan::new(),
            cost: Cost::default(),
        };
        let layouts = self.steps(&mut program)?;
        Ok((program, layouts))
    }

    /// Adds all steps, and returns the layouts of their results. Each step runs once without values, which tells the
    /// scale of its result.
    fn steps(&self, program: &mut Program) -> Result<Vec<Layout>, NetworkError> {
        let simulator = Simulator::counting(self.prices.encoder());
        let (mut layouts, mut found) = (Vec::<Layout>::new(), Vec::<Vec<Simulated>>::new());
        for index in 0..program.schedule.levels.len() {
            // A bootstrap keeps the scale.
            for value in &program.schedule.refreshed[index] {
                for vector in &mut found[value.index()] {
                    *vector = simulator.encrypt(&[], program.parameters.circuit_level(), simulator.scale(vector))?;
                }
            }
            let scale = |value: ValueId| found[value.index()].first().map_or(1.0, |vector| simulator.scale(vector));
            let (step, layout) = self.step(program, ValueId(index), &layouts, scale)?;
            found.push(match step {
                Operation::Input => encrypt_nothing(&simulator, &layout, program.schedule.input_level)?,
                _ => program.result(&simulator, &step, index, |value| Ok(&found[value.index()]))?,
            });
            program.steps.push(step);
            layouts.push(layout);
        }
        Ok(layouts)
    }

    /// A step and the layout of its result.
    fn step(
        &self,
        program: &mut Program,
        value: ValueId,
        layouts: &[Layout],
        scale: impl Fn(ValueId) -> f64,
    ) -> Result<(Operation, Layout), NetworkError> {
        let (design, network) = (self.design, self.design.network());
        Ok(match &network.steps()[value.index()] {
            Step::Input { .. } => {
                (Operation::Input, Layout::new(network.size(value), program.parameters.slots(), self.arrangement)?)
            }
            Step::Affine { terms, bias } => {
                let map = self.map(program, value, (terms, bias), layouts, scale)?;
                program.prepared_bytes += map.prepared_bytes(&program.parameters);
                let (arguments, layout) = (terms.iter().map(|(argument, _)| *argument).collect(), map.layout().clone());
                (Operation::Affine { arguments, map }, layout)
            }
            Step::Function { input, .. } => {
                let layout = layouts[input.index()].clone();
                let none = || NetworkError::mismatch(PLAN, "a function without polynomials", "a complete design");
                let function = Prepared::new(design.activations[value.index()].as_ref().ok_or_else(none)?, &layout)?;
                program.prepared_bytes += function.prepared_bytes(&layout);
                (Operation::Function { argument: *input, function }, layout)
            }
            Step::Product(a, b) => {
                // A shorter period divides the longer one, so the product has the longer one.
                let (of_a, of_b) = (&layouts[a.index()], &layouts[b.index()]);
                let longer = if of_b.period() > of_a.period() { of_b } else { of_a };
                (Operation::Product(*a, *b), longer.clone())
            }
        })
    }

    /// An affine map of slots.
    fn map(
        &self,
        program: &Program,
        value: ValueId,
        (terms, bias): (&[(ValueId, SparseMatrix)], &[f64]),
        layouts: &[Layout],
        scale: impl Fn(ValueId) -> f64,
    ) -> Result<Affine, NetworkError> {
        let (design, parameters) = (self.design, &program.parameters);
        let (matrices, bias) = design.of_slots(value, terms, bias);
        let term =
            |(matrix, (argument, _)): (_, &(ValueId, _))| Term { matrix, layout: layouts[argument.index()].clone() };
        let slots: Vec<Term<'_>> = matrices.iter().zip(terms).map(term).collect();
        let scales =
            Scales { inputs: terms.iter().map(|(argument, _)| scale(*argument)).collect(), output: parameters.scale() };
        let shape = self.shape(program, value);
        let planned = self.cheapest(program, value, &slots, shape)?;
        Ok(Affine::new(parameters, planned, &slots, &bias, &scales, shape, self.values)?)
    }

    fn shape(&self, program: &Program, value: ValueId) -> Shape {
        let as_output = program.outputs.iter().filter(|output| **output == value).count();
        Shape {
            size: self.design.network().size(value),
            arrangement: self.arrangement,
            level: program.schedule.levels[value.index()] + 1,
            is_used: program.uses[value.index()] > as_output,
            may_move: self.may_move(value),
        }
    }

    /// The plan of a map that is the cheapest together with the maps of its result.
    fn cheapest(
        &self,
        program: &Program,
        value: ValueId,
        terms: &[Term<'_>],
        shape: Shape,
    ) -> Result<Planned, NetworkError> {
        let mut plans = plans(self.prices, (value.index(), true), terms, shape)?;
        if plans.len() > 1 {
            for (seconds, choice) in &mut plans {
                *seconds += self.later(program, value, &choice.layout)?;
            }
        }
        let cheapest = plans.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        cheapest
            .map(|(_, choice)| choice.planned(terms))
            .ok_or_else(|| NetworkError::mismatch(PLAN, "no plan of a map", "one"))
    }

    /// Seconds of the maps that use a value of this layout, or functions of it, alone.
    fn later(&self, program: &Program, value: ValueId, layout: &Layout) -> Result<f64, NetworkError> {
        let mut seconds = 0.0;
        for (index, step) in self.design.network().steps().iter().enumerate() {
            match step {
                Step::Function { input, .. } if *input == value => {
                    seconds += self.later(program, ValueId(index), layout)?;
                }
                Step::Affine { terms, .. } => {
                    if let [(argument, matrix)] = terms.as_slice()
                        && *argument == value
                    {
                        let term = Term { matrix, layout: layout.clone() };
                        let shape = self.shape(program, ValueId(index));
                        let plans = plans(self.prices, (index, false), &[term], shape)?;
                        seconds += plans.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
                    }
                }
                _ => {}
            }
        }
        Ok(seconds)
    }

    /// Whether all that becomes of a value is used by affine maps alone: products need equal places, and clients read
    /// elements where their numbers are.
    fn may_move(&self, value: ValueId) -> bool {
        let network = self.design.network();
        let is_output = network.outputs().iter().any(|(_, output)| *output == value);
        let users = network.steps().iter().enumerate().filter(|(_, step)| step.arguments().contains(&value));
        !is_output
            && users.into_iter().all(|(index, step)| match step {
                Step::Function { .. } => self.may_move(ValueId(index)),
                Step::Product(..) => false,
                _ => true,
            })
    }

    /// Checks levels where nothing is bootstrapped.
    fn check_levels(&self) -> Result<(), NetworkError> {
        let (levels, found) = (self.design.depth(), self.parameters().circuit_level());
        if found < levels {
            let found = format!("preset {} of {found} levels", self.parameters().name());
            let needed = format!("{levels} levels; use a deeper preset or one that bootstraps, or allow larger errors");
            return Err(NetworkError::mismatch(PLAN, found, needed));
        }
        Ok(())
    }

    /// Checks the batch and the room at level 0.
    fn check_room(&self) -> Result<(), NetworkError> {
        let (design, parameters) = (self.design, self.parameters());
        let room = parameters.log2_modulus(0) - parameters.scale().log2() - 1.0;
        if design.bound().log2() >= room {
            let found = format!("results up to 2^{:.1} times their ranges", design.bound().log2());
            let needed = format!("below 2^{room:.0}; use a larger margin or a preset of smaller scale");
            return Err(NetworkError::mismatch(PLAN, found, needed));
        }
        // Inputs and results of steps are checked again, with the same batch.
        Layout::new(1, parameters.slots(), self.arrangement).map(drop)
    }
}
