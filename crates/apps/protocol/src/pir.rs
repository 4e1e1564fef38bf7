//! What applications on private retrieval share: the presets, and the kinds of errors.

use std::io;

use unspoken_pir_scheme::{GswError, PirParameters, Preset, SchemeError};

use crate::error::{ApplicationError, ErrorKind, ProtocolError};
use crate::handshake::ParameterFamily;

/// The presets of private retrieval.
pub struct PirPresets;

impl ParameterFamily for PirPresets {
    type Parameters = PirParameters;
    type Error = ProtocolError;

    fn build(name: &str) -> Result<PirParameters, ProtocolError> {
        Ok(Preset::find(name)?.build()?)
    }

    fn fingerprint(parameters: &PirParameters) -> [u8; 16] {
        parameters.fingerprint()
    }

    fn is_insecure(parameters: &PirParameters) -> bool {
        parameters.is_insecure()
    }
}

impl ApplicationError for SchemeError {
    fn kind(&self) -> ErrorKind {
        match self {
            SchemeError::Interrupted => ErrorKind::Cancelled,
            SchemeError::Busy => ErrorKind::Busy,
            // A cell is decrypted.
            SchemeError::Unreadable | SchemeError::Forged | SchemeError::Cell { .. } => ErrorKind::Unreadable,
            SchemeError::Table { .. } => ErrorKind::Internal,
            SchemeError::Mode { .. }
            | SchemeError::OtherParameters { .. }
            | SchemeError::Failure { .. }
            | SchemeError::Upload { .. } => ErrorKind::Mismatch,
            SchemeError::Format { .. }
            | SchemeError::Index { .. }
            | SchemeError::Range { .. }
            | SchemeError::Record { .. }
            | SchemeError::Kind { .. }
            | SchemeError::Length { .. } => ErrorKind::Malformed,
            // A device may be short of memory, or have failed.
            SchemeError::Ring(error) | SchemeError::Gsw(GswError::Ring(error)) => error.kind(),
            error => match error.read_failure() {
                Some(io::ErrorKind::UnexpectedEof) => ErrorKind::Malformed,
                Some(kind) => ErrorKind::Io(kind),
                None if matches!(error, SchemeError::Gsw(_)) => ErrorKind::Malformed,
                None => ErrorKind::Internal,
            },
        }
    }
}
