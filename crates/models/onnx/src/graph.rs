//! The typed graph of a network.

use ndarray::{ArcArray, IxDyn};
use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::finish::Output;

/// Numbers of any shape. Clones share them.
pub type Tensor = ArcArray<f32, IxDyn>;

/// A network that was read from an ONNX model.
///
/// Each tensor has a batch axis in front, which no shape here contains: no operation mixes the rows of a batch. Axes
/// are counted without it, so axis 0 is the first axis of a row.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) inputs: Vec<Input>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) results: Vec<ValueId>,
    pub(crate) outputs: Vec<Output>,
}

impl Network {
    /// The inputs, in the model's order. Input `i` is value `i`.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The nodes; each comes after the nodes whose values it reads. Node `i` is value `inputs + i`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The distinct values that are computed for the outputs: what is encrypted, and what the client decrypts.
    pub fn results(&self) -> &[ValueId] {
        &self.results
    }

    /// The outputs, in the model's order, with what the client does to the results.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The shape of a value, without the batch axis; none if there is no such value.
    pub fn shape(&self, value: ValueId) -> Option<&[usize]> {
        match value.0.checked_sub(self.inputs.len()) {
            None => Some(&self.inputs[value.0].shape),
            Some(node) => Some(&self.nodes.get(node)?.shape),
        }
    }
}

/// A value of a network: first the inputs, then the values of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub(crate) usize);

impl ValueId {
    /// The place among all values: of an input, or the number of inputs plus the place of a node.
    pub fn index(self) -> usize {
        self.0
    }
}

/// An input of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name in the model.
    pub name: String,
    /// The shape of a row.
    pub shape: Vec<usize>,
    /// What a row holds.
    pub kind: InputKind,
}

/// What an input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// Numbers.
    Float,
    /// Row numbers of embedding tables.
    Index,
}

/// An operation with its operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the node in the model, which may be empty.
    pub name: String,
    /// The operator in the model, or the last one of those that were fused.
    pub op: String,
    /// The name of the output in the model. Several nodes have the same if they are one node of the model.
    pub output: String,
    /// What is computed.
    pub operation: Operation,
    /// The operands: two for `Add`, `Sub` and `Mul`, at least one for `Concat`, one otherwise.
    pub inputs: Vec<ValueId>,
    /// The shape of the value, without the batch axis.
    pub shape: Vec<usize>,
}

/// What a node computes for each row. Sizes and shapes were checked when the network was read. Operations that only
/// nodes have, not the steps of clients, have no form in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Operation {
    /// A matrix times the last axis, plus a bias.
    #[serde(skip)]
    Linear(Linear),
    /// A convolution over one or two axes; rows have the shape `[channels, length]` or `[channels, height, width]`.
    #[serde(skip)]
    Conv(Conv),
    /// Averages over windows; rows as for `Conv`.
    #[serde(skip)]
    AveragePool {
        /// The windows.
        window: Window,
        /// Whether padding counts as zeros. Otherwise the average is over the numbers inside.
        count_include_pad: bool,
    },
    /// Maxima over windows; rows as for `Conv`. Padding never is the maximum.
    #[serde(skip)]
    MaxPool(Window),
    /// `scale * x + shift`. Both have the rank of the node's shape and broadcast to it, as the operand does.
    Affine {
        /// The factors.
        scale: Tensor,
        /// The summands.
        shift: Tensor,
    },
    /// The sum of two operands of the same rank, which broadcast.
    Add,
    /// The difference of two operands of the same rank, which broadcast.
    Sub,
    /// The product of two operands of the same rank, which broadcast.
    Mul,
    /// A function of each number.
    Activation(Activation),
    /// The operands one after the other.
    Concat {
        /// The axis along which they differ.
        axis: usize,
    },
    /// The same numbers in the node's shape, in row-major order.
    Reshape,
    /// Axes in another order: axis `i` of the result is axis `axes[i]` of the operand.
    #[serde(skip)]
    Transpose {
        /// The order of the axes.
        axes: Vec<usize>,
    },
    /// The elements at these places of an axis, in this order. `Slice`, `Split` and `Gather` become this.
    Select {
        /// The axis.
        axis: usize,
        /// The places.
        places: Vec<usize>,
    },
    /// Zeros around a row: how many before and after, for each axis.
    #[serde(skip)]
    Pad {
        /// The numbers of zeros.
        amounts: Vec<(usize, usize)>,
    },
    /// The mean or the sum over axes.
    Reduce {
        /// Whether it is the mean; otherwise the sum.
        mean: bool,
        /// The axes, ascending.
        axes: Vec<usize>,
        /// Whether the axes stay, with one element each.
        keep: bool,
    },
    /// Mean 0 and variance 1 over the last axes, then `scale * x + shift`.
    #[serde(skip)]
    LayerNorm(LayerNorm),
    /// The row of a table `[rows, width]` for each index; indexes of shape `s` give the shape `s + [width]`. Negative
    /// indexes count from the end.
    #[serde(skip)]
    Embedding {
        /// The table.
        table: Tensor,
    },
}

/// A matrix and a bias: `[.., inputs]` to `[.., outputs]`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
}

/// A convolution (a correlation, as everywhere in machine learning) over one or two axes.
#[derive(Clone, Debug)]
pub struct Conv {
    /// `[outputs, channels / groups, length]` or `[outputs, channels / groups, height, width]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    /// Channels and outputs are in this many groups, and a group reads its own channels only. As many groups as
    /// channels: a depthwise convolution.
    pub groups: usize,
    /// Where the kernel is applied.
    pub window: Window,
}

/// Where a kernel is applied; each list has an entry for each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The size of the kernel.
    pub kernel: Vec<usize>,
    /// The step from window to window.
    pub stride: Vec<usize>,
    /// The step from element to element of the kernel.
    pub dilation: Vec<usize>,
    /// Zeros before and after.
    pub padding: Vec<(usize, usize)>,
}

/// A layer normalisation.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// How many of the last axes are normalised together.
    pub axes: usize,
    /// What is added to the variance.
    pub epsilon: f32,
    /// The factors. Rank as the row's, broadcasting to it.
    pub scale: Tensor,
    /// The summands. Rank as the row's, broadcasting to it.
    pub shift: Tensor,
}
