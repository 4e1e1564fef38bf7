//! Responses from dense tables.

use unspoken_gsw::RlweCiphertext;

use crate::dense::partial::PartialResponse;
use crate::dense::shape::DenseShape;
use crate::dense::{BODY_BITS, MASK_BITS};
use crate::error::SchemeError;
use crate::packing::{highest, packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// An encrypted cell: the rounded mask of a ciphertext, and the rounded bodies of the cell's coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseResponse {
    pub(crate) mask: Vec<u32>,
    pub(crate) body: Vec<u32>,
}

impl DenseResponse {
    /// Bytes of a response.
    pub fn byte_len(parameters: &PirParameters, shape: DenseShape) -> usize {
        packed_bytes(parameters.ring().degree(), MASK_BITS) + packed_bytes(shape.cell_bytes, BODY_BITS)
    }

    /// Serialises the response to [`DenseResponse::byte_len`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        [packed(&self.mask, MASK_BITS), packed(&self.body, BODY_BITS)].concat()
    }

    /// Reads a response from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong.
    pub fn from_bytes(parameters: &PirParameters, shape: DenseShape, bytes: &[u8]) -> Result<Self, SchemeError> {
        let degree = parameters.ring().degree();
        let needed = Self::byte_len(parameters, shape);
        let wrong = || SchemeError::format("response", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        let (mask, body) = bytes.split_at_checked(packed_bytes(degree, MASK_BITS)).ok_or_else(wrong)?;
        let mask = unpacked(mask, MASK_BITS, degree).ok_or_else(wrong)?;
        let body = unpacked(body, BODY_BITS, shape.cell_bytes).ok_or_else(wrong)?;
        Ok(DenseResponse { mask, body })
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
        Self::compress(parameters, &PartialResponse::sum(parameters, partials)?, shape.places(parameters))
    }

    /// Rounds a ciphertext whose cell is in every coefficient with a number divisible by `places`.
    pub(crate) fn compress(
        parameters: &PirParameters,
        ciphertext: &RlweCiphertext,
        places: usize,
    ) -> Result<Self, SchemeError> {
        let ring = parameters.ring();
        let [body, mask] = ciphertext.coefficients(ring)?;
        let (body, mask) = (ring.fractions(&body)?, ring.fractions(&mask)?);
        Ok(DenseResponse {
            mask: mask.iter().map(|&word| highest(word, MASK_BITS)).collect(),
            body: body.iter().step_by(places).map(|&word| highest(word, BODY_BITS)).collect(),
        })
    }
}
