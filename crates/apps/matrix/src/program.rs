//! Planned graphs, and their runs on encrypted inputs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, Complex64, Evaluator, Simulator, WorstCase};
use unspoken_encrypted_matrix::{EncryptedMatrix, Graph, Layout, encode_tiles};
use unspoken_rlwe::RlweError;

use crate::bytes::{Object, Reader, Writer};
use crate::error::MatrixError;
use crate::graph_bytes::{read_graph, write_graph};
use crate::keys::Keys;
use crate::messages::{EncryptedInput, EncryptedInputs, EncryptedResult, read_layout, write_layout};
use crate::planner::{Choice, Options, choose};
use crate::precision::Precision;
use crate::shape::{ArrayShape, Axes, check_graph, is_flat};
use crate::signature::{Input, Signature};

/// Input of the planner.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSource {
    /// The graph to compute; the last node is the result.
    pub graph: Graph,
    /// Axes of each input's array, in the order of the graph's inputs.
    pub inputs: Vec<Axes>,
    /// Axes of the result's array.
    pub output: Axes,
    /// Options of the planner.
    pub options: Options,
}

/// A graph planned for one parameter set, layout and level.
pub struct Program {
    graph: Graph,
    signature: Signature,
    inner: unspoken_encrypted_matrix::MatrixProgram,
    most_keys: Option<usize>,
    /// Computed when it is first needed.
    precision: OnceLock<Precision>,
}

/// Errors of slots.
#[derive(Default)]
struct Errors {
    worst: f64,
    squares: f64,
    count: usize,
}

impl Errors {
    fn add(&mut self, noisy: Complex64, exact: Complex64) {
        let error = (noisy - exact).norm();
        self.worst = self.worst.max(error);
        self.squares += error * error;
        self.count += 1;
    }

    /// Root mean square; 0 without slots.
    fn rms(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }
}

/// A simulation of fewer entries than this is repeated.
const MIN_ENTRIES: usize = 64;
/// Error of a decoding, which computes with numbers of 53 bits, relative to the largest entry.
const DECODING: f64 = 1.0 / (1u64 << 46) as f64;
/// Maximum number of simulations.
const MAX_RUNS: u64 = 4;

impl Program {
    /// Plans the last node of a graph.
    ///
    /// # Errors
    /// If no preset has enough levels, or room for the values of inputs as large as declared; if options do not exist,
    /// the graph is too large, or axes do not match its inputs and its result.
    pub fn plan(source: ProgramSource) -> Result<Self, MatrixError> {
        const OPERATION: &str = "plan an expression";
        let ProgramSource { graph, inputs, output, options } = source;
        check_graph(&graph)?;
        let needed = graph.inputs().count();
        if inputs.len() != needed {
            let found = format!("axes for {} inputs", inputs.len());
            return Err(MatrixError::mismatch(OPERATION, found, format!("those of {needed}")));
        }
        let named = graph.inputs().zip(&inputs).map(|((name, matrix), &axes)| {
            Ok(Input { name: name.into(), shape: ArrayShape { matrix, axes }.check("input")? })
        });
        let inputs = named.collect::<Result<_, MatrixError>>()?;
        let Choice { preset, inner, magnitude } = choose(&graph, &options)?;
        let matrix = graph.nodes().last().map_or((0, 0), |last| last.shape());
        let output = ArrayShape { matrix, axes: output }.check(OPERATION)?;
        let (layout, level, keys) = (inner.layout(), inner.level(), inner.key_plan().clone());
        let (batch, largest) = (options.batch, options.largest());
        let signature = Signature { preset, layout, level, batch, inputs, output, keys, largest, magnitude };
        Ok(Program { graph, signature, inner, most_keys: options.most_keys, precision: OnceLock::new() })
    }

    /// The part of the program that the client knows.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The level of the result.
    pub fn output_level(&self) -> usize {
        self.inner.output_level()
    }

    /// Predicted time in seconds of a run with the whole batch.
    pub fn seconds(&self) -> f64 {
        self.inner.seconds() * self.signature.groups() as f64
    }

    /// Number of key switches of a run with the whole batch.
    pub fn key_switches(&self) -> u64 {
        self.inner.cost().total_key_switches() * self.signature.groups() as u64
    }

    /// Bytes of the encoded plaintexts and masks, which stay in memory after their first use.
    pub fn prepared_bytes(&self) -> u64 {
        self.inner.prepared_bytes()
    }

    /// Maximum number of bytes of ciphertexts that a run holds at one time, for one group of the batch.
    pub fn working_bytes(&self) -> u64 {
        self.inner.working_bytes()
    }

    /// The method of each product of two encrypted matrices.
    pub fn methods(&self) -> Vec<String> {
        self.inner.methods().iter().map(ToString::to_string).collect()
    }

