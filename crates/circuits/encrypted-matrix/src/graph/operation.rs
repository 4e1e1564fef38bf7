//! The operations of a graph. This file has the whole definition of each operation: code, name, operands, payload, the
//! shape of its result, and the step that computes it.

use std::borrow::Cow;

use ndarray::Array2;

use crate::elementwise::check_equal;
use crate::error::{EncryptedMatrixError, graph_error};
use crate::indices::check_indices;
use crate::linear::check_reshape;
use crate::product::check_shapes;
use crate::reduce::{Axis, check_vector};

/// The operation of a node. The node lists its operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// An encrypted input.
    Input {
        /// Its name, unique among the inputs of the graph.
        name: String,
        /// Rows and columns.
        shape: (usize, usize),
    },
    /// A plaintext matrix, as an operand of operations on encrypted matrices.
    Constant(Array2<f64>),
    /// `a @ b`.
    MatMul,
    /// `a @ x` for a vector `x` stored as a row; the result is a column.
    MatrixVector,
    /// The transpose of `a`.
    Transpose,
    /// The rows of `a` with these indices, in this order.
    Rows(Vec<usize>),
    /// The columns of `a` with these indices, in this order.
    Columns(Vec<usize>),
    /// `weights @ a` for plaintext weights.
    TimesLeft(Array2<f64>),
    /// `a @ weights` for plaintext weights.
    TimesRight(Array2<f64>),
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`, entry by entry.
    Multiply,
    /// `factor * a`.
    Scale(f64),
    /// The sum of `a` over rows, columns or both. The summed extents remain with length 1.
    Sum(Axis),
    /// The entries of `a` in row-major order, as a matrix of this shape.
    Reshape((usize, usize)),
}

/// The kind of an operation, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // Those of `Operation`.
pub enum OperationKind {
    Input = 0,
    Constant = 1,
    MatMul = 2,
    MatrixVector = 3,
    Transpose = 4,
    Rows = 5,
    Columns = 6,
    TimesLeft = 7,
    TimesRight = 8,
    Add = 9,
    Subtract = 10,
    Multiply = 11,
    Scale = 12,
    Sum = 13,
    Reshape = 14,
}

/// The data of an operation besides its operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload<'a> {
    /// No data.
    None,
    /// Name, and number of rows and columns.
    Input(Cow<'a, str>, (usize, usize)),
    /// A plaintext matrix.
    Matrix(Cow<'a, Array2<f64>>),
    /// Indices of rows or columns.
    Indices(Cow<'a, [usize]>),
    /// A number.
    Number(f64),
    /// The axis of a sum.
    Axis(Axis),
    /// Rows and columns of a result.
    Shape((usize, usize)),
}

/// The type of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Those of `Payload`.
pub enum PayloadKind {
    None,
    Input,
    Matrix,
    Indices,
    Number,
    Axis,
    Shape,
}

impl OperationKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [OperationKind; 15] = [
        OperationKind::Input,
        OperationKind::Constant,
        OperationKind::MatMul,
        OperationKind::MatrixVector,
        OperationKind::Transpose,
        OperationKind::Rows,
        OperationKind::Columns,
        OperationKind::TimesLeft,
        OperationKind::TimesRight,
        OperationKind::Add,
        OperationKind::Subtract,
        OperationKind::Multiply,
        OperationKind::Scale,
        OperationKind::Sum,
        OperationKind::Reshape,
    ];

    /// Name, number of operands, type of the payload.
    fn signature(self) -> (&'static str, usize, PayloadKind) {
        match self {
            OperationKind::Input => ("input", 0, PayloadKind::Input),
            OperationKind::Constant => ("constant", 0, PayloadKind::Matrix),
            OperationKind::MatMul => ("matmul", 2, PayloadKind::None),
            OperationKind::MatrixVector => ("matrix_vector", 2, PayloadKind::None),
            OperationKind::Transpose => ("transpose", 1, PayloadKind::None),
            OperationKind::Rows => ("rows", 1, PayloadKind::Indices),
            OperationKind::Columns => ("columns", 1, PayloadKind::Indices),
            OperationKind::TimesLeft => ("times_left", 1, PayloadKind::Matrix),
            OperationKind::TimesRight => ("times_right", 1, PayloadKind::Matrix),
            OperationKind::Add => ("add", 2, PayloadKind::None),
            OperationKind::Subtract => ("subtract", 2, PayloadKind::None),
            OperationKind::Multiply => ("multiply", 2, PayloadKind::None),
            OperationKind::Scale => ("scale", 1, PayloadKind::Number),
            OperationKind::Sum => ("sum", 1, PayloadKind::Axis),
            OperationKind::Reshape => ("reshape", 1, PayloadKind::Shape),
        }
    }

    /// Its code in files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.signature().0
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The number of operands.
    pub fn operands(self) -> usize {
        self.signature().1
    }

    /// The type of the payload.
    pub fn payload(self) -> PayloadKind {
        self.signature().2
    }
}

impl Operation {
    /// The operation of this kind with this payload.
    ///
    /// # Errors
    /// If the payload has another type than the kind needs.
    pub fn new(kind: OperationKind, payload: Payload<'_>) -> Result<Self, EncryptedMatrixError> {
        use OperationKind as Kind;
        Ok(match (kind, payload) {
            (Kind::Input, Payload::Input(name, shape)) => Operation::Input { name: name.into_owned(), shape },
            (Kind::Constant, Payload::Matrix(values)) => Operation::Constant(values.into_owned()),
            (Kind::MatMul, Payload::None) => Operation::MatMul,
            (Kind::MatrixVector, Payload::None) => Operation::MatrixVector,
            (Kind::Transpose, Payload::None) => Operation::Transpose,
            (Kind::Rows, Payload::Indices(rows)) => Operation::Rows(rows.into_owned()),
            (Kind::Columns, Payload::Indices(columns)) => Operation::Columns(columns.into_owned()),
            (Kind::TimesLeft, Payload::Matrix(weights)) => Operation::TimesLeft(weights.into_owned()),
            (Kind::TimesRight, Payload::Matrix(weights)) => Operation::TimesRight(weights.into_owned()),
            (Kind::Add, Payload::None) => Operation::Add,
            (Kind::Subtract, Payload::None) => Operation::Subtract,
            (Kind::Multiply, Payload::None) => Operation::Multiply,
            (Kind::Scale, Payload::Number(factor)) => Operation::Scale(factor),
            (Kind::Sum, Payload::Axis(axis)) => Operation::Sum(axis),
            (Kind::Reshape, Payload::Shape(shape)) => Operation::Reshape(shape),
            (kind, payload) => {
                let found = format!("a payload of type {:?} for {}", payload.kind(), kind.name());
                return Err(graph_error("make an operation", found, format!("one of type {:?}", kind.payload())));
            }
        })
    }

    /// Its kind.
    pub fn kind(&self) -> OperationKind {
        match self {
            Operation::Input { .. } => OperationKind::Input,
            Operation::Constant(_) => OperationKind::Constant,
            Operation::MatMul => OperationKind::MatMul,
            Operation::MatrixVector => OperationKind::MatrixVector,
            Operation::Transpose => OperationKind::Transpose,
            Operation::Rows(_) => OperationKind::Rows,
            Operation::Columns(_) => OperationKind::Columns,
            Operation::TimesLeft(_) => OperationKind::TimesLeft,
            Operation::TimesRight(_) => OperationKind::TimesRight,
            Operation::Add => OperationKind::Add,
            Operation::Subtract => OperationKind::Subtract,
            Operation::Multiply => OperationKind::Multiply,
            Operation::Scale(_) => OperationKind::Scale,
            Operation::Sum(_) => OperationKind::Sum,
            Operation::Reshape(_) => OperationKind::Reshape,
        }
    }

    /// Its payload.
    pub fn payload(&self) -> Payload<'_> {
        match self {
            Operation::Input { name, shape } => Payload::Input(name.into(), *shape),
            Operation::Constant(values) | Operation::TimesLeft(values) | Operation::TimesRight(values) => {
                Payload::Matrix(Cow::Borrowed(values))
            }
            Operation::Rows(indices) | Operation::Columns(indices) => Payload::Indices(indices.into()),
            Operation::Scale(factor) => Payload::Number(*factor),
            Operation::Sum(axis) => Payload::Axis(*axis),
            Operation::Reshape(shape) => Payload::Shape(*shape),
            Operation::MatMul
            | Operation::MatrixVector
            | Operation::Transpose
            | Operation::Add
            | Operation::Subtract
            | Operation::Multiply => Payload::None,
        }
    }

    /// The shape of its result, for operands of these shapes.
    ///
    /// # Errors
    /// If the number of operands is wrong, or their shapes do not fit.
    pub fn output_shape(&self, operands: &[(usize, usize)]) -> Result<(usize, usize), EncryptedMatrixError> {
        match (self, operands) {
            (Operation::Input { shape, .. }, []) => Ok(*shape),
            (Operation::Constant(values), []) => Ok(values.dim()),
            (Operation::MatMul, &[a, b]) => check_shapes(a, b).map(|()| (a.0, b.1)),
            (Operation::MatrixVector, &[a, x]) => check_vector(a, x).map(|()| (a.0, 1)),
            (Operation::Transpose, &[a]) => Ok((a.1, a.0)),
            (Operation::Rows(rows), &[a]) => check_indices("pick rows", "row", rows, a.0).map(|()| (rows.len(), a.1)),
            (Operation::Columns(columns), &[a]) => {
                check_indices("pick columns", "column", columns, a.1).map(|()| (a.0, columns.len()))
            }
            (Operation::TimesLeft(weights), &[a]) => check_shapes(weights.dim(), a).map(|()| (weights.nrows(), a.1)),
            (Operation::TimesRight(weights), &[a]) => check_shapes(a, weights.dim()).map(|()| (a.0, weights.ncols())),
            (Operation::Add, &[a, b]) => check_equal("add", a, b).map(|()| a),
            (Operation::Subtract, &[a, b]) => check_equal("subtract", a, b).map(|()| a),
            (Operation::Multiply, &[a, b]) => check_equal("multiply", a, b).map(|()| a),
            (Operation::Scale(_), &[a]) => Ok(a),
            (Operation::Sum(axis), &[a]) => Ok(axis.output_shape(a)),
            (Operation::Reshape(shape), &[a]) => check_reshape(a, *shape).map(|()| *shape),
            _ => Err(self.refuse_operands(operands.len())),
        }
    }

    /// Whether [`Operation::flattened`] makes a list of entries.
    pub(super) fn selects(&self) -> bool {
        matches!(self, Operation::Transpose | Operation::Rows(_) | Operation::Columns(_))
    }

    pub(super) fn refuse_operands(&self, found: usize) -> EncryptedMatrixError {
        let kind = self.kind();
        graph_error("add to an expression", format!("{found} operands of {}", kind.name()), kind.operands().to_string())
    }
}

impl Payload<'_> {
    /// Its type.
    pub fn kind(&self) -> PayloadKind {
        match self {
            Payload::None => PayloadKind::None,
            Payload::Input(..) => PayloadKind::Input,
            Payload::Matrix(_) => PayloadKind::Matrix,
            Payload::Indices(_) => PayloadKind::Indices,
            Payload::Number(_) => PayloadKind::Number,
            Payload::Axis(_) => PayloadKind::Axis,
            Payload::Shape(_) => PayloadKind::Shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One operation of each kind.
    fn examples() -> Vec<Operation> {
        vec![
            Operation::Input { name: "a".into(), shape: (2, 2) },
            Operation::Constant(Array2::eye(2)),
            Operation::MatMul,
            Operation::MatrixVector,
            Operation::Transpose,
            Operation::Rows(vec![1]),
            Operation::Columns(vec![0, 1]),
            Operation::TimesLeft(Array2::ones((1, 2))),
            Operation::TimesRight(Array2::ones((2, 3))),
            Operation::Add,
            Operation::Subtract,
            Operation::Multiply,
            Operation::Scale(0.5),
            Operation::Sum(Axis::Rows),
            Operation::Reshape((1, 4)),
        ]
    }

    #[test]
    fn every_kind_is_found_by_code_and_name_and_rebuilt_from_its_payload() {
        let examples = examples();
        assert_eq!(examples.len(), OperationKind::ALL.len());
        for (operation, kind) in examples.iter().zip(OperationKind::ALL) {
            assert_eq!(operation.kind(), kind);
            assert_eq!(OperationKind::from_code(kind.code()), Some(kind));
            assert_eq!(OperationKind::from_name(kind.name()), Some(kind));
            assert_eq!(operation.payload().kind(), kind.payload());
            assert_eq!(Operation::new(kind, operation.payload()).unwrap(), *operation);
            let other = match kind.payload() {
                PayloadKind::Number => Payload::None,
                _ => Payload::Number(1.0),
            };
            let error = Operation::new(kind, other).unwrap_err().to_string();
            assert!(error.contains(kind.name()), "{error}");
        }
        assert_eq!(OperationKind::from_code(15), None);
        assert_eq!(OperationKind::from_name("divide"), None);
    }

    #[test]
    fn shape_rules_take_exactly_the_operands_of_the_kind() {
        for operation in examples() {
            let count = operation.kind().operands();
            for given in 0..4 {
                let error = operation.output_shape(&vec![(2, 2); given]);
                let refused = error.is_err_and(|error| error.to_string().contains("operands"));
                assert_eq!(refused, given != count, "{operation:?} with {given} operands");
            }
        }
    }
}
