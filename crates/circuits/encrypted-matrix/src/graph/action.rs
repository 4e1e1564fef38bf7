//! The actions of the steps of a planned graph.

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, CkksParameters};

use crate::blocks::LongPermutation;
use crate::elementwise;
use crate::encrypted::EncryptedMatrix;
use crate::error::{EncryptedMatrixError, shape_error};
use crate::linear::LinearMap;
use crate::permuted::VectorPermutation;
use crate::product::{Method, Product, extended_bytes};
use crate::reduce::{MatrixVector, Sum, TileMask};

/// Number of ciphertexts that a key switch, a tensor product and a sum of rotations hold at the same time.
const KEY_SWITCH_CIPHERTEXTS: usize = 16;

/// The action of a step of a planned graph.
pub(super) enum Action {
    Input(usize),
    Constant(Array2<f64>),
    MatMul(Box<Product>),
    MatrixVector(Box<MatrixVector>),
    Linear(Box<LinearMap>),
    Permute(Box<VectorPermutation>),
    PermuteLong(Box<LongPermutation>),
    Sum(Box<Sum>),
    Mask(Box<TileMask>),
    Scale(f64),
    Add,
    Subtract,
    Multiply,
}

impl Action {
    pub(super) fn linear(map: LinearMap) -> Self {
        Action::Linear(Box::new(map))
    }

    /// Its name and its method, as text.
    pub(super) fn name(&self) -> String {
        match self {
            Action::Input(number) => format!("input {number}"),
            Action::Constant(_) => "constant".into(),
            Action::MatMul(product) => format!("matmul by {}", product.method()),
            Action::MatrixVector(_) => "matrix times vector".into(),
            Action::Linear(map) => match map.depth() {
                1 => map.operation().into(),
                depth => format!("{} in {depth} factors", map.operation()),
            },
            Action::Permute(permutation) => format!("permute a vector in {} factors", permutation.depth()),
            Action::PermuteLong(permutation) => format!("permute a long vector in {} factors", permutation.depth()),
            Action::Sum(_) => "sum".into(),
            Action::Mask(_) => "clean".into(),
            Action::Scale(factor) => format!("scale by {factor}"),
            Action::Add => "add".into(),
            Action::Subtract => "subtract".into(),
            Action::Multiply => "multiply".into(),
        }
    }

    /// The method of a product of two encrypted matrices.
    pub(super) fn method(&self) -> Option<Method> {
        match self {
            Action::MatMul(product) => Some(product.method()),
            _ => None,
        }
    }

    /// Bytes of its encoded plaintexts.
    pub(super) fn prepared_bytes(&self, parameters: &CkksParameters, level: usize) -> usize {
        match self {
            Action::MatMul(product) => product.prepared_bytes(parameters),
            Action::Linear(map) => map.prepared_bytes(),
            Action::Permute(permutation) => permutation.prepared_bytes(),
            Action::PermuteLong(permutation) => permutation.prepared_bytes(parameters),
            Action::MatrixVector(_) | Action::Sum(_) | Action::Mask(_) => extended_bytes(parameters, level),
            Action::Input(_)
            | Action::Constant(_)
            | Action::Scale(_)
            | Action::Add
            | Action::Subtract
            | Action::Multiply => 0,
        }
    }

    /// Number of ciphertexts that the operation holds at the same time, besides its operands and its result. `tiles`
    /// are the numbers of tiles of the operands.
    pub(super) fn working_ciphertexts(&self, parameters: &CkksParameters, tiles: &[usize]) -> usize {
        let own = match (self, tiles) {
            (Action::MatMul(product), &[a, b]) => product.working_ciphertexts(a, b),
            (Action::Linear(map), _) => map.working_ciphertexts(),
            (Action::Permute(permutation), _) => permutation.working_ciphertexts(),
            (Action::PermuteLong(permutation), _) => permutation.working_ciphertexts(parameters),
            // Copies of the operands, aligned to one level and scale.
            (_, tiles) => tiles.iter().sum(),
        };
        own + KEY_SWITCH_CIPHERTEXTS
    }

    /// Its result for these operands. Inputs and constants do not run here: see `Program::run`.
    pub(super) fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        operands: &[&EncryptedMatrix<A::Vector>],
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        match (self, operands) {
            (Action::MatMul(product), [a, b]) => product.apply(arithmetic, a, b),
            (Action::MatrixVector(product), [a, x]) => product.apply(arithmetic, a, x),
            (Action::Linear(map), [a]) => map.apply(arithmetic, a),
            (Action::Permute(permutation), [a]) => permutation.apply(arithmetic, a),
            (Action::PermuteLong(permutation), [a]) => permutation.apply(arithmetic, a),
            (Action::Sum(sum), [a]) => sum.apply(arithmetic, a),
            (Action::Mask(mask), [a]) => mask.apply(arithmetic, a),
            (Action::Scale(factor), [a]) => elementwise::scale(arithmetic, a, *factor),
            (Action::Add, [a, b]) => elementwise::add(arithmetic, a, b),
            (Action::Subtract, [a, b]) => elementwise::subtract(arithmetic, a, b),
            (Action::Multiply, [a, b]) => elementwise::multiply(arithmetic, a, b),
            _ => Err(shape_error(
                "run an expression",
                format!("{} with {} operands; this is a bug", self.name(), operands.len()),
            )),
        }
    }
}
