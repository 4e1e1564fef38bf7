//! The bits of a number in one ring element, of which few coefficients are sent.

use unspoken_gsw::{Noise, Rgsw, RlweCiphertext};
use unspoken_ring::{DigitGadget, SecretRng, Seed, nearest_integer};
use zeroize::Zeroizing;

use crate::client::PirSecret;
use crate::device::each;
use crate::error::SchemeError;
use crate::keys::PreparedKeys;
use crate::packing::{packed, packed_bytes, unpacked};
use crate::parameters::PirParameters;

/// Bits that the coefficients of the body are rounded to.
const BODY_BITS: u32 = 37;

/// An RLWE ciphertext of all gadget weights of the bits of a number, each weight in a coefficient of its own. The mask
/// is expanded from a seed. Of the body, only the coefficients with weights are sent, rounded.
///
/// The other coefficients of the phase are then not small. The trace that takes a coefficient out removes all others,
/// whatever they are.
#[derive(Clone, Debug)]
pub struct PackedBits {
    seed: Seed,
    /// Coefficients of the body, centred and rounded to multiples of a power of two, as words of [`BODY_BITS`] bits in
    /// two's complement.
    bodies: Vec<u64>,
}

impl PackedBits {
    /// Bytes of bits whose gadgets have this number of weights.
    pub(crate) fn byte_len(weights: usize) -> usize {
        size_of::<Seed>() + packed_bytes(weights, BODY_BITS)
    }

    /// Serialises it to [`PackedBits::byte_len`] bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&self.seed.0[..], &packed(&self.bodies, BODY_BITS)].concat()
    }

    /// Reads it from untrusted bytes.
    pub(crate) fn from_bytes(gadgets: &[DigitGadget], bytes: &[u8]) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(weights(gadgets));
        let (seed, rest) = bytes.split_first_chunk().filter(|_| bytes.len() == needed).ok_or_else(|| {
            SchemeError::format("packed bits", format!("{} bytes", bytes.len()), format!("{needed} bytes"))
        })?;
        let unused = || SchemeError::format("packed bits", "bits that are not used", "zeros there");
        Ok(PackedBits { seed: Seed(*seed), bodies: unpacked(rest, BODY_BITS, weights(gadgets)).ok_or_else(unused)? })
    }

    /// RGSW ciphertexts of the bits, the lowest first. The number of bodies must be that of the weights.
    pub(crate) fn expand(&self, keys: &PreparedKeys, gadgets: &[DigitGadget]) -> Result<Vec<Rgsw>, SchemeError> {
        let ring = keys.parameters.ring();
        let (found, needed) = (self.bodies.len(), weights(gadgets));
        if found != needed {
            return Err(SchemeError::format("packed bits", format!("{found} weights"), format!("{needed} weights")));
        }
        let (count, unit) = (coefficients(gadgets), dropped_bits(&keys.parameters));
        let mut body = vec![0; ring.degree()];
        let places = body.iter_mut().step_by(ring.degree() / count);
        let sign_bits = i64::BITS - BODY_BITS;
        places.zip(&self.bodies).for_each(|(place, &word)| *place = (word << sign_bits) as i64 >> sign_bits << unit);
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
        let (parameters, seed) = (self.parameters(), rng.seed());
        let (ring, unit) = (parameters.ring(), dropped_bits(parameters));
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
        let (scale, mask) = ((-f64::from(unit)).exp2(), (1 << BODY_BITS) - 1);
        // Bodies are public, and so is their rounding.
        let rounded = |&body: &f64| nearest_integer(body * scale) as u64 & mask;
        let bodies = ring.to_f64(&body)?.iter().step_by(stride).take(weights(gadgets)).map(rounded).collect();
        Ok(PackedBits { seed, bodies })
    }
}

impl PirParameters {
    /// Noise of the weights that are taken out of packed bits, without the noise of the trace: fresh errors, and the
    /// rounding of the body.
    pub(crate) fn packed_weight_noise(&self) -> Noise {
        let unit = f64::from(dropped_bits(self)) - self.ring().log2_modulus();
        Noise::fresh(self.ring()).plus(Noise(unit.exp2().powi(2) / 12.0))
    }
}

/// Number of weights of the bits of these gadgets.
pub(crate) fn weights(gadgets: &[DigitGadget]) -> usize {
    gadgets.iter().map(DigitGadget::levels).sum()
}

/// Number of coefficients that are taken out: one for each weight, rounded up to a power of two.
fn coefficients(gadgets: &[DigitGadget]) -> usize {
    weights(gadgets).next_power_of_two()
}

/// Bits of a coefficient that are rounded away. A centred coefficient has one bit less than the modulus and a sign.
fn dropped_bits(parameters: &PirParameters) -> u32 {
    (parameters.ring().log2_modulus().ceil() as u32).saturating_sub(BODY_BITS)
}
