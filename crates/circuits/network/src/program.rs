//! Programs: networks planned for parameters and a batch, and their runs on encrypted rows.

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, CkksError, CkksParameters, Cost, CostModel, Encoder, RefreshArithmetic,
    SeededCiphertext, Simulated, Simulator, vector_bytes,
};
use unspoken_rlwe::KeyPlan;

use crate::activation::Prepared;
use crate::affine::Affine;
use crate::design::Design;
use crate::diagonals::Prices;
use crate::error::NetworkError;
use crate::layout::{Arrangement, Layout, Port};
use crate::network::ValueId;
use crate::planner::Planner;
use crate::schedule::Schedule;

const RUN: &str = "run a program";
const PLAN: &str = "plan a program within memory";
const PLACE: &str = "place a program on a device";

/// A network as a circuit on encrypted rows, for one batch and one set of parameters.
pub struct Program {
    pub(crate) parameters: CkksParameters,
    pub(crate) arrangement: Arrangement,
    pub(crate) steps: Vec<Operation>,
    /// The level of each value, and the places of bootstraps.
    pub(crate) schedule: Schedule,
    /// What bootstraps, if anything is bootstrapped.
    pub(crate) bootstrapper: Option<Bootstrapper>,
    /// How often each value is used.
    pub(crate) uses: Vec<usize>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) input_ports: Vec<Port>,
    pub(crate) output_ports: Vec<Port>,
    pub(crate) planned: Vec<PlannedStep>,
    pub(crate) prepared_bytes: u64,
    pub(crate) working_bytes: u64,
    pub(crate) keys: KeyPlan,
    pub(crate) cost: Cost,
}

/// A step of a program.
pub(crate) enum Operation {
    Input,
    Affine { arguments: Vec<ValueId>, map: Affine },
    Function { argument: ValueId, function: Prepared },
    Product(ValueId, ValueId),
}

/// What a program does at a step of its network.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// The result of the step.
    pub value: ValueId,
    /// What it computes, for people.
    pub what: String,
    /// The level of its arguments.
    pub level: usize,
    /// The level of its result.
    pub output_level: usize,
    /// Vectors of its result.
    pub vectors: usize,
    /// The arguments that are bootstrapped before it, with their numbers of vectors.
    pub refreshed: Vec<(ValueId, usize)>,
    /// Products with plaintext vectors: diagonals of a map.
    pub products: u64,
    /// Predicted seconds of the step on one core ([`CostModel::nominal`]), without bootstraps.
    pub seconds: f64,
    /// Predicted seconds of the bootstraps before it.
    pub bootstrap_seconds: f64,
}

/// A value, and its vectors.
type Value<A> = (ValueId, Vec<<A as Arithmetic>::Vector>);

/// What a run has done.
pub(crate) enum Done {
    /// Bootstraps of so many vectors of each value.
    Refreshed(Vec<(ValueId, usize)>),
    /// A result of so many vectors.
    Made(usize),
}

impl Operation {
    /// Bytes of diagonals that are kept and could be encoded at each run.
    fn kept_bytes(&self) -> u64 {
        if let Operation::Affine { map, .. } = self { map.kept_bytes() } else { 0 }
    }

    /// Whether its diagonals are encoded at each run.
    fn is_streamed(&self) -> bool {
        if let Operation::Affine { map, .. } = self { map.is_streamed() } else { false }
    }

    pub(crate) fn arguments(&self) -> Vec<ValueId> {
        match self {
            Operation::Input => Vec::new(),
            Operation::Affine { arguments, .. } => arguments.clone(),
            Operation::Function { argument, .. } => vec![*argument],
            Operation::Product(a, b) => vec![*a, *b],
        }
    }
}

impl Program {
    /// Plans the network of a design for batches of `batch` rows. Diagonals are encoded at the first run, or by
    /// [`Program::prepare`]. With parameters that bootstrap, levels and bootstraps are on the path of the fewest
    /// predicted seconds; a design whose levels are enough has no bootstraps.
    ///
    /// # Errors
    /// If the parameters have too few levels (those between two bootstraps, if they bootstrap), or too little room for
    /// results at level 0, or the batch is no power of two up to the number of slots.
    pub fn new(
        design: &Design,
        parameters: &CkksParameters,
        arrangement: impl Into<Arrangement>,
    ) -> Result<Self, NetworkError> {
        let (prices, arrangement) = (&Prices::new(&Encoder::new(parameters)), arrangement.into());
        Planner { design, prices, arrangement, values: true }.plan(None)
    }

