//! What can go wrong with a permutation.

use unspoken_ckks::CkksError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PermuteError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A list of sources is no permutation.
    #[error("{operation}: entry {index} is {found}; needed every number below {length} exactly once")]
    NotAPermutation {
        /// The operation.
        operation: &'static str,
        /// The first entry that is out of range or repeats another.
        index: usize,
        /// Its value.
        found: usize,
        /// The length of the list.
        length: usize,
    },
    /// A length or a shape does not fit.
    #[error("{operation}: found {found}, needed {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What would do.
        needed: String,
    },
    /// A plan is not what it says it is, or no longer understood.
    #[error("plan: {what} is {found}; needed {needed}; make the plan again")]
    Plan {
        /// Which part of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        needed: String,
    },
    /// No plan satisfies the constraints.
    #[error("no plan ends at level {output} from level {input} within the constraints: {reason}")]
    NoPlan {
        /// The level of the input.
        input: usize,
        /// The level asked for.
        output: usize,
        /// What is missing, and what would do.
        reason: String,
    },
}

/// An error of shape.
pub(crate) fn shape(operation: &'static str, found: impl ToString, needed: impl ToString) -> PermuteError {
    PermuteError::Shape { operation, found: found.to_string(), needed: needed.to_string() }
}
