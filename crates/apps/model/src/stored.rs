//! A compiled model's two files: `model.json` and `model.safetensors`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_network::{Function, Network, NetworkBuilder, Options, Order, Ranges, SparseMatrix, Step, ValueId};
use unspoken_onnx::Outputs;
use unspoken_store::{Dtype, FilePair, ModelFiles, ModelHasher, ModelId};

use crate::compiled::CompiledModel;
use crate::error::ModelError;
use crate::interface::{InputShape, Interface};
use crate::report::Report;

const PAIR: FilePair = FilePair::new("model", "unspoken-compiled-model", 3);
const TENSOR: &str = "numbers";

/// Numbers of a file, at most.
const MAX_NUMBERS: usize = 1 << 28;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    model: Body,
    weights_blake3: String,
    /// Has the id of the model and its numbers, and is not a part of what it identifies.
    report: Report,
}

/// A compiled model without its numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    preset: String,
    batch: usize,
    order: Order,
    memory: u64,
    error: f64,
    options: Options,
    inputs: Vec<InputShape>,
    result_shapes: Vec<Vec<usize>>,
    /// What clients compute: JSON of `Outputs`.
    outputs: String,
    steps: Vec<StoredStep>,
    results: Vec<usize>,
    numbers: usize,
}

impl Body {
    /// The id of a model with these numbers, as bytes.
    fn id(&self, numbers: &[u8]) -> ModelId {
        let body = serde_json::to_vec(self).unwrap_or_default();
        ModelHasher::new("unspoken 2026 compiled model").bytes(&body).bytes(numbers).finish()
    }
}

/// A step of a network; its numbers are in the tensor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum StoredStep {
    Input {
        name: String,
        size: usize,
    },
    /// The bias; then arguments with the numbers of entries of their matrices, each entry of three numbers: row,
    /// column, value.
    Affine {
        terms: Vec<(usize, usize)>,
        size: usize,
    },
    Function {
        input: usize,
        function: Function,
    },
    Product {
        a: usize,
        b: usize,
    },
}

impl CompiledModel {
    /// Writes the two files into a directory, which is created when absent.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), ModelError> {
        let (model, numbers) = self.parts();
        let weights_blake3 = PAIR.write_weights(directory, TENSOR, Dtype::F64, vec![model.numbers], &numbers)?;
        Ok(PAIR.write_json(directory, &Content { model, weights_blake3, report: self.report.clone() })?)
    }

    /// Reads and checks the two files.
    ///
    /// # Errors
    /// If a file is absent, damaged, or not of this version.
    pub fn load(directory: &Path) -> Result<Self, ModelError> {
        let files = ModelFiles::from(directory);
        let Content { model: body, weights_blake3, report }: Content = PAIR.read_json(files)?;
        if body.numbers > MAX_NUMBERS {
            return Err(ModelError::file(format!("{} numbers", body.numbers), format!("at most {MAX_NUMBERS}")));
        }
        let bytes = PAIR.read_weights(files, &weights_blake3, TENSOR, Dtype::F64, &[body.numbers])?;
        if body.id(&bytes) != report.id {
            return Err(ModelError::file(format!("model {}", report.id), format!("its sum, {}", body.id(&bytes))));
        }
        let (words, _) = bytes.as_chunks();
        let numbers: Vec<f64> = words.iter().map(|word| f64::from_le_bytes(*word)).collect();
        let mut numbers = Numbers(&numbers);
        let network = network(&body, &mut numbers)?;
        let ranges = Ranges::from_numbers(&network, numbers.0)?;
        let outputs = Outputs::from_bytes(body.outputs.as_bytes(), &body.result_shapes)?;
        let Body { preset, batch, order, memory, error, options, inputs, .. } = body;
        inputs.iter().try_for_each(InputShape::check_elements)?;
        let interface = Interface { inputs, outputs };
        Ok(CompiledModel { interface, network, ranges, options, preset, batch, order, memory, error, report })
    }

    /// The same with its id.
    pub(crate) fn identified(self) -> Self {
        let (body, numbers) = self.parts();
        CompiledModel { report: Report { id: body.id(&numbers), ..self.report }, ..self }
    }

    /// What is written, and its numbers as bytes.
    fn parts(&self) -> (Body, Vec<u8>) {
        let (steps, mut numbers) = stored(&self.network);
        numbers.extend(self.ranges.to_numbers());
        let body = Body {
            preset: self.preset.clone(),
            batch: self.batch,
            order: self.order,
            memory: self.memory,
            error: self.error,
            options: self.options,
            inputs: self.interface.inputs.clone(),
            result_shapes: self.interface.outputs.result_shapes().to_vec(),
            outputs: String::from_utf8_lossy(&self.interface.outputs.to_bytes()).into_owned(),
            steps,
            results: self.network.outputs().iter().map(|(_, value)| value.index()).collect(),
            numbers: numbers.len(),
        };
        (body, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }
}

