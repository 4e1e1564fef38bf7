//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_matrix::MatrixError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArraysError {
    /// Invalid shapes or layouts, too little depth, or an error of encrypted arithmetic.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// Inputs could not be encrypted: a value is too large.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// The two sides do not match, a message is malformed, or an operation on keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// An argument does not match the program.
    #[error("{operation}: found {found}; needed {needed}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// The value found.
        found: String,
        /// The value needed, and what to do.
        needed: String,
    },
    /// Values that are too large or too small for every parameter set that was tried.
    #[error("{operation}: found {found}; needed {needed}")]
    Magnitude {
        /// The operation.
        operation: &'static str,
        /// The values found, and where.
        found: String,
        /// The values that fit, and what to do.
        needed: String,
    },
    /// Bytes cannot be decoded.
    #[error("cannot read {what}: found {found}, needed {needed}")]
    Decode {
        /// The object being read.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value needed.
        needed: String,
    },
}

impl ArraysError {
    pub(crate) fn mismatch(operation: &'static str, found: impl Into<String>, needed: impl Into<String>) -> Self {
        ArraysError::Mismatch { operation, found: found.into(), needed: needed.into() }
    }

    /// Whether keys are missing.
    pub fn is_missing_keys(&self) -> bool {
        matches!(self.rlwe(), Some(RlweError::MissingKeys { .. }))
    }

    /// Whether bytes were malformed, or of other parameters.
    pub fn is_malformed(&self) -> bool {
        let protocol =
            matches!(self, ArraysError::Protocol(ProtocolError::Mismatch { .. } | ProtocolError::Damaged { .. }));
        protocol || matches!(self, ArraysError::Decode { .. }) || matches!(self.rlwe(), Some(RlweError::Decode { .. }))
    }

    fn rlwe(&self) -> Option<&RlweError> {
        match self {
            ArraysError::Matrix(MatrixError::Rlwe(error) | MatrixError::Ckks(CkksError::Rlwe(error))) => Some(error),
            _ => None,
        }
    }
}

impl ApplicationError for ArraysError {
    fn kind(&self) -> ErrorKind {
        match self {
            ArraysError::Matrix(MatrixError::Rlwe(error) | MatrixError::Ckks(CkksError::Rlwe(error))) => error.kind(),
            ArraysError::Matrix(MatrixError::Ckks(error)) => error.kind(),
            ArraysError::Encrypt(error) => error.kind(),
            ArraysError::Protocol(error) => error.kind(),
            ArraysError::Decode { .. } => ErrorKind::Malformed,
            ArraysError::Matrix(_) | ArraysError::Mismatch { .. } | ArraysError::Magnitude { .. } => {
                ErrorKind::Mismatch
            }
        }
    }
}

impl From<CkksError> for ArraysError {
    fn from(error: CkksError) -> Self {
        ArraysError::Matrix(error.into())
    }
}

impl From<RlweError> for ArraysError {
    fn from(error: RlweError) -> Self {
        ArraysError::Matrix(error.into())
    }
}
