//! Expressions as data: nodes in order, each made of earlier ones.

use std::collections::BTreeSet;

use ndarray::Array2;
use unspoken_matrix::{Axis, Expression};

use crate::error::ArraysError;
use crate::form::Form;

/// Most nodes of a graph.
pub(crate) const MOST_NODES: usize = 1 << 12;
/// Longest name of an input, in bytes.
pub(crate) const MOST_NAME: usize = 1 << 10;

/// One operation; operands are numbers of nodes before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// An encrypted input.
    Input {
        /// Its name, which no other input has.
        name: String,
        /// Its shape.
        form: Form,
    },
    /// A matrix in the clear, for operations that take encrypted ones.
    Constant(Array2<f64>),
    /// `a @ b`.
    MatMul(usize, usize),
    /// `a @ x` for a vector `x` that lies in a row; the result is a column.
    MatrixVector(usize, usize),
    /// The transpose.
    Transpose(usize),
    /// Rows of these numbers.
    Rows(usize, Vec<usize>),
    /// Columns of these numbers.
    Columns(usize, Vec<usize>),
    /// `weights @ a`.
    TimesLeft(Array2<f64>, usize),
    /// `a @ weights`.
    TimesRight(usize, Array2<f64>),
    /// `a + b`.
    Add(usize, usize),
    /// `a - b`.
    Subtract(usize, usize),
    /// `a * b`, entry by entry.
    Multiply(usize, usize),
    /// `factor * a`.
    Scale(usize, f64),
    /// Sums, which stay as extents of 1.
    Sum(usize, Axis),
}

/// Where an input of the expression comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The client: number of its node.
    Client(usize),
    /// The graph: number of its node.
    Constant(usize),
}

/// Nodes in order; the last is the result. Shapes are checked as nodes are added.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    expressions: Vec<Expression>,
    sources: Vec<Source>,
    names: BTreeSet<String>,
}

impl Graph {
    /// Without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node and returns its number.
    ///
    /// # Errors
    /// If shapes do not fit or are too large, an operand is not there, a name is used twice, or a number is not finite.
    pub fn push(&mut self, node: Node) -> Result<usize, ArraysError> {
        const OPERATION: &str = "add to an expression";
        if self.nodes.len() >= MOST_NODES {
            let needed = format!("at most {MOST_NODES}: compute in several steps");
            return Err(ArraysError::mismatch(OPERATION, "another operation", needed));
        }
        let expression = self.expression(&node)?;
        Form { matrix: expression.shape(), batch: false, rows: true, columns: true }.check(OPERATION)?;
        let number = self.nodes.len();
        match &node {
            Node::Input { name, .. } => {
                self.names.insert(name.clone());
                self.sources.push(Source::Client(number));
            }
            Node::Constant(_) => self.sources.push(Source::Constant(number)),
            _ => {}
        }
        self.nodes.push(node);
        self.expressions.push(expression);
        Ok(number)
    }

    /// The expression of a node to be; operands are expressions of nodes that are there.
    fn expression(&self, node: &Node) -> Result<Expression, ArraysError> {
        let of = |&number: &usize| {
            let there = self.expressions.get(number);
            there.ok_or_else(|| {
                let found = format!("operand {number} of node {}", self.nodes.len());
                ArraysError::mismatch("add to an expression", found, "the number of an earlier node")
            })
        };
        let expression = match node {
            Node::Input { name, form } => {
                self.check_name(name)?;
                Expression::input(self.sources.len(), form.check("input")?.matrix)?
            }
            Node::Constant(values) => {
                check_finite(values)?;
                Expression::input(self.sources.len(), values.dim())?
            }
            Node::MatMul(a, b) => of(a)?.matmul(of(b)?)?,
            Node::MatrixVector(a, x) => of(a)?.times_vector(of(x)?)?,
            Node::Transpose(a) => of(a)?.transpose(),
            Node::Rows(a, rows) => of(a)?.rows(rows)?,
            Node::Columns(a, columns) => of(a)?.columns(columns)?,
            Node::TimesLeft(weights, a) => of(a)?.times_left(check_finite(weights)?)?,
            Node::TimesRight(a, weights) => of(a)?.times_right(check_finite(weights)?)?,
            Node::Add(a, b) => of(a)?.add(of(b)?)?,
            Node::Subtract(a, b) => of(a)?.subtract(of(b)?)?,
            Node::Multiply(a, b) => of(a)?.multiply(of(b)?)?,
            Node::Scale(a, factor) => of(a)?.scale(check_number(*factor)?),
            Node::Sum(a, axis) => of(a)?.sum(*axis),
        };
        Ok(expression)
    }

    fn check_name(&self, name: &str) -> Result<(), ArraysError> {
        if name.is_empty() || name.len() > MOST_NAME || self.names.contains(name) {
            let found = format!("the name {:?}", name.chars().take(40).collect::<String>());
            let needed = format!("1 to {MOST_NAME} bytes, and another name for each input");
            return Err(ArraysError::mismatch("input", found, needed));
        }
        Ok(())
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The expression of each node.
    pub(crate) fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// Inputs of the expression, in the order of their numbers.
    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Names and forms of the encrypted inputs.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (&str, Form)> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Input { name, form } => Some((name.as_str(), *form)),
            _ => None,
        })
    }
}

fn check_finite(values: &Array2<f64>) -> Result<&Array2<f64>, ArraysError> {
    values.iter().try_for_each(|&value| check_number(value).map(drop))?;
    Ok(values)
}

fn check_number(value: f64) -> Result<f64, ArraysError> {
    let refuse = || ArraysError::mismatch("add to an expression", format!("the number {value}"), "finite numbers");
    if value.is_finite() { Ok(value) } else { Err(refuse()) }
}
