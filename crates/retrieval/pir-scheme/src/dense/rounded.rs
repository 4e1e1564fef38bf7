//! Ciphertexts rounded to few bits, as responses hold them.

use unspoken_gsw::RlweCiphertext;

use crate::client::PirSecret;
use crate::error::SchemeError;
use crate::packing::{highest, packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;
use zeroize::Zeroizing;

/// What a ciphertext is rounded to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    /// Bits of each coefficient of the mask.
    pub(crate) mask_bits: u32,
    /// Bits of each coefficient of the body.
    pub(crate) body_bits: u32,
    /// Every coefficient of the body whose number this divides is kept; a power of two.
    pub(crate) step: usize,
}

/// The rounded mask of a ciphertext, and rounded coefficients of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rounded {
    mask: Vec<u32>,
    body: Vec<u32>,
}

impl Rounded {
    /// Rounds a ciphertext.
    pub(crate) fn new(
        parameters: &PirParameters,
        ciphertext: &RlweCiphertext,
        rounding: Rounding,
    ) -> Result<Self, SchemeError> {
        let ring = parameters.ring();
        let [body, mask] = ciphertext.coefficients(ring)?;
        let (body, mask) = (ring.fractions(&body)?, ring.fractions(&mask)?);
        Ok(Rounded {
            mask: mask.iter().map(|&word| highest(word, rounding.mask_bits)).collect(),
            body: body.iter().step_by(rounding.step).map(|&word| highest(word, rounding.body_bits)).collect(),
        })
    }

    /// Bytes of a rounded ciphertext.
    pub(crate) fn byte_len(parameters: &PirParameters, rounding: Rounding) -> usize {
        let degree = parameters.ring().degree();
        packed_bytes(degree, rounding.mask_bits) + packed_bytes(degree / rounding.step, rounding.body_bits)
    }

    /// Serialises it to [`Rounded::byte_len`] bytes.
    pub(crate) fn to_bytes(&self, rounding: Rounding) -> Vec<u8> {
        [packed(&self.mask, rounding.mask_bits), packed(&self.body, rounding.body_bits)].concat()
    }

    /// Reads it from untrusted bytes.
    pub(crate) fn from_bytes(
        parameters: &PirParameters,
        rounding: Rounding,
        bytes: &[u8],
    ) -> Result<Self, SchemeError> {
        let degree = parameters.ring().degree();
        let needed = Self::byte_len(parameters, rounding);
        let wrong = || SchemeError::format("response", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        let (mask, body) = bytes.split_at_checked(packed_bytes(degree, rounding.mask_bits)).ok_or_else(wrong)?;
        let mask = unpacked(mask, rounding.mask_bits, degree).ok_or_else(wrong)?;
        let body = unpacked(body, rounding.body_bits, degree / rounding.step).ok_or_else(wrong)?;
        Ok(Rounded { mask, body })
    }

    /// Number of coefficients of the body.
    pub(crate) fn coefficients(&self) -> usize {
        self.body.len()
    }
}

impl PirSecret {
    /// The decrypted coefficients, as fractions of the modulus. They count modulo 1.
    pub(crate) fn fractions(&self, rounded: &Rounded, rounding: Rounding) -> Result<Zeroizing<Vec<f64>>, SchemeError> {
        let ring = self.parameters().ring();
        let mask: Vec<i64> = rounded.mask.iter().map(|&word| word.into()).collect();
        let mut product = ring.evaluate_i64(&mask, ring.basis())?;
        ring.mul_assign(&mut product, self.ring().poly())?;
        ring.to_coefficients(&mut product)?;
        let products = ring.to_f64(&product)?;
        let per = |bits: u32| (-f64::from(bits)).exp2();
        let pairs = products.iter().step_by(rounding.step).zip(&rounded.body);
        let fraction = |(product, &body): (&f64, &u32)| {
            product * per(rounding.mask_bits) + f64::from(body) * per(rounding.body_bits)
        };
        Ok(Zeroizing::new(pairs.map(fraction).collect()))
    }
}
