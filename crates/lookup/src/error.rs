//! What can go wrong with a lookup.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_protocol::{Failure, Fault, ProtocolError};
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says what was found and what was needed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A query could not be encrypted.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// A query's vectors cannot be read.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A table cannot be used.
    #[error("table: {what} is {found}; needed {needed}")]
    Table {
        /// Which part of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        needed: String,
    },
    /// A query does not fit the lookup.
    #[error("query: {what} is {found}; needed {needed}")]
    Query {
        /// Which part of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        needed: String,
    },
    /// A plan cannot be carried out with these parameters.
    #[error("plan '{plan}' cannot run with preset '{preset}': {reason}")]
    Plan {
        /// The plan.
        plan: String,
        /// The preset.
        preset: String,
        /// Why not, and what would help.
        reason: String,
    },
}

impl Failure for LookupError {
    fn fault(&self) -> Fault {
        match self {
            LookupError::Ckks(error) => error.fault(),
            LookupError::Rlwe(error) => error.fault(),
            LookupError::Encrypt(error) => error.fault(),
            LookupError::Protocol(error) => error.fault(),
            LookupError::Query { .. } => Fault::DoesNotFit,
            LookupError::Table { .. } | LookupError::Plan { .. } => Fault::Internal,
        }
    }
}
