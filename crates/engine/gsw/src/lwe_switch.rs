//! Key switch of LWE ciphertexts to a secret of lower dimension.

use std::fmt;

use rayon::prelude::*;
use unspoken_ring::{SecretRng, Seed};

use crate::error::{GswError, shape};
use crate::lwe::{LweCiphertext, LweSecret};
use crate::noise::{Noise, digit_square};
use crate::parameters::{GadgetLiteral, LweLiteral};

/// Encryptions of the bits of one LWE secret under another, one for each signed digit of a word, for storage and
/// transfer.
#[derive(Debug)]
pub struct SeededLweSwitchKey {
    pub(crate) seed: Seed,
    pub(crate) gadget: GadgetLiteral,
    pub(crate) target: usize,
    /// `[coefficient][level]`, the lowest level first.
    pub(crate) bodies: Vec<u32>,
}

impl SeededLweSwitchKey {
    /// Generates the key from `source` to `target`.
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
        SeededLweSwitchKey { seed, gadget, target: target.dimension(), bodies }
    }

    /// Expands all masks, on all threads.
    pub fn expand(&self) -> LweSwitchKey {
        let mut rows = vec![0; self.bodies.len() * (self.target + 1)];
        let row = |(number, (row, &body)): (usize, (&mut [u32], &u32))| {
            let expanded = LweCiphertext::expand(body, (&self.seed, number as u64), self.target);
            if let Some((last, mask)) = row.split_last_mut() {
                mask.copy_from_slice(&expanded.mask);
                *last = expanded.body;
            }
        };
        rows.par_chunks_mut(self.target + 1).zip(&self.bodies).enumerate().for_each(row);
        LweSwitchKey { gadget: self.gadget, target: self.target, rows }
    }
}

/// Expanded encryptions of the bits of one LWE secret under another.
pub struct LweSwitchKey {
    gadget: GadgetLiteral,
    target: usize,
    /// `[coefficient][level][word of the mask, and the body]`.
    rows: Vec<u32>,
}

impl LweSwitchKey {
    /// Switches a ciphertext to the target secret.
    ///
    /// # Errors
    /// If the ciphertext has another dimension than the source.
    pub fn switch(&self, ciphertext: &LweCiphertext) -> Result<LweCiphertext, GswError> {
        let GadgetLiteral { log2_base, levels } = self.gadget;
        let width = self.target + 1;
        shape("switch an LWE ciphertext", ciphertext.mask.len(), self.rows.len() / width / levels)?;
        let half = 1u32 << (log2_base - 1);
        let offset = (0..levels).fold(0u32, |sum, level| sum.wrapping_add(half << log2_weight(self.gadget, level)));
        let mut sums = vec![0u32; width];
        for (word, rows) in ciphertext.mask.iter().zip(self.rows.chunks_exact(levels * width)) {
            let shifted = rounded_to_even(*word, log2_weight(self.gadget, 0)).wrapping_add(offset);
            for (level, row) in rows.chunks_exact(width).enumerate() {
                let digit = (shifted >> log2_weight(self.gadget, level) & ((1 << log2_base) - 1)).wrapping_sub(half);
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum = sum.wrapping_add(x.wrapping_mul(digit)));
            }
        }
        let body = sums.pop().unwrap_or_default().wrapping_add(ciphertext.body);
        Ok(LweCiphertext { mask: sums, body })
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.rows.len() * size_of::<u32>()
    }

    /// The noise that a switch from a secret of `source` dimensions adds.
    pub fn noise(source: usize, literal: LweLiteral, gadget: GadgetLiteral) -> Noise {
        let row = (literal.sigma().log2() - 32.0).exp2().powi(2);
        let digits = digit_square(gadget.log2_base);
        let unit = f64::from(log2_weight(gadget, 0)) - 32.0;
        // The worst case is a word whose dropped bits are all zero except possibly the highest. Every second such word
        // is a tie, with an error of half the unit, so the variance is an eighth of the unit's square instead of a
        // twelfth.
        let rounding = (2.0 * unit).exp2() / 8.0 * source as f64 / 2.0;
        Noise(row * digits * (source * gadget.levels) as f64 + rounding)
    }
}

impl fmt::Debug for LweSwitchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LweSwitchKey").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Rounds a word to a multiple of `2^log2_unit`, modulo 2^32; ties go to even multiples. Many words of a shifted
/// ciphertext are ties. If all ties were rounded up, a binary secret would add up their errors to a bias.
pub fn rounded_to_even(word: u32, log2_unit: u32) -> u32 {
    if log2_unit == 0 {
        return word;
    }
    let odd = word >> log2_unit & 1;
    word.wrapping_add((1 << (log2_unit - 1)) - 1 + odd) >> log2_unit << log2_unit
}

fn log2_weight(gadget: GadgetLiteral, level: usize) -> u32 {
    u32::BITS - gadget.log2_base * (gadget.levels - level) as u32
}
