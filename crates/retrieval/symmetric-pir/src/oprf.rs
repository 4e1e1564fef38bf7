//! The verifiable oblivious pseudorandom function of RFC 9497, mode VOPRF, suite ristretto255-SHA512: reading of its
//! elements from untrusted bytes, and lengths of its messages.

use voprf::{BlindedElement, EvaluationElement, Group, Proof, Ristretto255};
use zeroize::Zeroizing;

use crate::error::SymmetricPirError;

/// The suite.
pub(crate) type Suite = Ristretto255;

/// A public key: an element of the group.
pub(crate) type PublicElement = <Ristretto255 as Group>::Elem;

/// Maximum number of blinded names in one request.
pub const MAX_ELEMENTS: usize = 256;

/// Bytes of an element of the group.
pub(crate) const ELEMENT_BYTES: usize = 32;

/// Bytes of a scalar.
pub(crate) const SCALAR_BYTES: usize = 32;

/// Bytes of a proof: two scalars.
const PROOF_BYTES: usize = 2 * SCALAR_BYTES;

/// Bytes of the function's output.
const OUTPUT_BYTES: usize = 64;

/// An output of the function. Wiped when dropped.
pub(crate) type Output = Zeroizing<[u8; OUTPUT_BYTES]>;

/// Length in bytes of a request with `elements` blinded names.
pub const fn request_bytes(elements: usize) -> usize {
    elements * ELEMENT_BYTES
}

/// Length in bytes of the response to a request with `elements` blinded names: an element for each name, and one proof.
pub const fn response_bytes(elements: usize) -> usize {
    elements * ELEMENT_BYTES + PROOF_BYTES
}

/// An error for bytes that are no element. `what` names the message.
fn no_element(what: &'static str) -> SymmetricPirError {
    let found = "32 bytes that are no element, or the identity";
    SymmetricPirError::mismatch(what, found, "elements of ristretto255 in their canonical encoding (RFC 9496)")
}

/// Reads an element other than the identity. Other encodings than the canonical one are refused.
pub(crate) fn read_element(what: &'static str, bytes: &[u8]) -> Result<PublicElement, SymmetricPirError> {
    Ristretto255::deserialize_elem(bytes).map_err(|_| no_element(what))
}

/// Reads a request of 1 to `most` blinded names, all different.
pub(crate) fn read_request(bytes: &[u8], most: usize) -> Result<Vec<BlindedElement<Suite>>, SymmetricPirError> {
    const WHAT: &str = "request of blinded names";
    let (elements, rest) = bytes.as_chunks::<ELEMENT_BYTES>();
    if !rest.is_empty() || !(1..=most).contains(&elements.len()) {
        let needed = format!("1 to {most} elements of {ELEMENT_BYTES} bytes each");
        return Err(SymmetricPirError::mismatch(WHAT, format!("{} bytes", bytes.len()), needed));
    }
    let mut sorted = elements.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(SymmetricPirError::mismatch(
            WHAT,
            "an element twice",
            "elements that differ: blind each name anew",
        ));
    }
    let read = |element: &[u8; ELEMENT_BYTES]| BlindedElement::deserialize(element).map_err(|_| no_element(WHAT));
    elements.iter().map(read).collect()
}

/// A response of the service: an element for each blinded name, and the proof.
pub(crate) struct Response {
    pub(crate) elements: Vec<EvaluationElement<Suite>>,
    pub(crate) proof: Proof<Suite>,
}

impl Response {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(response_bytes(self.elements.len()));
        self.elements.iter().for_each(|element| bytes.extend(element.serialize()));
        bytes.extend(self.proof.serialize());
        bytes
    }

    /// Reads the response to a request with `count` blinded names.
    pub(crate) fn read(bytes: &[u8], count: usize) -> Result<Self, SymmetricPirError> {
        const WHAT: &str = "answer to blinded names";
        let length = || {
            let needed = format!("{} bytes for {count} names", response_bytes(count));
            SymmetricPirError::mismatch(WHAT, format!("{} bytes", bytes.len()), needed)
        };
        if bytes.len() != response_bytes(count) {
            return Err(length());
        }
        let (elements, proof) = bytes.split_last_chunk::<PROOF_BYTES>().ok_or_else(length)?;
        let read = |element| EvaluationElement::deserialize(element).map_err(|_| no_element(WHAT));
        let elements = elements.chunks_exact(ELEMENT_BYTES).map(read).collect::<Result<_, _>>()?;
        let no_proof = |_| SymmetricPirError::mismatch(WHAT, "a proof that is no pair of scalars", "canonical scalars");
        let proof = Proof::deserialize(proof).map_err(no_proof)?;
        Ok(Response { elements, proof })
    }
}

/// Copies an output into memory that is wiped.
pub(crate) fn wiped(output: &[u8]) -> Output {
    let mut wiped = Zeroizing::new([0; OUTPUT_BYTES]);
    wiped.iter_mut().zip(output).for_each(|(to, from)| *to = *from);
    wiped
}

/// The error of an operation with randomness of the system.
pub(crate) fn failed(error: voprf::Error) -> SymmetricPirError {
    match error {
        voprf::Error::ProofVerification => SymmetricPirError::Proof,
        error => SymmetricPirError::Oprf(error),
    }
}
