//! What can go wrong between client and server.

use unspoken_ckks::CkksError;
use unspoken_encrypt::EncryptError;
use unspoken_matrix::MatrixError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArraysError {
    /// Shapes, layouts, depth, or encrypted arithmetic.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// EncryptedInputs could not be encrypted: a value that is too large, named.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// What was given does not fit the program.
    #[error("{operation}: found {found}; needed {needed}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// What it got.
        found: String,
        /// What it takes, and what to do.
        needed: String,
    },
    /// Bytes cannot be read.
    #[error("cannot read {what}: found {found}, needed {needed}")]
    Decode {
        /// What was being read.
        what: &'static str,
        /// What was there.
        found: String,
        /// What should have been there.
        needed: String,
    },
}

impl ArraysError {
    pub(crate) fn mismatch(operation: &'static str, found: impl Into<String>, needed: impl Into<String>) -> Self {
        ArraysError::Mismatch { operation, found: found.into(), needed: needed.into() }
    }

    /// Whether the work was stopped on request.
    pub fn is_interrupted(&self) -> bool {
        matches!(self.rlwe(), Some(RlweError::Interrupted))
    }

    /// Whether keys are missing.
    pub fn is_missing_keys(&self) -> bool {
        matches!(self.rlwe(), Some(RlweError::MissingKeys { .. }))
    }

    /// Whether bytes were not what they should be.
    pub fn is_malformed(&self) -> bool {
        matches!((self, self.rlwe()), (ArraysError::Decode { .. }, _) | (_, Some(RlweError::Decode { .. })))
    }

    fn rlwe(&self) -> Option<&RlweError> {
        match self {
            ArraysError::Matrix(MatrixError::Rlwe(error) | MatrixError::Ckks(CkksError::Rlwe(error))) => Some(error),
            _ => None,
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
