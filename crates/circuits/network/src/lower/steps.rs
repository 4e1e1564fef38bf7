//! Nodes of a model as steps of a network.

use unspoken_onnx::{Activation, InputKind, LayerNorm, Node, Operation, Tensor};

use super::maps::{self, Rows, size};
use super::{MAX_ENTRIES, table_rows};
use crate::error::NetworkError;
use crate::function::Function;
use crate::matrix::SparseMatrix;
use crate::network::{Network, NetworkBuilder, ValueId};

const LOWER: &str = "lower an operation";

/// The steps so far.
pub(super) struct Lowering<'a> {
    model: &'a unspoken_onnx::Network,
    builder: NetworkBuilder,
    /// The value of each value of the model.
    values: Vec<ValueId>,
}

/// One term of an affine map, and the number of its columns.
struct Term {
    value: ValueId,
    rows: Rows,
    columns: usize,
}

impl<'a> Lowering<'a> {
    pub fn new(model: &'a unspoken_onnx::Network) -> Self {
        Lowering { model, builder: NetworkBuilder::new(), values: Vec::new() }
    }

    pub fn input(&mut self, input: usize) -> Result<(), NetworkError> {
        let declared = &self.model.inputs()[input];
        let each = match declared.kind {
            InputKind::Float => 1,
            InputKind::Index => table_rows(self.model, input)?,
        };
        let value = self.builder.input(&declared.name, size(&declared.shape) * each)?;
        self.values.push(value);
        Ok(())
    }

    pub fn finish(self) -> Result<Network, NetworkError> {
        let names: Vec<String> = (0..self.model.results().len()).map(|result| format!("result {result}")).collect();
        let values = self.model.results().iter().map(|result| self.values[result.index()]);
        let outputs: Vec<(&str, ValueId)> = names.iter().map(String::as_str).zip(values).collect();
        self.builder.finish(&outputs)
    }

    pub fn node(&mut self, place: usize) -> Result<(), NetworkError> {
        let node = &self.model.nodes()[place];
        let value = self.lowered(node).map_err(|error| named(node, error))?;
        self.values.push(value);
        Ok(())
    }