/// The steps of a network, and their numbers.
fn stored(network: &Network) -> (Vec<StoredStep>, Vec<f64>) {
    let mut numbers = Vec::new();
    let mut of_step = |(place, step): (usize, &Step)| match step {
        Step::Affine { terms, bias } => {
            numbers.extend(bias);
            let term = |(value, matrix): &(ValueId, SparseMatrix)| {
                matrix.entries().for_each(|(row, column, x)| numbers.extend([row as f64, column as f64, x]));
                (value.index(), matrix.nonzero())
            };
            let terms = terms.iter().map(term).collect();
            StoredStep::Affine { terms, size: bias.len() }
        }
        Step::Function { input, function } => StoredStep::Function { input: input.index(), function: *function },
        Step::Product(a, b) => StoredStep::Product { a: a.index(), b: b.index() },
        Step::Input { name } => StoredStep::Input { name: name.clone(), size: network.sizes()[place] },
    };
    let steps = network.steps().iter().enumerate().map(&mut of_step).collect();
    (steps, numbers)
}

/// The numbers that were not read yet.
struct Numbers<'a>(&'a [f64]);

impl Numbers<'_> {
    fn take(&mut self, count: usize) -> Result<&[f64], ModelError> {
        let split = self.0.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| ModelError::file("too few numbers", "those of all steps"))?;
        self.0 = rest;
        Ok(taken)
    }
}

fn network(body: &Body, numbers: &mut Numbers<'_>) -> Result<Network, ModelError> {
    let mut builder = NetworkBuilder::new();
    let mut values: Vec<ValueId> = Vec::new();
    for step in &body.steps {
        let known = |place: usize| {
            values.get(place).copied().ok_or_else(|| ModelError::file(format!("value {place}"), "an earlier one"))
        };
        let value = match step {
            StoredStep::Input { name, size } => builder.input(name, *size)?,
            StoredStep::Function { input, function } => builder.function(known(*input)?, *function)?,
            StoredStep::Product { a, b } => builder.product(known(*a)?, known(*b)?)?,
            StoredStep::Affine { terms, size } => {
                let mut matrices = Vec::new();
                // There is a number for each row, so the file is as long as what is made of it.
                let bias = numbers.take(*size)?.to_vec();
                for (value, entries) in terms {
                    let value = known(*value)?;
                    let (triples, _) = numbers.take(entries.saturating_mul(3))?.as_chunks();
                    let entries = triples.iter().map(|[row, column, x]| (*row as usize, *column as usize, *x));
                    matrices.push((value, SparseMatrix::new((*size, builder.size(value)?), entries)?));
                }
                builder.affine(matrices, bias)?
            }
        };
        values.push(value);
    }
    let names: Vec<String> = (0..body.results.len()).map(|result| format!("result {result}")).collect();
    let result = |(name, place): (&String, &usize)| {
        let value = values.get(*place).copied();
        let value = value.ok_or_else(|| ModelError::file(format!("result {place}"), "a value of a step"))?;
        Ok((name.clone(), value))
    };
    let results = names.iter().zip(&body.results).map(result).collect::<Result<Vec<_>, ModelError>>()?;
    let results: Vec<(&str, ValueId)> = results.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Ok(builder.finish(&results)?)
}