    /// As [`Program::new`], by a schedule.
    pub(crate) fn scheduled(
        design: &Design,
        prices: &Prices,
        arrangement: Arrangement,
        schedule: Schedule,
    ) -> Result<Self, NetworkError> {
        Planner { design, prices, arrangement, values: true }.plan(Some(schedule))
    }

    /// A program that tells what [`Program::new`] would need, in less time and memory: it cannot be run, because all
    /// its weights are 1.
    ///
    /// # Errors
    /// As for [`Program::new`].
    pub fn counted(
        design: &Design,
        parameters: &CkksParameters,
        arrangement: impl Into<Arrangement>,
    ) -> Result<Self, NetworkError> {
        Self::priced(design, &Prices::new(&Encoder::new(parameters)), arrangement.into())
    }

    /// As [`Program::counted`], with prices that are shared by programs.
    pub(crate) fn priced(design: &Design, prices: &Prices, arrangement: Arrangement) -> Result<Self, NetworkError> {
        Planner { design, prices, arrangement, values: false }.plan(None)
    }

    /// The same program in at most `memory` bytes, if that is possible: the largest maps encode their weights at each
    /// run and do not keep them. So a run takes more time. The design is the program's.
    ///
    /// # Errors
    /// If it takes more memory even so; the message has the number.
    pub fn within(self, design: &Design, memory: u64) -> Result<Self, NetworkError> {
        let prices = Prices::new(&Encoder::new(&self.parameters));
        self.priced_within(&prices, design, memory)
    }

    /// As [`Program::within`], with prices that are shared by programs.
    pub(crate) fn priced_within(mut self, prices: &Prices, design: &Design, memory: u64) -> Result<Self, NetworkError> {
        let found = self.stream(prices, design, memory)?;
        if found > memory {
            let found = format!("{} MiB of memory without kept weights", found >> 20);
            return Err(NetworkError::mismatch(PLAN, found, format!("{} MiB; allow more", memory >> 20)));
        }
        Ok(self)
    }

    /// The same program with the parameters of its preset on a device. It keeps the weights that this one keeps, though
    /// a run holds more memory there. The design is the program's.
    ///
    /// # Errors
    /// If the parameters have another preset.
    pub fn placed(self, design: &Design, parameters: &CkksParameters) -> Result<Self, NetworkError> {
        if parameters.name() != self.parameters.name() {
            return Err(NetworkError::mismatch(PLACE, parameters.name(), self.parameters.name()));
        }
        let streamed: Vec<bool> = self.steps.iter().map(Operation::is_streamed).collect();
        let (schedule, arrangement) = (self.schedule.clone(), self.arrangement);
        // Before the weights are there twice.
        drop(self);
        let prices = Prices::new(&Encoder::new(parameters));
        let mut program = Program::scheduled(design, &prices, arrangement, schedule)?;
        for (index, _) in streamed.iter().enumerate().filter(|(_, is_streamed)| **is_streamed) {
            program.stream_step(index);
        }
        program.count(&prices, design)?;
        Ok(program)
    }

    /// Streams the weights of a step, if it is a map.
    fn stream_step(&mut self, index: usize) {
        if let Operation::Affine { map, .. } = &mut self.steps[index] {
            self.prepared_bytes -= map.prepared_bytes(&self.parameters);
            map.stream();
            self.prepared_bytes += map.prepared_bytes(&self.parameters);
        }
    }

    /// Streams the weights of the largest maps until the program takes at most `memory` bytes, or none are kept.
    /// Returns the bytes that it takes.
    pub(crate) fn stream(&mut self, prices: &Prices, design: &Design, memory: u64) -> Result<u64, NetworkError> {
        while self.memory() > memory {
            let sizes = self.steps.iter().enumerate().map(|(step, operation)| (operation.kept_bytes(), step));
            let Some((_, largest)) = sizes.max().filter(|(bytes, _)| *bytes > 0) else { break };
            self.stream_step(largest);
            if self.prepared_bytes <= memory || self.steps.iter().all(|step| step.kept_bytes() == 0) {
                self.count(prices, design)?;
            }
        }
        Ok(self.memory())
    }

