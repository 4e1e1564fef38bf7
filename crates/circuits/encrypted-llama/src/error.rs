//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_llama::{CircuitError, Place};

/// An encrypted pass could not be prepared or run.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A chunk does not fit the slots.
    #[error("found chunks of {found} tokens, needed {needed}")]
    Chunk {
        /// Tokens of a chunk.
        found: usize,
        /// What was needed.
        needed: String,
    },
    /// Tokens do not fit the session.
    #[error("found {found}, needed {needed}")]
    Session {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The parameters have too few levels between two bootstraps.
    #[error(
        "{place}: found {found} levels between two bootstraps, needed {needed}; use a preset with more levels, or \
             a design with lower degrees"
    )]
    Levels {
        /// The operation.
        place: Place,
        /// Levels of the parameters.
        found: usize,
        /// Levels that the operation needs.
        needed: usize,
    },
    /// Arithmetic on ciphertexts failed.
    #[error("{place}: {error}")]
    Arithmetic {
        /// The operation.
        place: Place,
        /// The error.
        error: CkksError,
    },
    /// Data of the pass could not be prepared.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// The model, the ranges or the polynomials do not fit.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
}
