//! Partial responses from parts of dense tables.

use unspoken_gsw::RlweCiphertext;
use unspoken_ring::{Domain, Poly};

use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// The share of a part of a table in a response: a ciphertext over the full modulus, under the client's secret. It is
/// an encryption of zero, or of a part of a sum over rows, and means nothing without the others.
#[derive(Clone, Debug)]
pub struct PartialResponse(RlweCiphertext);

impl PartialResponse {
    pub(crate) fn new(parameters: &PirParameters, mut ciphertext: RlweCiphertext) -> Result<Self, SchemeError> {
        ciphertext.fetch(parameters.ring())?;
        Ok(PartialResponse(ciphertext))
    }

    /// Bytes of a partial response.
    pub fn byte_len(parameters: &PirParameters) -> usize {
        2 * parameters.ring().residue_bytes(parameters.ring().basis())
    }

    /// Serialises the partial response to [`PartialResponse::byte_len`] bytes.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(parameters));
        self.0.components().iter().for_each(|poly| parameters.ring().write_residues(poly, &mut bytes));
        bytes
    }

    /// Reads a partial response from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, SchemeError> {
        let (ring, needed) = (parameters.ring(), Self::byte_len(parameters));
        let wrong =
            || SchemeError::format("partial response", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        let (body, mask) = bytes.split_at_checked(needed / 2).ok_or_else(wrong)?;
        if bytes.len() != needed {
            return Err(wrong());
        }
        let read = |bytes| ring.read_residues(bytes, ring.basis(), Domain::Evaluation);
        let components: [Poly; 2] = [read(body)?, read(mask)?];
        Ok(PartialResponse(RlweCiphertext::from_components(components)))
    }

    /// The sum of partial responses.
    pub(crate) fn sum(parameters: &PirParameters, partials: &[PartialResponse]) -> Result<RlweCiphertext, SchemeError> {
        let none = || SchemeError::format("partial responses", 0, "one from each shard");
        let (PartialResponse(first), others) = partials.split_first().ok_or_else(none)?;
        let ring = parameters.ring();
        let [mut body, mut mask] = first.components().map(Poly::clone);
        for PartialResponse(other) in others {
            let [more_body, more_mask] = other.components();
            ring.add_assign(&mut body, more_body)?;
            ring.add_assign(&mut mask, more_mask)?;
        }
        Ok(RlweCiphertext::from_components([body, mask]))
    }
}
