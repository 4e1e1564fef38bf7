//! What can go wrong with encrypted matrices.

use unspoken_ckks::CkksError;
use unspoken_permute::PermuteError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Encrypted arithmetic failed; keys that are missing are all named.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A permutation of entries cannot be had.
    #[error(transparent)]
    Permute(#[from] PermuteError),
    /// Shapes do not fit each other, or an index leaves its matrix.
    #[error("{operation}: {reason}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// Which shapes, and what about them does not fit.
        reason: String,
    },
    /// Operands are laid out differently, or a layout does not exist.
    #[error("{operation}: found {found}; needed {needed}")]
    Layout {
        /// The operation.
        operation: &'static str,
        /// What it got.
        found: String,
        /// What it takes, and how to get there.
        needed: String,
    },
    /// A node does not fit its graph, for another reason than its shape.
    #[error("{operation}: found {found}; needed {needed}")]
    Graph {
        /// The operation.
        operation: &'static str,
        /// What was to be added.
        found: String,
        /// What can be added.
        needed: String,
    },
    /// There are not enough levels.
    #[error("{operation} needs {needed} levels, found {found}; {remedy}")]
    Depth {
        /// The operation.
        operation: &'static str,
        /// Levels there are.
        found: usize,
        /// Levels it spends.
        needed: usize,
        /// A shallower way, or where deeper parameters are.
        remedy: String,
    },
}

/// A shape as numpy prints it.
pub(crate) fn display_shape((rows, columns): (usize, usize)) -> String {
    format!("({rows}, {columns})")
}

pub(crate) fn shape_error(operation: &'static str, reason: impl Into<String>) -> MatrixError {
    MatrixError::Shape { operation, reason: reason.into() }
}

pub(crate) fn graph_error(operation: &'static str, found: impl Into<String>, needed: impl Into<String>) -> MatrixError {
    MatrixError::Graph { operation, found: found.into(), needed: needed.into() }
}

/// Whether the levels are there; `remedy` says what to do if not.
pub(crate) fn check_depth(
    operation: &'static str,
    found: usize,
    needed: usize,
    remedy: impl Into<String>,
) -> Result<(), MatrixError> {
    if found >= needed { Ok(()) } else { Err(MatrixError::Depth { operation, found, needed, remedy: remedy.into() }) }
}
