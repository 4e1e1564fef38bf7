//! Responses with the scores of a cluster.

use crate::dense::rounded::Rounded;
use crate::dense::scores::shape::ScoreShape;
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// The encrypted scores of a cluster: of all columns of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreResponse(pub(super) Rounded);

impl ScoreResponse {
    /// Bytes of a response.
    pub fn byte_len(parameters: &PirParameters) -> usize {
        Rounded::byte_len(parameters, ScoreShape::rounding())
    }

    /// Serialises the response to [`ScoreResponse::byte_len`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes(ScoreShape::rounding())
    }

    /// Reads a response from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong.
    pub fn from_bytes(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, SchemeError> {
        Ok(ScoreResponse(Rounded::from_bytes(parameters, ScoreShape::rounding(), bytes)?))
    }
}
