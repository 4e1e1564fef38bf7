//! Errors of this crate.

use unspoken_ckks::CkksError;

/// Errors of this crate. Each message names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlimError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// A polynomial, a depth or a number of values does not fit.
    #[error("{operation}: found {found}, needed {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A polynomial of the tree has no usable decomposition: its roots are not found, or its values are too large.
    #[error(
        "decompose a polynomial: found no decomposition of polynomial {index} of degree {degree} at depth {depth}; \
         choose a smaller depth, or another degree or interval"
    )]
    NoDecomposition {
        /// The depth of the polynomial in the tree; 0 is the whole polynomial.
        depth: usize,
        /// Its index at that depth.
        index: usize,
        /// Its degree.
        degree: usize,
    },
}

/// Makes a [`SlimError::Shape`].
pub(crate) fn shape(operation: &'static str, found: impl ToString, needed: impl ToString) -> SlimError {
    SlimError::Shape { operation, found: found.to_string(), needed: needed.to_string() }
}
