//! Switching LWE ciphertexts to a secret of fewer dimensions.

use unspoken_ring::{SecretRng, Seed};

use crate::error::{GswError, shape};
use crate::lwe::{LweCiphertext, LweSecret};
use crate::noise::{Noise, digit_square};
use crate::parameters::{GadgetLiteral, LweLiteral};

/// Encryptions of the bits of one LWE secret under another, one for each signed digit of a word.
#[derive(Debug)]
pub struct LweSwitchKey {
    seed: Seed,
    gadget: GadgetLiteral,
    target: usize,
    /// `[coefficient][level]`, the lowest level first.
    bodies: Vec<u32>,
}

impl LweSwitchKey {
    /// The key from `source` to `target`.
    pub fn generate(
        source: &LweSecret,
        (target, literal): (&LweSecret, LweLiteral),
        gadget: GadgetLiteral,
        rng: &mut SecretRng,
    ) -> Self {
        let seed = rng.seed();
        let mut bodies = Vec::with_capacity(source.dimension() * gadget.levels);
        for &bit in source.coefficients.iter() {
            for level in 0..gadget.levels {
                let message = bit.cast_unsigned() << log2_weight(gadget, level);
                bodies.push(target.encrypt(message, (&seed, bodies.len() as u64), literal, rng));
            }
        }
        LweSwitchKey { seed, gadget, target: target.dimension(), bodies }
    }

    /// The same message under the target.
    ///
    /// # Errors
    /// If the ciphertext has another dimension than the source.
    pub fn switch(&self, ciphertext: &LweCiphertext) -> Result<LweCiphertext, GswError> {
        let GadgetLiteral { log2_base, levels } = self.gadget;
        shape("switch an LWE ciphertext", ciphertext.mask.len(), self.bodies.len() / levels)?;
        let mut result = LweCiphertext { mask: vec![0; self.target], body: ciphertext.body };
        let rounding = if log2_weight(self.gadget, 0) == 0 { 0 } else { 1u32 << (log2_weight(self.gadget, 0) - 1) };
        let half = 1u32 << (log2_base - 1);
        let offset = (0..levels).fold(rounding, |sum, level| sum.wrapping_add(half << log2_weight(self.gadget, level)));
        for (i, word) in ciphertext.mask.iter().enumerate() {
            let shifted = word.wrapping_add(offset);
            for level in 0..levels {
                let digit = (shifted >> log2_weight(self.gadget, level) & ((1 << log2_base) - 1)).wrapping_sub(half);
                let number = i * levels + level;
                let row = LweCiphertext::expand(self.bodies[number], (&self.seed, number as u64), self.target);
                result.add_multiple(&row, digit);
            }
        }
        Ok(result)
    }

    /// Bytes of the seed and the bodies.
    pub fn bytes(&self) -> usize {
        size_of::<Seed>() + self.bodies.len() * size_of::<u32>()
    }

    /// What a switch from `source` dimensions adds.
    pub fn noise(source: usize, literal: LweLiteral, gadget: GadgetLiteral) -> Noise {
        let row = (literal.sigma().log2() - 32.0).exp2().powi(2);
        let digits = digit_square(gadget.log2_base);
        let unit = f64::from(log2_weight(gadget, 0)) - 32.0;
        let rounding = (2.0 * unit).exp2() / 12.0 * source as f64 / 2.0;
        Noise(row * digits * (source * gadget.levels) as f64 + rounding)
    }
}

fn log2_weight(gadget: GadgetLiteral, level: usize) -> u32 {
    u32::BITS - gadget.log2_base * (gadget.levels - level) as u32
}
