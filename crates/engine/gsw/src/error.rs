//! Errors of this crate.

use unspoken_ring::RingError;

/// Errors of this crate. Each names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GswError {
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Reading or writing failed.
    #[error("read or write keys: {0}")]
    Io(#[from] std::io::Error),
    /// The parameters have less than 128 bits of security, and their name does not begin with `insecure_`.
    #[error(
        "parameters '{name}': {what} of dimension {dimension} has {found:.1} bits of security, needed {needed:.0}; \
         take a smaller modulus or a wider error, or begin the name with 'insecure_' in tests and benchmarks"
    )]
    Insecure {
        /// The name of the parameters.
        name: &'static str,
        /// The weak object.
        what: &'static str,
        /// Its dimension.
        dimension: usize,
        /// Its security level.
        found: f64,
        /// The level needed.
        needed: f64,
    },
    /// The size of an operand or a number is wrong.
    #[error("{operation}: found {found}, needed {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: usize,
        /// What was needed.
        needed: usize,
    },
}

pub(crate) fn shape(operation: &'static str, found: usize, needed: usize) -> Result<(), GswError> {
    if found == needed { Ok(()) } else { Err(GswError::Shape { operation, found, needed }) }
}