    /// Bytes of memory of weights, of one run and of the keys of one client.
    pub fn memory(&self) -> u64 {
        self.prepared_bytes + self.working_bytes + self.keys.memory_bytes(self.parameters.ring())
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// Number of rows of a batch.
    pub fn batch(&self) -> usize {
        self.arrangement.batch
    }

    /// The number and the order of rows.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// The inputs, in the order of the network: client and server share them.
    pub fn inputs(&self) -> &[Port] {
        &self.input_ports
    }

    /// The outputs, in the order of the network: client and server share them.
    pub fn outputs(&self) -> &[Port] {
        &self.output_ports
    }

    /// The level of the inputs: the number of levels, or of those before the first bootstraps. All outputs are at level
    /// 0.
    pub fn input_level(&self) -> usize {
        self.schedule.input_level
    }

    /// The steps, without the inputs, with their levels, bootstraps and predicted seconds.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.planned
    }

    /// The plan of its bootstraps, if it has any.
    pub fn bootstrap(&self) -> Option<&Bootstrap> {
        self.bootstrapper.as_ref().map(Bootstrapper::plan)
    }

    /// Number of vectors that a run bootstraps.
    pub fn bootstraps(&self) -> usize {
        self.planned.iter().flat_map(|step| &step.refreshed).map(|(_, vectors)| vectors).sum()
    }

    /// The scale of the inputs. Outputs have it too, unless they are powers or products.
    pub fn scale(&self) -> f64 {
        self.parameters.scale()
    }

    /// Bytes of a query: all vectors of all inputs, encrypted with the secret key.
    pub fn query_bytes(&self) -> u64 {
        let vectors: usize = self.input_ports.iter().map(|port| port.layout().vectors()).sum();
        (vectors * SeededCiphertext::byte_len(&self.parameters, self.input_level())) as u64
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Bytes of memory of weights, biases, polynomials of slots and the matrices of bootstraps. What is not yet encoded
    /// counts as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        self.prepared_bytes
    }

    /// Peak memory of one run in bytes, on the threads of the pool in which it was planned. It includes the results,
    /// but not the inputs, the keys and [`Program::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The work of one run.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Predicted seconds of one run. The encoding of weights counts only where they are not kept.
    pub fn seconds(&self, model: &CostModel) -> f64 {
        model.seconds(&self.cost)
    }

    /// Encodes the weights and the matrices of bootstraps, unless that was done. Weights of maps without rotations are
    /// encoded at the first run.
    ///
    /// # Errors
    /// If a weight does not fit its level.
    pub fn prepare(&self, encoder: &Encoder) -> Result<(), NetworkError> {
        for step in &self.steps {
            if let Operation::Affine { map, .. } = step {
                map.encode(encoder)?;
            }
        }
        Ok(self.bootstrapper.iter().try_for_each(|bootstrapper| bootstrapper.encode(encoder))?)
    }

