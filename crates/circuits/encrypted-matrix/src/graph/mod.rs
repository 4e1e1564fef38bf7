//! Graphs of matrix operations, with shapes checked when nodes are added.
//!
//! A `Graph` is a list of nodes. A node is an `Operation` (a named input, a constant, a product, a sum, ...) on earlier
//! nodes, which it refers to by number. `push` checks shapes. The last node is the result. `plan` lowers a graph to
//! steps for one layout and level. It computes a node that is used twice only once, and omits nodes that the result
//! does not need.
//!
//! `MatrixProgram::bounds` computes a bound of the values of every step for inputs up to a given size, and the step
//! whose values may exceed their modulus.
//!
//! The file `graph/operation.rs` has the whole definition of each operation: code in files, name, number of operands,
//! type of the payload, shape of the result, the effect on entries in row-major order, and the steps that compute it.
//! Files and the Python package read operations through `OperationKind` and `Payload`, so a new operation needs no code
//! there, unless its payload has a new type. A new operation needs a change of `graph/operation.rs`, a file for its
//! circuit if the circuit is new, and a Python operator that creates the operation.

mod action;
mod bounds;
mod flat;
mod operation;
mod plan;
mod program;

pub use bounds::{StepOverflow, ValueBounds};
use ndarray::Array2;
pub use operation::{Operation, OperationKind, Payload, PayloadKind};
pub use plan::{Budget, plan};
pub use program::MatrixProgram;

use crate::error::{EncryptedMatrixError, display_shape, graph_error, shape_error};

/// Maximum length of the name of an input, in bytes.
const MAX_NAME_BYTES: usize = 1 << 10;

const PUSH: &str = "add to an expression";

/// An operation in a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    operation: Operation,
    operands: Vec<usize>,
    shape: (usize, usize),
}

impl Node {
    /// The operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The numbers of its operand nodes.
    pub fn operands(&self) -> &[usize] {
        &self.operands
    }

    /// Rows and columns of the result.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// The number of an earlier node with the same value, if there is one: of the inner operand of two transposes, or
    /// of the operand of a reshape that changes nothing. `operand` is the number of the operand, and its node.
    fn same_as(&self, operand: Option<(usize, &Node)>) -> Option<usize> {
        match (&self.operation, operand) {
            (Operation::Transpose, Some((_, Node { operation: Operation::Transpose, operands, .. }))) => {
                operands.first().copied()
            }
            (Operation::Reshape(shape), Some((number, node))) if node.shape == *shape => Some(number),
            _ => None,
        }
    }
}

/// An expression of matrices: a list of nodes, each applied to earlier nodes. The last node is the result. A node that
/// is used twice is computed once; nodes that the result does not need are not computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input of this name and shape. Returns the number of its node.
    ///
    /// # Errors
    /// Same as [`Graph::push`].
    pub fn input(&mut self, name: &str, shape: (usize, usize)) -> Result<usize, EncryptedMatrixError> {
        self.push(Operation::Input { name: name.into(), shape }, &[])
    }

    /// Adds a node: an operation on the nodes with these numbers. Returns its number.
    ///
    /// # Errors
    /// If an operand does not exist, the shapes do not fit, the name of an input is used twice, empty or too long, or a
    /// number is not finite.
    pub fn push(&mut self, operation: Operation, operands: &[usize]) -> Result<usize, EncryptedMatrixError> {
        let number = self.nodes.len();
        let shape = |&operand: &usize| match self.nodes.get(operand) {
            Some(node) => Ok(node.shape),
            None => {
                Err(graph_error(PUSH, format!("operand {operand} of node {number}"), "the number of an earlier node"))
            }
        };
        let shapes = operands.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
        match operation.payload() {
            Payload::Input(name, _) => self.check_name(&name)?,
            Payload::Matrix(values) => check_finite(&values)?,
            Payload::Number(number) => check_number(number)?,
            Payload::None | Payload::Indices(_) | Payload::Axis(_) | Payload::Shape(_) => {}
        }
        let shape = operation.output_shape(&shapes)?;
        let reason = match shape.0.checked_mul(shape.1) {
            Some(0) => Some("no entries; needed at least one"),
            Some(_) => None,
            None => Some("more entries than can be counted; needed fewer"),
        };
        if let Some(reason) = reason {
            let reason = format!("shape {} has {reason}", display_shape(shape));
            return Err(shape_error(operation.kind().name(), reason));
        }
        self.nodes.push(Node { operation, operands: operands.to_vec(), shape });
        Ok(number)
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Name and shape of each input, in the order in which a [`MatrixProgram`] expects them.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, (usize, usize))> {
        self.nodes.iter().filter_map(|node| match &node.operation {
            Operation::Input { name, shape } => Some((name.as_str(), *shape)),
            _ => None,
        })
    }

    fn check_name(&self, name: &str) -> Result<(), EncryptedMatrixError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || self.inputs().any(|(other, _)| other == name) {
            let found = format!("the name {:?}", name.chars().take(40).collect::<String>());
            let needed = format!("1 to {MAX_NAME_BYTES} bytes, and another name for each input");
            return Err(graph_error("input", found, needed));
        }
        Ok(())
    }

    /// For each node, the first node with the same value.
    fn representatives(&self) -> Vec<usize> {
        let mut representatives: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate() {
            let operand = node.operands.first().map(|&operand| representatives[operand]);
            let operand = operand.and_then(|operand| Some((operand, self.nodes.get(operand)?)));
            let same = node.same_as(operand).map(|same| representatives[same]);
            representatives.push(same.unwrap_or(number));
        }
        representatives
    }

    /// The nodes that the result needs, in topological order: for each its number and the numbers of its operands.
    fn evaluation_order(&self) -> Vec<(usize, Vec<usize>)> {
        let representatives = self.representatives();
        let (mut order, mut seen) = (Vec::new(), vec![false; self.nodes.len()]);
        // No recursion, because graphs may be deep.
        let mut stack: Vec<(usize, bool)> = representatives.last().map(|&last| (last, false)).into_iter().collect();
        while let Some((number, ready)) = stack.pop() {
            let operands: Vec<usize> = self.nodes[number].operands.iter().map(|&o| representatives[o]).collect();
            if ready {
                order.push((number, operands));
            } else if !std::mem::replace(&mut seen[number], true) {
                stack.push((number, true));
                stack.extend(operands.into_iter().rev().map(|operand| (operand, false)));
            }
        }
        order
    }
}

fn check_finite(values: &Array2<f64>) -> Result<(), EncryptedMatrixError> {
    values.iter().try_for_each(|&value| check_number(value))
}

fn check_number(value: f64) -> Result<(), EncryptedMatrixError> {
    if value.is_finite() { Ok(()) } else { Err(graph_error(PUSH, format!("the number {value}"), "finite numbers")) }
}
