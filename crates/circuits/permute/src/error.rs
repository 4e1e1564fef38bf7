//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each message names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PermuteError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A list of sources is not a permutation.
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
        /// What was needed.
        needed: String,
    },
    /// A stored plan is inconsistent, or has an unsupported version.
    #[error("plan: {what} is {found}; needed {needed}; make the plan again")]
    PermutationPlan {
        /// The part of the plan.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// No plan satisfies the constraints.
    #[error("no plan ends at level {output} from level {input} within the constraints: {reason}")]
    NoPlan {
        /// The level of the input.
        input: usize,
        /// The level of the result.
        output: usize,
        /// What is missing, and what would be sufficient.
        reason: String,
    },
}

/// Makes a [`PermuteError::Shape`].
pub(crate) fn shape(operation: &'static str, found: impl ToString, needed: impl ToString) -> PermuteError {
    PermuteError::Shape { operation, found: found.to_string(), needed: needed.to_string() }
}

/// Makes a [`PermuteError::PermutationPlan`].
pub(crate) fn wrong(what: &'static str, found: impl ToString, needed: impl ToString) -> PermuteError {
    PermuteError::PermutationPlan { what, found: found.to_string(), needed: needed.to_string() }
}
