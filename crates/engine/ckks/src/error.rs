//! Errors of this crate.

use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// An error of this crate. Each message contains the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// An operation on a group failed for one of its members.
    #[error("number {index} of the group, counted from 0: {error}")]
    InGroup {
        /// Its index.
        index: usize,
        /// What failed.
        #[source]
        error: Box<CkksError>,
    },
    /// Not enough levels are left.
    #[error(
        "{operation} needs level {needed} or more, found level {found}; start at a higher level or use a deeper preset"
    )]
    Level {
        /// The operation.
        operation: &'static str,
        /// The level found.
        found: usize,
        /// The level needed.
        needed: usize,
    },
    /// Operands have different scales.
    #[error(
        "{operation}: scales 2^{:.6} and 2^{:.6} differ; bring one to the other with rescale or mul_constant",
        found.log2(), needed.log2()
    )]
    Scale {
        /// The operation.
        operation: &'static str,
        /// The scale of the second operand.
        found: f64,
        /// The scale of the first operand.
        needed: f64,
    },
    /// A value does not fit the modulus at its level and scale. The message does not contain its size, because it may
    /// be secret.
    #[error(
        "{operation}: a coefficient (a value times its scale) is not below 2^{log2_limit:.1}, the limit of the level; \
         use smaller values, a smaller scale or a higher level"
    )]
    Overflow {
        /// The operation.
        operation: &'static str,
        /// Maximum bits of a coefficient.
        log2_limit: f64,
    },
    /// Wrong number of values.
    #[error("{operation}: found {found} values, needed {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The number of values found.
        found: usize,
        /// The number of values needed, or another requirement.
        needed: String,
    },
    /// A value that is not a finite number, or has an imaginary part in the real ring. The message does not contain the
    /// value, because it may be secret.
    #[error("{operation}: value {index} cannot be used; needed {needed}")]
    Value {
        /// The operation.
        operation: &'static str,
        /// Index of the value.
        index: usize,
        /// Requirement that the value does not meet.
        needed: &'static str,
    },
    /// The operation does not exist in this ring.
    #[error("{operation} does not exist in the conjugate-invariant ring, whose slots are real")]
    RealRing {
        /// The operation.
        operation: &'static str,
    },
    /// A parameter set is unusable.
    #[error("parameters '{name}': {reason}")]
    Parameters {
        /// Name of the parameter set.
        name: String,
        /// Reason why it is unusable.
        reason: String,
    },
}
