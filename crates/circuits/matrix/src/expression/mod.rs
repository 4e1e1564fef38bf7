//! Expressions of matrices: what is to be computed, with shapes checked as it is written down.

mod plan;
mod program;

use std::sync::Arc;

use ndarray::Array2;
pub use plan::{Budget, plan};
pub use program::Program;

use crate::elementwise::check_equal;
use crate::error::{MatrixError, shape_error, shown};
use crate::product::check_shapes;
use crate::reduce::{Axis, check_vector};

/// A matrix that is yet to be computed. Cheap to clone; a part that is used twice is evaluated once.
#[derive(Clone, Debug)]
pub struct Expression(Arc<Node>);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shape: (usize, usize),
    pub(crate) operation: Operation,
}

/// What makes a matrix of others.
#[derive(Debug)]
pub(crate) enum Operation {
    Input(usize),
    MatMul(Expression, Expression),
    MatrixVector(Expression, Expression),
    Transpose(Expression),
    Rows(Expression, Vec<usize>),
    Columns(Expression, Vec<usize>),
    TimesLeft(Array2<f64>, Expression),
    TimesRight(Expression, Array2<f64>),
    Add(Expression, Expression),
    Subtract(Expression, Expression),
    Multiply(Expression, Expression),
    Scale(Expression, f64),
    Sum(Expression, Axis),
}

impl Operation {
    /// What it is made of.
    pub(crate) fn operands(&self) -> Vec<&Expression> {
        match self {
            Operation::Input(_) => vec![],
            Operation::MatMul(a, b)
            | Operation::MatrixVector(a, b)
            | Operation::Add(a, b)
            | Operation::Subtract(a, b)
            | Operation::Multiply(a, b) => vec![a, b],
            Operation::Transpose(a)
            | Operation::Rows(a, _)
            | Operation::Columns(a, _)
            | Operation::TimesLeft(_, a)
            | Operation::TimesRight(a, _)
            | Operation::Scale(a, _)
            | Operation::Sum(a, _) => vec![a],
        }
    }
}

impl Expression {
    fn of(shape: (usize, usize), operation: Operation) -> Self {
        Expression(Arc::new(Node { shape, operation }))
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// The same number for the same part, and for no other while the expression lives.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Input number `index` of this shape.
    ///
    /// # Errors
    /// If the shape is empty.
    pub fn input(index: usize, shape: (usize, usize)) -> Result<Self, MatrixError> {
        if shape.0 == 0 || shape.1 == 0 {
            let reason = format!("shape {} has no entries; needed at least one", shown(shape));
            return Err(shape_error("input", reason));
        }
        Ok(Self::of(shape, Operation::Input(index)))
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.0.shape
    }

    /// `self @ other`.
    ///
    /// # Errors
    /// If the inner dimensions differ.
    pub fn matmul(&self, other: &Self) -> Result<Self, MatrixError> {
        check_shapes(self.shape(), other.shape())?;
        let shape = (self.shape().0, other.shape().1);
        Ok(Self::of(shape, Operation::MatMul(self.clone(), other.clone())))
    }

    /// `self @ vector`, for a vector that lies in a row of shape `(1, columns)`; the result is a column.
    ///
    /// # Errors
    /// If the vector's shape is another.
    pub fn times_vector(&self, vector: &Self) -> Result<Self, MatrixError> {
        check_vector(self.shape(), vector.shape())?;
        Ok(Self::of((self.shape().0, 1), Operation::MatrixVector(self.clone(), vector.clone())))
    }

    /// The transpose.
    pub fn transpose(&self) -> Self {
        let (rows, columns) = self.shape();
        match &self.0.operation {
            Operation::Transpose(original) => original.clone(),
            _ => Self::of((columns, rows), Operation::Transpose(self.clone())),
        }
    }

    /// The rows of these numbers in this order: `self[rows]`.
    ///
    /// # Errors
    /// If there are none, or one is not there.
    pub fn rows(&self, rows: &[usize]) -> Result<Self, MatrixError> {
        crate::linear::check_indices("pick rows", "row", rows, self.shape().0)?;
        Ok(Self::of((rows.len(), self.shape().1), Operation::Rows(self.clone(), rows.to_vec())))
    }

    /// The columns of these numbers in this order: `self[:, columns]`.
    ///
    /// # Errors
    /// If there are none, or one is not there.
    pub fn columns(&self, columns: &[usize]) -> Result<Self, MatrixError> {
        crate::linear::check_indices("pick columns", "column", columns, self.shape().1)?;
        Ok(Self::of((self.shape().0, columns.len()), Operation::Columns(self.clone(), columns.to_vec())))
    }

    /// `weights @ self`, for weights in the clear.
    ///
    /// # Errors
    /// If the inner dimensions differ.
    pub fn times_left(&self, weights: &Array2<f64>) -> Result<Self, MatrixError> {
        check_shapes(weights.dim(), self.shape())?;
        let shape = (weights.nrows(), self.shape().1);
        Ok(Self::of(shape, Operation::TimesLeft(weights.clone(), self.clone())))
    }

    /// `self @ weights`, for weights in the clear.
    ///
    /// # Errors
    /// If the inner dimensions differ.
    pub fn times_right(&self, weights: &Array2<f64>) -> Result<Self, MatrixError> {
        check_shapes(self.shape(), weights.dim())?;
        let shape = (self.shape().0, weights.ncols());
        Ok(Self::of(shape, Operation::TimesRight(self.clone(), weights.clone())))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn add(&self, other: &Self) -> Result<Self, MatrixError> {
        check_equal("add", self.shape(), other.shape())?;
        Ok(Self::of(self.shape(), Operation::Add(self.clone(), other.clone())))
    }

    /// `self - other`.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn subtract(&self, other: &Self) -> Result<Self, MatrixError> {
        check_equal("subtract", self.shape(), other.shape())?;
        Ok(Self::of(self.shape(), Operation::Subtract(self.clone(), other.clone())))
    }

    /// The product entry by entry.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn multiply(&self, other: &Self) -> Result<Self, MatrixError> {
        check_equal("multiply", self.shape(), other.shape())?;
        Ok(Self::of(self.shape(), Operation::Multiply(self.clone(), other.clone())))
    }

    /// `factor * self`.
    pub fn scale(&self, factor: f64) -> Self {
        Self::of(self.shape(), Operation::Scale(self.clone(), factor))
    }

    /// The sum over rows, columns, or both, which stay as extents of 1.
    pub fn sum(&self, axis: Axis) -> Self {
        Self::of(axis.output_shape(self.shape()), Operation::Sum(self.clone(), axis))
    }

    /// Every part once, each after what it is made of; this one last.
    pub(crate) fn parts(&self) -> Vec<Expression> {
        let (mut parts, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        // Without recursion: expressions may be long.
        let mut stack = vec![(self.clone(), false)];
        while let Some((part, ready)) = stack.pop() {
            if ready {
                parts.push(part);
            } else if seen.insert(part.id()) {
                let operands: Vec<Expression> = part.node().operation.operands().into_iter().cloned().collect();
                stack.push((part, true));
                stack.extend(operands.into_iter().rev().map(|operand| (operand, false)));
            }
        }
        parts
    }
}
