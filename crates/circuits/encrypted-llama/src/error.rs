//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_llama::{CircuitError, Place};
use unspoken_lookup::LookupError;

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
    /// The placement of bootstraps belongs to another circuit.
    #[error("{place}: found a placement of bootstraps for another circuit, needed that of this program")]
    Placement {
        /// The operation.
        place: Place,
    },
    /// The vocabulary is too large for a lookup.
    #[error("found a vocabulary of {found}, needed {needed} for a lookup; encrypt embeddings instead")]
    Vocabulary {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// Arithmetic on ciphertexts failed.
    #[error("{place}: {error}")]
    Arithmetic {
        /// The operation.
        place: Place,
        /// The error.
        error: CkksError,
    },
    /// Arithmetic on ciphertexts failed, or data of the pass could not be prepared.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// The table of embeddings does not fit a lookup.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The model, the ranges or the polynomials do not fit.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
}

impl PassError {
    /// The error of arithmetic, with the operation.
    pub(crate) fn at(self, place: Place) -> Self {
        match self {
            PassError::Ckks(error) => PassError::Arithmetic { place, error },
            other => other,
        }
    }
}