    /// Runs the program on encrypted inputs, which may be in several messages. `progress` receives the number of groups
    /// of the batch that are done, and the number of all groups. The first run computes [`Program::precision`] too,
    /// which the result contains.
    ///
    /// # Errors
    /// If inputs or keys are missing (the error names all of them) or do not match, the error of the result may be as
    /// large as its entries, or the work was cancelled.
    pub fn run(
        &self,
        keys: &Keys,
        inputs: &[&EncryptedInputs],
        mut progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<EncryptedResult, MatrixError> {
        const OPERATION: &str = "run a program";
        let preset = &self.signature.preset;
        preset.check_same(OPERATION, "keys", &keys.preset)?;
        for part in inputs {
            preset.check_same(OPERATION, "inputs", &part.preset)?;
            if part.secret_id != keys.secret_id {
                let needed = "keys and inputs made by one secret";
                return Err(MatrixError::mismatch(OPERATION, "inputs of another secret than the keys", needed));
            }
        }
        let entries = self.entries(inputs)?;
        let evaluator = Evaluator::new(preset.encoder(), keys.expanded()?).with_cancel(cancel);
        evaluator.require_keys("the program", &self.signature.keys)?;
        let precision = self.precision()?;
        precision.check(OPERATION)?;
        let (count, mut groups) = (self.signature.groups(), Vec::new());
        for group in 0..count {
            progress(group, count);
            if cancel.load(Ordering::Relaxed) {
                return Err(RlweError::Interrupted.into());
            }
            let expand = |entry: &&EncryptedInput| {
                // An input without a batch is the same for all groups.
                let held = entry.groups.get(group).or(entry.groups.first());
                held.map(|held| held.expand(preset.parameters())).ok_or_else(|| missing(&[&entry.name]))
            };
            let given: Vec<EncryptedMatrix<Ciphertext>> = entries.iter().map(expand).collect::<Result<_, _>>()?;
            groups.push(self.evaluate(&evaluator, &given)?);
        }
        progress(count, count);
        let (shape, batch) = (self.signature.output, self.signature.batch);
        Ok(EncryptedResult { preset: preset.clone(), secret_id: keys.secret_id, shape, batch, precision, groups })
    }

    /// The entry of each input, in the order of the inputs.
    fn entries<'a>(&self, inputs: &[&'a EncryptedInputs]) -> Result<Vec<&'a EncryptedInput>, MatrixError> {
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for input in &self.signature.inputs {
            let mut entries = inputs.iter().flat_map(|part| &part.entries);
            match entries.find(|entry| entry.name == input.name) {
                Some(entry) => {
                    if entries.any(|entry| entry.name == input.name) {
                        let found = format!("input '{}' twice", input.name);
                        return Err(MatrixError::mismatch("run a program", found, "each once"));
                    }
                    self.check_entry(input, entry)?;
                    found.push(entry);
                }
                None => absent.push(input.name.as_str()),
            }
        }
        if absent.is_empty() { Ok(found) } else { Err(missing(&absent)) }
    }

    fn check_entry(&self, input: &Input, entry: &EncryptedInput) -> Result<(), MatrixError> {
        let groups = if input.shape.axes.batch { self.signature.groups() } else { 1 };
        let fits = |group: &EncryptedMatrix<_>| {
            group.layout() == self.signature.layout && group.batch() == self.signature.group()
        };
        let batch = if input.shape.axes.batch { self.signature.batch } else { 1 };
        if entry.batch != batch {
            let found = format!("input '{}' with a batch of {}", input.name, entry.batch);
            return Err(MatrixError::mismatch("run a program", found, format!("a batch of {batch}")));
        }
        if entry.shape == input.shape && entry.groups.len() == groups && entry.groups.iter().all(fits) {
            return Ok(());
        }
        let found = format!("input '{}' encrypted for another program", input.name);
        Err(MatrixError::mismatch("run a program", found, "inputs encrypted for this one"))
    }

    /// Runs the program once for one group of the batch, with one encrypted matrix for each input.
    pub(crate) fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<EncryptedMatrix<A::Vector>, MatrixError> {
        Ok(self.inner.run(arithmetic, inputs)?)
    }

    /// The error of results, by a simulation of the worst case, and the bound of their entries. The first call takes
    /// about as long as a run of one group; as four runs, if the result has few entries.
    ///
    /// The simulated inputs all have the largest absolute value, and every difference and every negative weight adds up
    /// ([`WorstCase`]): errors of products grow with the values.
    ///
    /// # Errors
    /// If the simulated values do not fit their scale, which the plan rules out.
    pub fn precision(&self) -> Result<Precision, MatrixError> {
        if let Some(precision) = self.precision.get() {
            return Ok(*precision);
        }
        let error = self.simulated_error()?;
        let precision = Precision { error, largest: self.signature.magnitude };
        Ok(*self.precision.get_or_init(|| precision))
    }

    fn simulated_error(&self) -> Result<f64, MatrixError> {
        let (mut entries, mut slots) = (Errors::default(), Errors::default());
        let Signature { layout, largest, .. } = self.signature;
        for run in 0..MAX_RUNS {
            let simulator = Simulator::new(self.signature.preset.encoder(), run).with_sampled_encodings();
            let given = self.signature.inputs.iter().map(|input| {
                let group = vec![Array2::from_elem(input.shape.stored(layout), largest); self.signature.group()];
                let scale = self.signature.preset.parameters().scale();
                encode_tiles(layout, &group)?
                    .try_map(|slots| Ok::<_, MatrixError>(simulator.encrypt(slots, self.signature.level, scale)?))
            });
            let given = given.collect::<Result<Vec<_>, MatrixError>>()?;
            let result = self.evaluate(&WorstCase::new(&simulator), &given)?;
            if let Some(overflow) = simulator.overflows().first() {
                let found = format!("values beyond the modulus in '{}'", overflow.operation);
                let needed = "a plan with room for them; this is a bug".into();
                return Err(MatrixError::Magnitude { operation: "simulate a run", found, needed });
            }
            let places = entry_slots(layout, self.signature.output.stored(layout), self.signature.group());
            for (tile, places) in result.tiles().iter().zip(places) {
                let (noisy, exact) = (tile.noisy(), tile.exact());
                let mut largest = 0.0f64;
                for slot in places {
                    let (Some(&noisy), Some(&exact)) = (noisy.get(slot), exact.get(slot)) else { continue };
                    largest = largest.max(exact.norm());
                    entries.add(noisy, exact);
                }
                let others = noisy.iter().zip(exact).filter(|(_, exact)| exact.norm() <= largest);
                others.for_each(|(&noisy, &exact)| slots.add(noisy, exact));
            }
            if entries.count >= MIN_ENTRIES {
                break;
            }
        }
        let rms = entries.rms().max(slots.rms());
        Ok((4.0 * entries.worst).max(16.0 * rms) + DECODING * self.signature.magnitude)
    }

    /// Serialises the program, constants included: batch, bound on keys, largest entry of inputs, tile, blocks, output,
    /// graph, checksum. The reader plans again.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::Program, &self.signature.preset);
        out.u32(self.signature.batch);
        out.u32(self.most_keys.map_or(0, |most| most.saturating_add(1)));
        out.f64(self.signature.largest);
        write_layout(self.signature.layout, &mut out);
        self.signature.output.write(&mut out);
        write_graph(&self.graph, self.signature.inputs.iter().map(|input| input.shape.axes), &mut out);
        out.finish()
    }

    /// Reads the output of [`Program::to_bytes`] and plans it; insecure presets only if `accept_insecure`. Planning
    /// takes seconds for large expressions: limit who may send them.
    ///
    /// # Errors
    /// [`MatrixError::Decode`] for anything else, or an error of [`Program::plan`].
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        Self::plan(Self::decode(bytes, accept_insecure)?)
    }

    /// Like [`Program::from_bytes`], but without planning: returns the input of the planner, to which a cache may be
    /// added.
    ///
    /// # Errors
    /// [`MatrixError::Decode`] for anything except the output of [`Program::to_bytes`].
    pub fn decode(bytes: &[u8], accept_insecure: bool) -> Result<ProgramSource, MatrixError> {
        let (mut input, preset) = Reader::new(Object::Program, bytes, accept_insecure)?;
        let (batch, most_keys) = (input.u32()?, input.u32()?.checked_sub(1));
        let largest = Some(input.bound()?);
        let layout = read_layout(&mut input, &preset)?;
        let (output, (graph, inputs)) = (ArrayShape::read(&mut input)?, read_graph(&mut input)?);
        let result = graph.nodes().last().map_or((0, 0), |last| last.shape());
        if output.matrix != result {
            return Err(input.refuse(format!("an output of shape {:?}", output.matrix), format!("{result:?}")));
        }
        input.finish()?;
        let preset = Some(preset.parameters().name().to_owned());
        let (tile, blocks, one_row) = (Some(layout.dim()), Some(layout.blocks()), Some(is_flat(layout)));
        let options = Options { preset, batch, most_keys, tile, blocks, one_row, largest, cache: None };
        Ok(ProgramSource { graph, inputs, output: output.axes, options })
    }
}

/// For each tile, the slots of the entries of a matrix of this shape.
fn entry_slots(layout: Layout, (rows, columns): (usize, usize), batch: usize) -> Vec<Vec<usize>> {
    let ((height, width), (_, across)) = (layout.tile(), layout.grid((rows, columns)));
    let mut slots = vec![Vec::new(); layout.tiles((rows, columns))];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let tile = row / height * across + column / width;
        slots[tile].extend((0..batch).map(|p| layout.slot(p, row % height, column % width)));
    }
    slots
}

fn missing(names: &[&str]) -> MatrixError {
    let found = format!("no input {}", names.join(", "));
    MatrixError::mismatch("run a program", found, "all inputs: encrypt them and pass them")
}
