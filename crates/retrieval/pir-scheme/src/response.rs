//! Responses: ciphertexts in a small ring with small moduli.

use unspoken_gsw::RlweCiphertext;
use unspoken_ring::Poly;

use crate::error::SchemeError;
use crate::keys::PreparedKeys;
use crate::packing::{highest, packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// An encrypted piece in the ring of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Second component: residues modulo the ring's prime.
    mask: Vec<u32>,
    /// First component: fractions of the modulus, rounded to `body_bits` bits.
    body: Vec<u32>,
}

impl Response {
    /// Bytes of a response.
    pub fn byte_len(parameters: &PirParameters) -> usize {
        mask_bytes(parameters) + body_bytes(parameters)
    }

    /// The residues of the mask, then the fractions of the body, packed.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let literal = &parameters.literal().response;
        let mut bytes = packed(&self.mask, literal.prime.ilog2() + 1);
        bytes.extend(packed(&self.body, literal.body_bits));
        bytes
    }

    /// Reads a response from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(parameters);
        if bytes.len() != needed {
            return Err(SchemeError::format("response", format!("{} bytes", bytes.len()), format!("{needed} bytes")));
        }
        let literal = &parameters.literal().response;
        let (mask, body) = bytes.split_at(mask_bytes(parameters));
        let unpacked = |bytes: &[u8], bits| {
            let malformed = || SchemeError::format("response", "other bytes", "packed residues");
            unpacked(bytes, bits, literal.degree).ok_or_else(malformed)
        };
        let mask = unpacked(mask, literal.prime.ilog2() + 1)?;
        if let Some(found) = mask.iter().find(|&&residue| residue >= literal.prime) {
            return Err(SchemeError::format("response", found, format!("residues below {}", literal.prime)));
        }
        Ok(Response { mask, body: unpacked(body, literal.body_bits)? })
    }

    pub(crate) fn body(&self) -> &[u32] {
        &self.body
    }

    pub(crate) fn mask_integers(&self) -> Vec<i64> {
        self.mask.iter().map(|&x| x.into()).collect()
    }

    /// Switches the modulus and the ring of a ciphertext whose message is in the coefficients that are 0 modulo the
    /// number of pieces (Pirouette, Algorithm 11), and rounds the first component.
    pub(crate) fn compress(keys: &PreparedKeys, ciphertext: &RlweCiphertext) -> Result<Self, SchemeError> {
        let parameters = &keys.parameters;
        let (ring, small, pieces) = (parameters.ring(), parameters.response(), parameters.pieces());
        let literal = &parameters.literal().response;
        let [c0, c1] = ciphertext.coefficients(ring)?;
        let scaled = |poly: &Poly| ring.scale_round(poly, literal.prime);
        let (c0, c1) = (scaled(&c0)?, scaled(&c1)?);
        let part = |words: &[u32], k: usize| -> Result<Poly, SchemeError> {
            let coefficients: Vec<i64> = words.iter().skip(k).step_by(pieces).map(|&x| x.into()).collect();
            Ok(small.from_i64(&coefficients, parameters.response_basis())?)
        };
        // Compute the part of `c_1 s` in powers of `Y = X^pieces`. The coefficients of `c_1` at `X^k` multiply the
        // coefficients of `s` at `X^(pieces - k)`, which gives one more factor `Y`.
        let mut sums: Option<[Poly; 2]> = None;
        for k in 0..pieces {
            let part = part(&c1, k)?;
            let (part, key) = if k == 0 { (part, 0) } else { (small.rotated(&part, 1)?, pieces - k) };
            let digits = small.digits(parameters.response_gadget(), &[&part])?;
            let product = small.digit_product(&digits, &keys.response[key])?;
            match &mut sums {
                Some(sums) => {
                    for (sum, product) in sums.iter_mut().zip(&product) {
                        small.add_assign(sum, product)?;
                    }
                }
                None => sums = Some(product),
            }
        }
        let Some([mut body, mut mask]) = sums else { return Ok(Response { mask: vec![], body: vec![] }) };
        small.to_coefficients(&mut body)?;
        small.to_coefficients(&mut mask)?;
        small.add_assign(&mut body, &part(&c0, 0)?)?;
        let body = small.fractions(&body)?.iter().map(|&x| highest(x, literal.body_bits)).collect();
        Ok(Response { mask: small.residues(&mask)?.to_vec(), body })
    }
}

fn mask_bytes(parameters: &PirParameters) -> usize {
    let literal = &parameters.literal().response;
    packed_bytes(literal.degree, literal.prime.ilog2() + 1)
}

fn body_bytes(parameters: &PirParameters) -> usize {
    let literal = &parameters.literal().response;
    packed_bytes(literal.degree, literal.body_bits)
}
