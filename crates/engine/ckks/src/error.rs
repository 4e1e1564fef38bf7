//! What can go wrong with encrypted vectors.

use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// An operation on keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
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
    /// A value does not fit the modulus at its level and scale. How large it is, is not said: it may be a secret.
    #[error(
        "{operation}: a coefficient, which is a value times its scale, is not below 2^{log2_limit:.1}, the limit of \
         the level; use smaller values, a smaller scale or a higher level"
    )]
    Overflow {
        /// The operation.
        operation: &'static str,
        /// Bits that coefficients may have.
        log2_limit: f64,
    },
    /// Wrong number of values.
    #[error("{operation}: found {found} values, needed {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// How many there were.
        found: usize,
        /// What was needed.
        needed: String,
    },
    /// A value that is no finite number, or an imaginary part in the real ring. The value is not said: it may be a
    /// secret.
    #[error("{operation}: value {index} cannot be used; needed {needed}")]
    Value {
        /// The operation.
        operation: &'static str,
        /// Its index.
        index: usize,
        /// What would do.
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
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}