    /// The vectors of each output, at level 0, for the vectors of each input at [`Program::input_level`] and
    /// [`Program::scale`].
    ///
    /// # Errors
    /// [`NetworkError::Mismatch`] if the number of inputs or of vectors does not fit; [`NetworkError::Ckks`] if their
    /// level or scale is not the planned one, or keys are missing.
    pub fn evaluate<A: RefreshArithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[Vec<A::Vector>],
    ) -> Result<Vec<Vec<A::Vector>>, NetworkError> {
        self.run(arithmetic, inputs, |_, _| ())
    }

    /// [`Program::evaluate`], which calls `watch` with the number of a step after its bootstraps and after the step.
    pub(crate) fn run<A: RefreshArithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[Vec<A::Vector>],
        mut watch: impl FnMut(usize, Done),
    ) -> Result<Vec<Vec<A::Vector>>, NetworkError> {
        let needed: Vec<usize> = self.input_ports.iter().map(|port| port.layout().vectors()).collect();
        if !inputs.iter().map(Vec::len).eq(needed.iter().copied()) {
            let found = format!("vectors per input {:?}", inputs.iter().map(Vec::len).collect::<Vec<_>>());
            return Err(NetworkError::mismatch(RUN, found, format!("{needed:?}")));
        }
        for vector in inputs.iter().flatten() {
            self.check_input(arithmetic.level(vector), arithmetic.scale(vector))?;
        }
        arithmetic.require_keys(RUN, &self.keys)?;
        let mut left = self.uses.clone();
        // Inputs are kept by the caller, until they are bootstrapped.
        let mut values: Vec<Option<Vec<A::Vector>>> = vec![None; self.steps.len()];
        let input = |value: ValueId| self.inputs.iter().position(|input| *input == value).map(|at| &inputs[at]);
        for (index, step) in self.steps.iter().enumerate() {
            let arguments = step.arguments();
            let fresh = {
                let argument = |value: ValueId| {
                    values[value.index()].as_ref().or(input(value)).map(Vec::as_slice).ok_or_else(missing)
                };
                self.refresh(arithmetic, index, argument)?
            };
            if !fresh.is_empty() {
                watch(index, Done::Refreshed(fresh.iter().map(|(value, vectors)| (*value, vectors.len())).collect()));
            }
            for (value, vectors) in fresh {
                values[value.index()] = Some(vectors);
            }
            if !arguments.is_empty() {
                let argument = |value: ValueId| {
                    values[value.index()].as_ref().or(input(value)).map(Vec::as_slice).ok_or_else(missing)
                };
                let result = self.result(arithmetic, step, index, argument)?;
                watch(index, Done::Made(result.len()));
                values[index] = Some(result);
            }
            for argument in arguments {
                left[argument.index()] -= 1;
                if left[argument.index()] == 0 {
                    values[argument.index()] = None;
                }
            }
        }
        let output = |value: &ValueId| {
            let vectors = values[value.index()].as_ref().ok_or_else(missing)?;
            vectors.iter().map(|vector| Ok(arithmetic.lowered(vector, 0)?.into_owned())).collect()
        };
        Ok(self.outputs.iter().map(output).collect::<Result<_, CkksError>>()?)
    }

    /// The values that are bootstrapped before a step, all vectors together: pairs share linear maps.
    pub(crate) fn refresh<'v, A: RefreshArithmetic>(
        &self,
        arithmetic: &A,
        index: usize,
        argument: impl Fn(ValueId) -> Result<&'v [A::Vector], CkksError>,
    ) -> Result<Vec<Value<A>>, CkksError>
    where
        A::Vector: 'v,
    {
        let (Some(bootstrapper), values) = (&self.bootstrapper, &self.schedule.refreshed[index]) else {
            return Ok(Vec::new());
        };
        let own = values.iter().map(|value| argument(*value)).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<&A::Vector> = own.iter().copied().flatten().collect();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let mut fresh = arithmetic.refresh_many(bootstrapper, &all)?.into_iter();
        let take = |(value, own): (&ValueId, &&[A::Vector])| (*value, fresh.by_ref().take(own.len()).collect());
        Ok(values.iter().zip(&own).map(take).collect())
    }

    fn check_input(&self, level: usize, scale: f64) -> Result<(), CkksError> {
        if level < self.input_level() {
            return Err(CkksError::Level { operation: RUN, found: level, needed: self.input_level() });
        }
        if (scale / self.scale() - 1.0).abs() > unspoken_ckks::SCALE_TOLERANCE {
            return Err(CkksError::Scale { operation: RUN, found: scale, needed: self.scale() });
        }
        Ok(())
    }

    /// The result of a step, at the level of its value.
    pub(crate) fn result<'v, A: Arithmetic>(
        &self,
        arithmetic: &A,
        step: &Operation,
        index: usize,
        argument: impl Fn(ValueId) -> Result<&'v [A::Vector], CkksError>,
    ) -> Result<Vec<A::Vector>, CkksError>
    where
        A::Vector: 'v,
    {
        let level = self.schedule.levels[index];
        match step {
            Operation::Input => Err(missing()),
            Operation::Affine { arguments, map } => {
                let arguments = arguments.iter().map(|value| argument(*value)).collect::<Result<Vec<_>, _>>()?;
                map.evaluate(arithmetic, &arguments)
            }
            Operation::Function { argument: value, function } => {
                let each = |(vector, input): (usize, &A::Vector)| {
                    let input = arithmetic.lowered(input, level + function.depth())?;
                    function.evaluate(arithmetic, vector, &input, self.scale())
                };
                argument(*value)?.iter().enumerate().map(each).collect()
            }
            Operation::Product(a, b) => {
                let product = |(a, b): (&A::Vector, &A::Vector)| {
                    arithmetic.multiply(&*arithmetic.lowered(a, level + 1)?, &*arithmetic.lowered(b, level + 1)?)
                };
                argument(*a)?.iter().zip(argument(*b)?).map(product).collect()
            }
        }
    }

    /// Runs the program without values, for its steps, its keys, its cost and its memory.
    pub(crate) fn count(&mut self, prices: &Prices, design: &Design) -> Result<(), NetworkError> {
        let (simulator, model) = (Simulator::counting(prices.encoder()), CostModel::nominal(&self.parameters));
        let vectors = |port: &Port| encrypt_nothing(&simulator, port.layout(), self.input_level());
        let inputs = self.input_ports.iter().map(vectors).collect::<Result<Vec<_>, _>>()?;
        let mut planned: Vec<PlannedStep> = Vec::new();
        let (mut seconds, mut products) = (0.0, 0);
        let (mut refreshed, mut bootstrap_seconds) = (Vec::new(), 0.0);
        let mut watch = |index: usize, done: Done| {
            let cost = simulator.cost();
            let more = model.seconds(&cost) - seconds;
            seconds += more;
            match done {
                Done::Refreshed(values) => (refreshed, bootstrap_seconds) = (values, more),
                Done::Made(vectors) => planned.push(PlannedStep {
                    value: ValueId(index),
                    what: design.described(ValueId(index)),
                    level: self.schedule.levels[index] + design.depths()[index],
                    output_level: self.schedule.levels[index],
                    vectors,
                    refreshed: std::mem::take(&mut refreshed),
                    products: cost.plaintext_products - products,
                    seconds: more,
                    bootstrap_seconds: std::mem::take(&mut bootstrap_seconds),
                }),
            }
            products = cost.plaintext_products;
        };
        self.working_bytes = simulator.working_bytes(|simulator| self.run(simulator, &inputs, &mut watch))?;
        self.planned = planned;
        self.keys = simulator.key_plan();
        self.cost = simulator.cost();
        if let Some(bootstrapper) = &self.bootstrapper {
            self.keys.extend(&bootstrapper.plan().key_plan());
            self.working_bytes += self.bytes_of_threads(bootstrapper, prices.encoder())?;
        }
        Ok(())
    }

    /// Bytes of memory of bootstraps that run at the same time as another: a run without values does one after the
    /// other.
    fn bytes_of_threads(&self, bootstrapper: &Bootstrapper, encoder: &Encoder) -> Result<u64, CkksError> {
        let together = |step: &PlannedStep| step.refreshed.iter().map(|(_, vectors)| vectors).sum::<usize>();
        let most = self.planned.iter().map(together).max().unwrap_or(0);
        let bytes = |count: usize| {
            let results = count as u64 * vector_bytes(&self.parameters, bootstrapper.plan().output_level());
            Ok::<_, CkksError>(bootstrapper.plan().working_bytes_of_many(encoder, count)?.saturating_sub(results))
        };
        Ok(bytes(most)?.saturating_sub(bytes(most.min(2))?))
    }
}

fn missing() -> CkksError {
    CkksError::Shape { operation: RUN, found: 0, needed: "a value that is computed before it is used".into() }
}

/// Vectors without values.
pub(crate) fn encrypt_nothing(
    simulator: &Simulator,
    layout: &Layout,
    level: usize,
) -> Result<Vec<Simulated>, CkksError> {
    let scale = simulator.parameters().scale();
    (0..layout.vectors()).map(|_| simulator.encrypt(&[], level, scale)).collect()
}