    /// The shape of an operand.
    fn shape(&self, node: &Node, operand: usize) -> &'a [usize] {
        node.inputs.get(operand).and_then(|value| self.model.shape(*value)).unwrap_or_default()
    }

    fn operand(&self, node: &Node, operand: usize) -> ValueId {
        self.values[node.inputs[operand].index()]
    }

    /// An affine map of the first operand.
    fn map(&mut self, node: &Node, rows: Rows, bias: Option<Vec<f64>>) -> Result<ValueId, NetworkError> {
        let term = Term { value: self.operand(node, 0), rows, columns: size(self.shape(node, 0)) };
        self.affine(vec![term], bias)
    }

    fn affine(&mut self, terms: Vec<Term>, bias: Option<Vec<f64>>) -> Result<ValueId, NetworkError> {
        let count = terms.first().map_or(0, |term| term.rows.len());
        let matrix = |Term { value, rows, columns }: Term| {
            let entries = rows.into_iter().enumerate();
            let entries =
                entries.flat_map(|(row, entries)| entries.into_iter().map(move |(column, x)| (row, column, x)));
            Ok((value, SparseMatrix::new((count, columns), entries)?))
        };
        let terms = terms.into_iter().map(matrix).collect::<Result<Vec<_>, NetworkError>>()?;
        self.builder.affine(terms, bias.unwrap_or_else(|| vec![0.0; count]))
    }

    /// Refuses an operation whose matrix has too many entries, before it is made.
    fn check_entries(&self, node: &Node) -> Result<(), NetworkError> {
        let of_each = match &node.operation {
            Operation::Linear(linear) => linear.weight.shape()[1],
            Operation::Conv(conv) => conv.weight.shape()[1..].iter().product(),
            Operation::AveragePool { window, .. } => size(&window.kernel),
            Operation::LayerNorm(norm) => 2 * normed(node, norm),
            Operation::Embedding { .. } => table_rows(self.model, node.inputs[0].index())?,
            Operation::Reduce { axes, .. } => axes.iter().map(|axis| self.shape(node, 0)[*axis]).product(),
            _ => 2,
        };
        let found = size(&node.shape).saturating_mul(of_each);
        if found <= MAX_ENTRIES {
            return Ok(());
        }
        let needed = format!("at most {MAX_ENTRIES}; use a smaller model");
        Err(NetworkError::mismatch(LOWER, format!("a matrix of {found} entries"), needed))
    }

    fn lowered(&mut self, node: &Node) -> Result<ValueId, NetworkError> {
        self.check_entries(node)?;
        let (operand, shape) = (self.shape(node, 0), node.shape.as_slice());
        let rows = match &node.operation {
            Operation::Linear(linear) => {
                let (rows, bias) = maps::linear(linear, operand);
                return self.map(node, rows, Some(bias));
            }
            Operation::Conv(conv) => {
                let (rows, bias) = maps::convolution(conv, operand, shape);
                return self.map(node, rows, Some(bias));
            }
            Operation::Affine { scale, shift } => {
                let mut rows = maps::broadcast(operand, shape);
                scaled(&mut rows, &maps::values(scale, shape));
                return self.map(node, rows, Some(maps::values(shift, shape)));
            }
            Operation::Add => return self.sum(node, 1.0),
            Operation::Sub => return self.sum(node, -1.0),
            Operation::Mul => return self.product(node),
            Operation::Activation(activation) => return self.activation(node, activation),
            Operation::LayerNorm(norm) => return self.layer_norm(node, norm),
            Operation::Concat { axis } => return self.concat(node, *axis),
            Operation::Reshape => return Ok(self.operand(node, 0)),
            Operation::MaxPool(_) => {
                let needed = "an average: a maximum of encrypted numbers has no good polynomial; train with average \
                              pooling";
                return Err(NetworkError::mismatch(LOWER, "a maximum over windows", needed));
            }
            Operation::AveragePool { window, count_include_pad } => {
                maps::average(window, *count_include_pad, operand, shape)
            }
            Operation::Transpose { axes } => maps::transpose(axes, operand, shape),
            Operation::Select { axis, places } => maps::select(*axis, places, operand, shape),
            Operation::Pad { amounts } => maps::pad(amounts, operand, shape),
            Operation::Reduce { mean, axes, .. } => {
                let count: usize = axes.iter().map(|axis| operand[*axis]).product();
                maps::reduce(axes, if *mean { 1.0 / count.max(1) as f64 } else { 1.0 }, operand)
            }
            Operation::Embedding { table } => return self.embedding(node, table),
        };
        self.map(node, rows, None)
    }

    /// The sum of two operands, the second one times a sign.
    fn sum(&mut self, node: &Node, sign: f64) -> Result<ValueId, NetworkError> {
        let term = |operand: usize| {
            let shape = self.shape(node, operand);
            let mut rows = maps::broadcast(shape, &node.shape);
            if operand == 1 {
                scaled(&mut rows, &vec![sign; size(&node.shape)]);
            }
            Term { value: self.operand(node, operand), rows, columns: size(shape) }
        };
        let terms = vec![term(0), term(1)];
        self.affine(terms, None)
    }

    fn product(&mut self, node: &Node) -> Result<ValueId, NetworkError> {
        let [a, b] = [0, 1].map(|operand| self.broadcast(node, operand));
        let (a, b) = (a?, b?);
        if a == b { self.builder.function(a, Function::Power(2)) } else { self.builder.product(a, b) }
    }

    /// An operand in the shape of the result.
    fn broadcast(&mut self, node: &Node, operand: usize) -> Result<ValueId, NetworkError> {
        let (shape, value) = (self.shape(node, operand), self.operand(node, operand));
        if shape == node.shape {
            return Ok(value);
        }
        let term = Term { value, rows: maps::broadcast(shape, &node.shape), columns: size(shape) };
        self.affine(vec![term], None)
    }

    fn concat(&mut self, node: &Node, axis: usize) -> Result<ValueId, NetworkError> {
        let mut first = 0;
        let mut terms = Vec::new();
        for operand in 0..node.inputs.len() {
            let shape = self.shape(node, operand);
            let rows = maps::part(axis, first, shape, &node.shape);
            terms.push(Term { value: self.operand(node, operand), rows, columns: size(shape) });
            first += shape[axis];
        }
        self.affine(terms, None)
    }

    fn embedding(&mut self, node: &Node, table: &Tensor) -> Result<ValueId, NetworkError> {
        let count = table_rows(self.model, node.inputs[0].index())?;
        let (indices, width) = (size(self.shape(node, 0)), table.shape()[1]);
        let row = |index: usize, at: usize| {
            (0..count).map(|row| (index * count + row, f64::from(table[[row, at].as_slice()]))).collect::<Vec<_>>()
        };
        let rows = (0..indices).flat_map(|index| (0..width).map(move |at| (index, at)));
        let rows = rows.map(|(index, at)| row(index, at)).collect();
        let term = Term { value: self.operand(node, 0), rows, columns: indices * count };
        self.affine(vec![term], None)
    }

    fn activation(&mut self, node: &Node, activation: &Activation) -> Result<ValueId, NetworkError> {
        let value = self.operand(node, 0);
        if let Activation::PRelu { slope } = activation {
            return self.prelu(node, &maps::values(slope, &node.shape));
        }
        self.builder.function(value, function(activation)?)
    }

    /// `relu(x) - slope * relu(-x)`: each element has its own slope.
    fn prelu(&mut self, node: &Node, slopes: &[f64]) -> Result<ValueId, NetworkError> {
        let count = slopes.len();
        let signs = (0..2 * count).map(|row| vec![(row % count, if row < count { 1.0 } else { -1.0 })]).collect();
        let both = self.map(node, signs, None)?;
        let both = self.builder.function(both, Function::Relu)?;
        let rows = slopes.iter().enumerate().map(|(row, slope)| vec![(row, 1.0), (count + row, -slope)]).collect();
        self.affine(vec![Term { value: both, rows, columns: 2 * count }], None)
    }

    /// The variance is an affine map of squares, and its inverse root a function.
    fn layer_norm(&mut self, node: &Node, norm: &LayerNorm) -> Result<ValueId, NetworkError> {
        let count = size(&node.shape);
        let group = normed(node, norm);
        let mean =
            |row: usize| (row / group * group..(row / group + 1) * group).map(|column| (column, 1.0 / group as f64));
        let centre =
            |row: usize| mean(row).map(move |(column, part)| (column, f64::from(u8::from(column == row)) - part));
        let centred = self.map(node, (0..count).map(|row| centre(row).collect()).collect(), None)?;
        let squares = self.builder.function(centred, Function::Power(2))?;
        let variances =
            Term { value: squares, rows: (0..count).map(|row| mean(row).collect()).collect(), columns: count };
        let variances = self.affine(vec![variances], Some(vec![f64::from(norm.epsilon); count]))?;
        let inverse = self.builder.function(variances, Function::InverseRoot)?;
        let normed = self.builder.product(centred, inverse)?;
        let scale = maps::values(&norm.scale, &node.shape);
        let rows = scale.into_iter().enumerate().map(|(row, scale)| vec![(row, scale)]).collect();
        let term = Term { value: normed, rows, columns: count };
        self.affine(vec![term], Some(maps::values(&norm.shift, &node.shape)))
    }
}

