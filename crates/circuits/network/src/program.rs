//! Programs: networks planned for parameters and a batch, and their runs on encrypted rows.

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Cost, CostModel, Encoder, SeededCiphertext, Simulated, Simulator, StepCounts,
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

const RUN: &str = "run a program";
const PLAN: &str = "plan a program within memory";

/// A network as a circuit on encrypted rows, for one batch and one set of parameters.
pub struct Program {
    pub(crate) parameters: CkksParameters,
    pub(crate) arrangement: Arrangement,
    pub(crate) steps: Vec<Operation>,
    /// The level of each value.
    pub(crate) levels: Vec<usize>,
    /// How often each value is used.
    pub(crate) uses: Vec<usize>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) input_ports: Vec<Port>,
    pub(crate) output_ports: Vec<Port>,
    pub(crate) input_level: usize,
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

impl Operation {
    /// Bytes of diagonals that are kept and could be encoded at each run.
    fn kept_bytes(&self) -> u64 {
        if let Operation::Affine { map, .. } = self { map.kept_bytes() } else { 0 }
    }

    fn arguments(&self) -> Vec<ValueId> {
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
    /// [`Program::prepare`].
    ///
    /// # Errors
    /// If the parameters have too few levels, or too little room for results at level 0, or the batch is no power of
    /// two up to the number of slots.
    pub fn new(
        design: &Design,
        parameters: &CkksParameters,
        arrangement: impl Into<Arrangement>,
    ) -> Result<Self, NetworkError> {
        let (prices, arrangement) = (Prices::new(&Encoder::new(parameters)), arrangement.into());
        Planner { design, prices: &prices, arrangement, values: true }.plan()
    }

    /// The same program in at most `memory` bytes, if that is possible: the largest maps encode their weights at each
    /// run and do not keep them. So a run takes more time.
    ///
    /// # Errors
    /// If it takes more memory even so; the message has the number.
    pub fn within(mut self, memory: u64) -> Result<Self, NetworkError> {
        let found = self.stream(memory)?;
        if found > memory {
            let found = format!("{} MiB of memory without kept weights", found >> 20);
            return Err(NetworkError::mismatch(PLAN, found, format!("{} MiB; allow more", memory >> 20)));
        }
        Ok(self)
    }

    /// Streams the weights of the largest maps until the program takes at most `memory` bytes, or none are kept. Returns
    /// the bytes that it takes.
    pub(crate) fn stream(&mut self, memory: u64) -> Result<u64, NetworkError> {
        let encoder = Encoder::new(&self.parameters);
        while self.memory() > memory {
            let sizes = self.steps.iter().enumerate().map(|(step, operation)| (operation.kept_bytes(), step));
            let Some((_, largest)) = sizes.max().filter(|(bytes, _)| *bytes > 0) else { break };
            if let Operation::Affine { map, .. } = &mut self.steps[largest] {
                self.prepared_bytes -= map.prepared_bytes(&self.parameters);
                map.stream();
                self.prepared_bytes += map.prepared_bytes(&self.parameters);
            }
            if self.prepared_bytes <= memory || self.steps.iter().all(|step| step.kept_bytes() == 0) {
                self.count(&encoder)?;
            }
        }
        Ok(self.memory())
    }

    /// Bytes of memory of weights, of one run and of the keys of one client.
    pub fn memory(&self) -> u64 {
        self.prepared_bytes + self.working_bytes + self.keys.memory_bytes(self.parameters.ring())
    }

    /// A program that can only be counted, not run: all its weights are 1.
    pub(crate) fn counted(design: &Design, prices: &Prices, arrangement: Arrangement) -> Result<Self, NetworkError> {
        Planner { design, prices, arrangement, values: false }.plan()
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

    /// The level of the inputs, which is the number of levels. All outputs are at level 0.
    pub fn input_level(&self) -> usize {
        self.input_level
    }

    /// The scale of the inputs. Outputs have it too, unless they are powers or products.
    pub fn scale(&self) -> f64 {
        self.parameters.scale()
    }

    /// Bytes of a query: all vectors of all inputs, encrypted with the secret key.
    pub fn query_bytes(&self) -> u64 {
        let vectors: usize = self.input_ports.iter().map(|port| port.layout().vectors()).sum();
        (vectors * SeededCiphertext::byte_len(&self.parameters, self.input_level)) as u64
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Bytes of memory of weights, biases and polynomials of slots. What is not yet encoded counts as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        self.prepared_bytes
    }

    /// Peak memory of one run in bytes. It includes the results, but not the inputs, the keys and
    /// [`Program::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The work of one run.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// The maps that need rotations: the number of each one's step, its level, and what it consists of.
    pub fn maps(&self) -> Vec<(ValueId, usize, StepCounts)> {
        let map = |(index, step): (usize, &Operation)| match step {
            Operation::Affine { map, .. } => Some((ValueId(index), self.levels[index] + 1, map.counts()?)),
            _ => None,
        };
        self.steps.iter().enumerate().filter_map(map).collect()
    }

    /// Predicted seconds of one run, without the encoding of weights.
    pub fn seconds(&self, model: &CostModel) -> f64 {
        model.seconds(&self.cost)
    }

    /// Encodes the weights, unless that was done. Weights of maps without rotations are encoded at the first run.
    ///
    /// # Errors
    /// If a weight does not fit its level.
    pub fn prepare(&self, encoder: &Encoder) -> Result<(), NetworkError> {
        for step in &self.steps {
            if let Operation::Affine { map, .. } = step {
                map.encode(encoder)?;
            }
        }
        Ok(())
    }

    /// The vectors of each output, at level 0, for the vectors of each input at [`Program::input_level`] and
    /// [`Program::scale`].
    ///
    /// # Errors
    /// [`NetworkError::Mismatch`] if the number of inputs or of vectors does not fit; [`NetworkError::Ckks`] if their
    /// level or scale is not the planned one, or keys are missing.
    pub fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[Vec<A::Vector>],
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
        let mut values: Vec<Option<Vec<A::Vector>>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let value = match step {
                // Kept by the caller; see `argument`.
                Operation::Input => None,
                _ => {
                    let argument = |value: ValueId| {
                        let input =
                            self.inputs.iter().position(|input| *input == value).map(|at| inputs[at].as_slice());
                        input.or(values[value.index()].as_deref()).ok_or_else(missing)
                    };
                    Some(self.result(arithmetic, step, index, argument)?)
                }
            };
            values.push(value);
            for argument in step.arguments() {
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

    fn check_input(&self, level: usize, scale: f64) -> Result<(), CkksError> {
        if level < self.input_level {
            return Err(CkksError::Level { operation: RUN, found: level, needed: self.input_level });
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
        let level = self.levels[index];
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

    /// Runs the program without values, for its keys, its cost and its memory.
    pub(crate) fn count(&mut self, encoder: &Encoder) -> Result<(), NetworkError> {
        let simulator = Simulator::counting(encoder);
        let vectors = |port: &Port| encrypt_nothing(&simulator, port.layout(), self.input_level);
        let inputs = self.input_ports.iter().map(vectors).collect::<Result<Vec<_>, _>>()?;
        self.working_bytes = simulator.working_bytes(|simulator| self.evaluate(simulator, &inputs))?;
        self.keys = simulator.key_plan();
        self.cost = simulator.cost();
        Ok(())
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
