//! What a client does to decrypted results: probabilities, classes, labels.

use ndarray::ArrayD;
use serde::{Deserialize, Serialize};

use crate::graph::Operation;

/// An output of a network: what the client computes from decrypted results. [`Outputs`](crate::Outputs) reads outputs
/// from bytes and checks them; its JSON alone is not checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The name in the model.
    pub name: String,
    /// Where the output is: a result of the network, or the value of a step.
    pub source: Source,
    /// What the client computes, in this order; nothing if the output is a result.
    pub steps: Vec<FinishStep>,
    /// The shape of a row of the output.
    pub shape: Vec<usize>,
}

/// A value on the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A result of the network, by its place in [`Network::results`](crate::Network::results).
    Result(usize),
    /// The value of an earlier step of the same output, by its place.
    Step(usize),
}

/// One step of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishStep {
    /// What is computed.
    pub finish: Finish,
    /// The operands.
    pub inputs: Vec<Source>,
    /// The shape of a row of the value.
    pub shape: Vec<usize>,
}

/// What a client computes in one step. Axes are counted without the batch axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Finish {
    /// An operation that a network may also have, such as the other class's probability `1 - p`.
    Compute(Box<Operation>),
    /// `exp(x) / sum(exp(x))` along an axis.
    Softmax {
        /// The axis.
        axis: usize,
    },
    /// The logarithm of the softmax.
    LogSoftmax {
        /// The axis.
        axis: usize,
    },
    /// Each row divided by its norm over the last axis. A row of norm 0 stays.
    Normalize(Norm),
    /// The place of the greatest number along an axis, as an integer.
    ArgMax {
        /// The axis.
        axis: usize,
        /// Whether the axis stays, with one element.
        keep: bool,
        /// Whether the last of several equal numbers counts, not the first.
        last: bool,
    },
    /// 1 where a number is below, above or equal to the threshold, else 0.
    Compare {
        /// The comparison.
        comparison: Comparison,
        /// What is compared with.
        threshold: f32,
    },
    /// The second operand where the first is not 0, else the third.
    Where,
    /// 1 where a number is 0, else 0.
    Not,
    /// 1 where a number is not 0, else 0.
    Truth,
    /// Numbers rounded towards zero, as integers.
    Integer,
    /// Integers as numbers.
    Number,
    /// The winner of the votes for each pair of classes, as an integer. Pairs are in the order (0, 1), (0, 2), ..,
    /// (1, 2), .., and a number above 0 is a vote for the first of the pair.
    Votes {
        /// The number of classes.
        classes: usize,
    },
    /// The label of each integer, which counts labels from 0.
    Label(Labels),
    /// A number for each label, from the last axis.
    Scores(Labels),
}

/// A norm of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Norm {
    /// The sum of magnitudes.
    L1,
    /// The square root of the sum of squares.
    L2,
}

/// A comparison with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// `x < threshold`.
    Less,
    /// `x <= threshold`.
    LessOrEqual,
    /// `x > threshold`.
    Greater,
    /// `x >= threshold`.
    GreaterOrEqual,
    /// `x == threshold`.
    Equal,
}

/// Labels of classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Labels {
    /// Integers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Labels {
    /// The number of labels.
    pub fn len(&self) -> usize {
        match self {
            Labels::Integers(labels) => labels.len(),
            Labels::Texts(labels) => labels.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels as texts: integers in their decimal digits.
    pub fn into_texts(self) -> Vec<String> {
        match self {
            Labels::Integers(labels) => labels.iter().map(ToString::to_string).collect(),
            Labels::Texts(labels) => labels,
        }
    }
}

/// What an output gives for a batch; the first axis counts rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Numbers, such as probabilities.
    Numbers(ArrayD<f32>),
    /// Integers, such as labels of classes.
    Integers(ArrayD<i64>),
    /// Texts, such as labels of classes.
    Texts(ArrayD<String>),
    /// A number for each label: `[rows, labels]`.
    Scores {
        /// The labels.
        labels: Labels,
        /// The numbers.
        numbers: ArrayD<f32>,
    },
}
