//! Blind rotation: multiplication by `X` to the power of an encrypted phase.

use rayon::prelude::*;
use unspoken_ring::{DigitGadget, DigitKey, Domain, Poly, SecretRng};

use crate::error::{GswError, shape};
use crate::lwe::{LweSecret, SwitchedLwe};
use crate::parameters::BinaryRing;
use crate::rgsw::RlweCiphertext;
use crate::ring_secret::{RingSecret, SeededRows};

/// RGSW encryptions of the bits of an LWE secret, for storage and transfer.
#[derive(Debug)]
pub struct SeededBlindRotationKey {
    pub(crate) bits: Vec<SeededRows>,
}

impl SeededBlindRotationKey {
    /// Generates the key for the bits of `secret` under `target`.
    ///
    /// # Errors
    /// If an operation of the ring fails, which cannot happen in a checked ring.
    pub fn generate(
        secret: &LweSecret,
        target: &RingSecret,
        gadget: DigitGadget,
        rng: &mut SecretRng,
    ) -> Result<Self, GswError> {
        let ring = target.ring();
        let mut constant = zeroize::Zeroizing::new(vec![0i32; ring.degree()]);
        let mut encrypt = |bit: i32| {
            constant[0] = bit;
            let mut message = ring.evaluate_i32(&constant, ring.basis())?;
            message.mark_secret();
            target.encrypt_rows(gadget, &message, 2, rng)
        };
        Ok(SeededBlindRotationKey {
            bits: secret.coefficients.iter().map(|&bit| encrypt(bit)).collect::<Result<_, _>>()?,
        })
    }

    /// Expands the key, on all threads.
    ///
    /// # Errors
    /// If it belongs to another ring.
    pub fn expand(&self, ring: &BinaryRing) -> Result<BlindRotationKey, GswError> {
        let bits = self.bits.par_iter().map(|rows| rows.expand(ring)).collect::<Result<_, _>>()?;
        Ok(BlindRotationKey { ring: ring.clone(), bits })
    }
}

/// Expanded RGSW encryptions of the bits of an LWE secret.
#[derive(Debug)]
pub struct BlindRotationKey {
    pub(crate) ring: BinaryRing,
    pub(crate) bits: Vec<DigitKey>,
}

impl BlindRotationKey {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bits.iter().map(DigitKey::bytes).sum()
    }

    /// `X^-phase table` for a table in the coefficient domain and a ciphertext modulo `2N`: its coefficient 0 is
    /// `table[phase]`, or `-table[phase - N]` from `N` on (Pirouette, Algorithms 7 and 13).
    ///
    /// # Errors
    /// If the ciphertext has another dimension or modulus, or the table is not of the ring, in the coefficient domain
    /// and over all its primes.
    pub fn rotate(&self, table: &Poly, ciphertext: &SwitchedLwe) -> Result<RlweCiphertext, GswError> {
        let ring = &self.ring;
        shape("blind rotation", ciphertext.mask.len(), self.bits.len())?;
        shape("blind rotation: log2 of the modulus", ciphertext.log2_modulus as usize, log2_order(ring) as usize)?;
        let order = 1 << log2_order(ring);
        let mut body = ring.rotated(table, order - ciphertext.body)?;
        ring.to_evaluation(&mut body)?;
        let mut acc = RlweCiphertext([body, ring.zero(ring.basis(), Domain::Evaluation)]);
        for (&a, key) in ciphertext.mask.iter().zip(&self.bits).filter(|(a, _)| **a != 0) {
            let [c0, c1] = &acc.coefficients(ring)?;
            let digits = ring.digits(key.gadget(), &[c0, c1])?;
            ring.add_rotated_differences(&mut acc.0, &digits, &[(order - a, key)])?;
        }
        Ok(acc)
    }
}

/// `log2 2N`.
pub(crate) fn log2_order(ring: &BinaryRing) -> u32 {
    ring.degree().trailing_zeros() + 1
}
