//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_permute::PermuteError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each message names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptedMatrixError {
    /// Encrypted arithmetic failed. If keys are missing, all of them are named.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// The construction of a permutation of entries failed.
    #[error(transparent)]
    Permute(#[from] PermuteError),
    /// Shapes do not fit each other, or an index is out of bounds.
    #[error("{operation}: {reason}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The shapes, and the reason why they do not fit.
        reason: String,
    },
    /// Layouts of operands differ, or a layout is not possible.
    #[error("{operation}: found {found}; needed {needed}")]
    Layout {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and how to get it.
        needed: String,
    },
    /// A node does not fit its graph, for a reason other than its shape.
    #[error("{operation}: found {found}; needed {needed}")]
    Graph {
        /// The operation.
        operation: &'static str,
        /// The node that was to be added, or the wrong part of it.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// Too few levels.
    #[error("{operation} needs {needed} levels, found {found}; {remedy}")]
    Depth {
        /// The operation.
        operation: &'static str,
        /// Number of available levels.
        found: usize,
        /// Number of levels that the operation uses.
        needed: usize,
        /// A shallower method, or the way to deeper parameters.
        remedy: String,
    },
}

/// A shape as numpy prints it.
pub(crate) fn display_shape((rows, columns): (usize, usize)) -> String {
    format!("({rows}, {columns})")
}

pub(crate) fn shape_error(operation: &'static str, reason: impl Into<String>) -> EncryptedMatrixError {
    EncryptedMatrixError::Shape { operation, reason: reason.into() }
}

pub(crate) fn graph_error(
    operation: &'static str,
    found: impl Into<String>,
    needed: impl Into<String>,
) -> EncryptedMatrixError {
    EncryptedMatrixError::Graph { operation, found: found.into(), needed: needed.into() }
}

/// Checks that there are enough levels; `remedy` says what to do if not.
pub(crate) fn check_depth(
    operation: &'static str,
    found: usize,
    needed: usize,
    remedy: impl Into<String>,
) -> Result<(), EncryptedMatrixError> {
    if found >= needed {
        Ok(())
    } else {
        Err(EncryptedMatrixError::Depth { operation, found, needed, remedy: remedy.into() })
    }
}
