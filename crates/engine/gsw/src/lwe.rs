//! LWE modulo 2^32 with binary secrets.

use std::fmt;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use unspoken_ring::{SecretRng, Seed};
use zeroize::Zeroizing;

use crate::error::{GswError, shape};
use crate::parameters::LweLiteral;

/// A binary secret.
pub struct LweSecret {
    pub(crate) coefficients: Zeroizing<Vec<i32>>,
}

impl LweSecret {
    /// A fresh secret.
    pub fn generate(literal: LweLiteral, rng: &mut SecretRng) -> Self {
        LweSecret { coefficients: rng.binary(literal.dimension) }
    }

    /// Its dimension.
    pub fn dimension(&self) -> usize {
        self.coefficients.len()
    }

    /// Its words, 0 or 1. They are secret.
    pub fn words(&self) -> impl Iterator<Item = i32> + '_ {
        self.coefficients.iter().copied()
    }

    /// The body `message - <mask, s> + e` for the mask that `seed` and `stream` expand to. Each mask must be used only
    /// once.
    pub fn encrypt(&self, message: u32, (seed, stream): (&Seed, u64), literal: LweLiteral, rng: &mut SecretRng) -> u32 {
        let mask = LweCiphertext::mask(seed, stream, self.dimension());
        message.wrapping_sub(self.inner(&mask)).wrapping_add(error(literal, rng))
    }

    /// `body + <mask, s>`: the message and the noise.
    ///
    /// # Errors
    /// If the ciphertext has another dimension.
    pub fn phase(&self, ciphertext: &LweCiphertext) -> Result<u32, GswError> {
        shape("decrypt an LWE ciphertext", ciphertext.mask.len(), self.dimension())?;
        Ok(ciphertext.body.wrapping_add(self.inner(&ciphertext.mask)))
    }

    fn inner(&self, mask: &[u32]) -> u32 {
        let terms = self.coefficients.iter().zip(mask).map(|(&s, &a)| a & s.wrapping_neg().cast_unsigned());
        terms.fold(0, u32::wrapping_add)
    }
}

impl fmt::Debug for LweSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LweSecret").field("dimension", &self.dimension()).finish_non_exhaustive()
    }
}

/// A sum of discrete Gaussians, each twice as wide as the one before.
fn error(literal: LweLiteral, rng: &mut SecretRng) -> u32 {
    let terms = rng.gaussian(literal.error_terms as usize);
    terms.iter().rev().fold(0i32, |sum, &term| 2 * sum + term).cast_unsigned()
}

/// An LWE ciphertext modulo 2^32: its phase `body + <mask, s>` is the message plus noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LweCiphertext {
    /// One word per dimension.
    pub mask: Vec<u32>,
    /// The word with the message.
    pub body: u32,
}

impl LweCiphertext {
    /// The ciphertext with a body and the mask that `seed` and `stream` expand to.
    pub fn expand(body: u32, (seed, stream): (&Seed, u64), dimension: usize) -> Self {
        LweCiphertext { mask: Self::mask(seed, stream, dimension), body }
    }

    fn mask(seed: &Seed, stream: u64, dimension: usize) -> Vec<u32> {
        let mut rng = ChaCha20Rng::from_seed(seed.0);
        rng.set_stream(stream);
        (0..dimension).map(|_| rng.next_u32()).collect()
    }

    /// `self - other`.
    ///
    /// # Errors
    /// If the dimensions differ.
    pub fn sub_assign(&mut self, other: &LweCiphertext) -> Result<(), GswError> {
        shape("subtract LWE ciphertexts", other.mask.len(), self.mask.len())?;
        self.mask.iter_mut().zip(&other.mask).for_each(|(a, &b)| *a = a.wrapping_sub(b));
        self.body = self.body.wrapping_sub(other.body);
        Ok(())
    }

    /// `2^bits self` modulo 2^32.
    pub fn shifted(&self, bits: u32) -> Self {
        LweCiphertext { mask: self.mask.iter().map(|a| a << bits).collect(), body: self.body << bits }
    }

    /// Rounded to the modulus `2^log2_modulus`.
    pub fn switched(&self, log2_modulus: u32) -> SwitchedLwe {
        let round = |x: u32| {
            let shift = u32::BITS - log2_modulus;
            x.wrapping_add(1 << (shift - 1)) >> shift
        };
        SwitchedLwe { mask: self.mask.iter().map(|&a| round(a)).collect(), body: round(self.body), log2_modulus }
    }
}

/// An LWE ciphertext modulo `2N`, whose words are the exponents of a blind rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedLwe {
    pub(crate) mask: Vec<u32>,
    pub(crate) body: u32,
    pub(crate) log2_modulus: u32,
}

impl SwitchedLwe {
    /// Adds to the message, modulo the modulus.
    pub fn add_constant(&mut self, constant: u32) {
        self.body = self.body.wrapping_add(constant) & ((1 << self.log2_modulus) - 1);
    }
}
