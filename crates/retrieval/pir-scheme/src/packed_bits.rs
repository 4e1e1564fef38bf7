//! The bits of a number in one ring element, of which few coefficients are sent.

use unspoken_gsw::{Noise, Rgsw, RlweCiphertext};
use unspoken_ring::{DigitGadget, SecretRng, Seed};
use zeroize::Zeroizing;

use crate::client::PirSecret;
use crate::device::each;
use crate::error::SchemeError;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;

/// An RLWE ciphertext of all gadget weights of the bits of a number, each weight in a coefficient of its own. The mask
/// is expanded from a seed. Of the body, only the coefficients with weights are sent, rounded to 32 bits: the rounding
/// error is below the noise that a blind rotation would have.
///
/// The other coefficients of the phase are then not small. The trace that takes a coefficient out removes all others,
/// whatever they are.
#[derive(Clone, Debug)]
pub struct PackedBits {
    seed: Seed,
    /// Coefficients of the body, as fractions of the modulus in units of `2^-32`.
    bodies: Vec<u32>,
}

impl PackedBits {
    /// Bytes of bits whose gadgets have this number of weights.
    pub(crate) fn byte_len(weights: usize) -> usize {
        size_of::<Seed>() + weights * size_of::<u32>()
    }

    /// Serialises it to [`PackedBits::byte_len`] bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.seed.0.into_iter().chain(self.bodies.iter().flat_map(|body| body.to_le_bytes())).collect()
    }

    /// Reads it from untrusted bytes.
    pub(crate) fn from_bytes(gadgets: &[DigitGadget], bytes: &[u8]) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(weights(gadgets));
        let (seed, rest) = bytes.split_first_chunk().filter(|_| bytes.len() == needed).ok_or_else(|| {
            SchemeError::format("packed bits", format!("{} bytes", bytes.len()), format!("{needed} bytes"))
        })?;
        let bodies = rest.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Ok(PackedBits { seed: Seed(*seed), bodies })
    }

    /// RGSW ciphertexts of the bits, the lowest first. The number of bodies must be that of the weights.
    pub(crate) fn expand(&self, keys: &PreparedKeys, gadgets: &[DigitGadget]) -> Result<Vec<Rgsw>, SchemeError> {
        let ring = keys.parameters.ring();
        let (found, needed) = (self.bodies.len(), weights(gadgets));
        if found != needed {
            return Err(SchemeError::format("packed bits", format!("{found} weights"), format!("{needed} weights")));
        }
        if needed == 0 {
            return Ok(Vec::new());
        }
        let (count, modulus) = (coefficients(gadgets), keys.parameters.modulus());
        let mut body = vec![0; ring.degree()];
        let places = body.iter_mut().step_by(ring.degree() / count);
        places.zip(&self.bodies).for_each(|(place, &word)| *place = integer(word, modulus));
        let whole = RlweCiphertext::expand(ring, &ring.evaluate_i64(&body, ring.basis())?, &self.seed)?;
        let weights = keys.conversion.trace().coefficients(&whole, count)?;
        let mut rest = weights.as_slice();
        let mut of_bits = Vec::with_capacity(gadgets.len());
        for &gadget in gadgets {
            let (weights, others) = rest.split_at(gadget.levels());
            of_bits.push((gadget, weights));
            rest = others;
        }
        Ok(each(ring, of_bits, |(gadget, weights)| keys.conversion.rgsw(gadget, weights))?)
    }
}

impl PirSecret {
    /// Encrypts the lowest bits of a number, each for a gadget, with fresh randomness.
    pub(crate) fn packed_bits(
        &self,
        gadgets: &[DigitGadget],
        number: u64,
        rng: &mut SecretRng,
    ) -> Result<PackedBits, SchemeError> {
        let (ring, seed) = (self.parameters().ring(), rng.seed());
        let stride = ring.degree() / coefficients(gadgets);
        let mut message = Zeroizing::new(vec![0i64; ring.degree()]);
        let values = gadgets.iter().enumerate().flat_map(|(bit, gadget)| {
            (0..gadget.levels()).map(move |level| ((number >> bit & 1) as i64) << gadget.log2_weight(level))
        });
        message.iter_mut().step_by(stride).zip(values).for_each(|(place, value)| *place = value);
        let mut message = ring.evaluate_i64(&message, ring.basis())?;
        message.mark_secret();
        let mut body = self.ring().encrypt_seeded(&message, (&seed, 0), rng)?;
        ring.to_coefficients(&mut body)?;
        let bodies = ring.fractions(&body)?.iter().copied().step_by(stride).take(weights(gadgets)).collect();
        Ok(PackedBits { seed, bodies })
    }
}

impl PirParameters {
    /// Noise of the coefficient of a weight of packed bits, before the trace: a fresh error, and the rounding of the
    /// body.
    pub(crate) fn packed_weight_noise(&self) -> Noise {
        Noise::fresh(self.ring()).plus(Noise((-2.0 * f64::from(u32::BITS)).exp2() / 12.0))
    }
}

/// The integer modulo `modulus`, of at most 63 bits, that is nearest to a fraction of it in units of `2^-32`.
fn integer(fraction: u32, modulus: i128) -> i64 {
    ((i128::from(fraction) * modulus + (1 << (u32::BITS - 1))) >> u32::BITS) as i64
}

/// Number of weights of the bits of these gadgets.
pub(crate) fn weights(gadgets: &[DigitGadget]) -> usize {
    gadgets.iter().map(DigitGadget::levels).sum()
}

/// Number of coefficients that are taken out: one for each weight, rounded up to a power of two.
fn coefficients(gadgets: &[DigitGadget]) -> usize {
    weights(gadgets).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{DenseQuery, DenseShape};
    use crate::{DatabaseShape, Mode, Preset, Query};

    #[test]
    fn rounded_coefficients_come_back_within_half_a_unit() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let (ring, modulus) = (parameters.ring(), parameters.modulus());
        let ends = [0, 1, -1, modulus / 2, -modulus / 2, modulus / 3, (modulus >> 33) + 1, -(modulus >> 33) - 1];
        let mut coefficients = vec![0; ring.degree()];
        coefficients.iter_mut().zip(ends).for_each(|(place, value)| *place = value as i64);
        let mut poly = ring.evaluate_i64(&coefficients, ring.basis()).unwrap();
        ring.to_coefficients(&mut poly).unwrap();
        let fractions = ring.fractions(&poly).unwrap();
        for (&coefficient, &fraction) in coefficients.iter().zip(fractions.iter()) {
            let error = (i128::from(integer(fraction, modulus)) - i128::from(coefficient)).rem_euclid(modulus);
            assert!(error.min(modulus - error) <= (modulus >> 33) + (modulus >> 35) + 1, "{coefficient}: {error}");
        }
    }

    #[test]
    fn queries_have_the_lengths_that_the_documents_state() {
        let parameters = Preset::N11.build().unwrap();
        for (log2_pieces, bytes, dense) in [(20, 312, 146_556), (22, 328, 146_580), (25, 352, 146_616)] {
            let shape = DatabaseShape::new(&parameters, 1 << log2_pieces).unwrap();
            assert_eq!(Query::byte_len(&parameters, Mode::Packed, shape), bytes);
            let shape = DenseShape::new(&parameters, 1 << log2_pieces, 256).unwrap();
            assert_eq!(DenseQuery::byte_len(&parameters, shape), dense);
        }
    }
}
