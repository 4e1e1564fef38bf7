//! Responses from dense tables.

use unspoken_gsw::RlweCiphertext;

use crate::dense::partial::PartialResponse;
use crate::dense::rounded::{Rounded, Rounding};
use crate::dense::shape::DenseShape;
use crate::dense::{BODY_BITS, MASK_BITS};
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// An encrypted cell: the rounded mask of a ciphertext, and the rounded bodies of the cell's coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseResponse(pub(crate) Rounded);

/// What responses are rounded to. The cell is in every coefficient with a number divisible by the places of a row.
pub(crate) fn rounding(parameters: &PirParameters, shape: DenseShape) -> Rounding {
    Rounding { mask_bits: MASK_BITS, body_bits: BODY_BITS, step: shape.places(parameters) }
}

impl DenseResponse {
    /// Bytes of a response.
    pub fn byte_len(parameters: &PirParameters, shape: DenseShape) -> usize {
        Rounded::byte_len(parameters, rounding(parameters, shape))
    }

    /// Serialises the response to [`DenseResponse::byte_len`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes(Rounding { mask_bits: MASK_BITS, body_bits: BODY_BITS, step: 1 })
    }

    /// Reads a response from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong.
    pub fn from_bytes(parameters: &PirParameters, shape: DenseShape, bytes: &[u8]) -> Result<Self, SchemeError> {
        Ok(DenseResponse(Rounded::from_bytes(parameters, rounding(parameters, shape), bytes)?))
    }

    /// The response from the partial responses of all parts of a table: their sum, rounded. It takes no keys. If a part
    /// is missing, the result is a response all the same, and it is wrong.
    ///
    /// # Errors
    /// If there is no partial response.
    pub fn merged(
        parameters: &PirParameters,
        shape: DenseShape,
        partials: &[PartialResponse],
    ) -> Result<Self, SchemeError> {
        Self::compress(parameters, shape, &PartialResponse::sum(parameters, partials)?)
    }

    /// Rounds a ciphertext of a cell.
    pub(crate) fn compress(
        parameters: &PirParameters,
        shape: DenseShape,
        ciphertext: &RlweCiphertext,
    ) -> Result<Self, SchemeError> {
        Ok(DenseResponse(Rounded::new(parameters, ciphertext, rounding(parameters, shape))?))
    }
}