/// Numbers that are normalised together.
fn normed(node: &Node, norm: &LayerNorm) -> usize {
    size(&node.shape[node.shape.len().saturating_sub(norm.axes)..]).max(1)
}

/// Multiplies each row by a factor.
fn scaled(rows: &mut Rows, factors: &[f64]) {
    for (row, factor) in rows.iter_mut().zip(factors) {
        row.iter_mut().for_each(|(_, value)| *value *= factor);
    }
}

fn function(activation: &Activation) -> Result<Function, NetworkError> {
    let number = |x: &f32| f64::from(*x);
    Ok(match activation {
        Activation::Relu => Function::Relu,
        Activation::LeakyRelu { slope } => Function::LeakyRelu { slope: number(slope) },
        Activation::Elu { alpha } => Function::Elu { alpha: number(alpha) },
        Activation::Sigmoid => Function::Sigmoid,
        Activation::Tanh => Function::Tanh,
        Activation::Erf => Function::Erf,
        Activation::Gelu => Function::Gelu,
        Activation::GeluTanh => Function::GeluTanh,
        Activation::Silu => Function::Silu,
        Activation::Mish => Function::Mish,
        Activation::HardSwish => Function::HardSwish,
        Activation::HardSigmoid { alpha, beta } => Function::HardSigmoid { slope: number(alpha), offset: number(beta) },
        Activation::Softplus => Function::Softplus,
        Activation::Clip { low: 0.0, high: f32::INFINITY } => Function::Relu,
        Activation::Clip { low, high } => Function::Clip { low: number(low), high: number(high) },
        Activation::Abs => Function::Abs,
        Activation::Exp => Function::Exp,
        Activation::Log => Function::Log,
        Activation::Sqrt => Function::Root,
        Activation::Reciprocal => Function::Reciprocal,
        Activation::Power { exponent } if exponent.fract() == 0.0 && (1.0..=64.0).contains(exponent) => {
            Function::Power(*exponent as u32)
        }
        Activation::Power { exponent } if *exponent == 0.5 => Function::Root,
        Activation::Power { exponent } if *exponent == -0.5 => Function::InverseRoot,
        Activation::Power { exponent } if *exponent == -1.0 => Function::Reciprocal,
        other => {
            let needed = "a function that polynomials approximate: powers from 1 to 64, 1/2, -1/2 and -1";
            return Err(NetworkError::mismatch(LOWER, format!("{other:?}"), needed));
        }
    })
}

/// An error at a node.
fn named(node: &Node, error: NetworkError) -> NetworkError {
    let at = format!("node {:?} ({}, output {:?})", node.name, node.op, node.output);
    match error {
        NetworkError::Mismatch { operation, found, needed } => {
            NetworkError::Mismatch { operation, found: format!("{found} in {at}"), needed }
        }
        other => other,
    }
}
