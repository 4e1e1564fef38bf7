//! Errors of this crate.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_encrypted_matrix::EncryptedMatrixError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Invalid shapes or layouts, too little depth, or an error of encrypted arithmetic.
    #[error(transparent)]
    Matrix(#[from] EncryptedMatrixError),
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

impl MatrixError {
    pub(crate) fn mismatch(operation: &'static str, found: impl Into<String>, needed: impl Into<String>) -> Self {
        MatrixError::Mismatch { operation, found: found.into(), needed: needed.into() }
    }

    /// Whether keys are missing.
    pub fn is_missing_keys(&self) -> bool {
        matches!(self.rlwe(), Some(RlweError::MissingKeys { .. }))
    }

    /// Whether bytes were malformed, or of other parameters.
    pub fn is_malformed(&self) -> bool {
        let protocol =
            matches!(self, MatrixError::Protocol(ProtocolError::Mismatch { .. } | ProtocolError::Damaged { .. }));
        protocol || matches!(self, MatrixError::Decode { .. }) || matches!(self.rlwe(), Some(RlweError::Decode { .. }))
    }

    fn rlwe(&self) -> Option<&RlweError> {
        match self {
            MatrixError::Matrix(
                EncryptedMatrixError::Rlwe(error) | EncryptedMatrixError::Ckks(CkksError::Rlwe(error)),
            ) => Some(error),
            _ => None,
        }
    }
}

impl ApplicationError for MatrixError {
    fn kind(&self) -> ErrorKind {
        match self {
            MatrixError::Matrix(
                EncryptedMatrixError::Rlwe(error) | EncryptedMatrixError::Ckks(CkksError::Rlwe(error)),
            ) => error.kind(),
            MatrixError::Matrix(EncryptedMatrixError::Ckks(error)) => error.kind(),
            MatrixError::Encrypt(error) => error.kind(),
            MatrixError::Protocol(error) => error.kind(),
            MatrixError::Decode { .. } => ErrorKind::Malformed,
            MatrixError::Matrix(_) | MatrixError::Mismatch { .. } | MatrixError::Magnitude { .. } => {
                ErrorKind::Mismatch
            }
        }
    }
}

impl From<CkksError> for MatrixError {
    fn from(error: CkksError) -> Self {
        MatrixError::Matrix(error.into())
    }
}

impl From<RlweError> for MatrixError {
    fn from(error: RlweError) -> Self {
        MatrixError::Matrix(error.into())
    }
}
