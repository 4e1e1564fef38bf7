//! Noise of each operation: predictions by formulas, and random samples.
//!
//! A polynomial with independent coefficients of variance `v` has slots of variance `g v`, with `g = n` in the standard
//! ring (complex slots) and `g = 2n` in the conjugate-invariant one (real slots): the canonical embedding is orthogonal
//! up to that factor (Cheon, Kim, Kim and Song, "Homomorphic encryption for arithmetic of approximate numbers",
//! ASIACRYPT 2017, section 5; Kim and Song, "Approximate homomorphic encryption over the conjugate-invariant ring",
//! ICISC 2018). All variances below are variances of slots times their scale.
//!
//! - Encryption under the secret key: `g sigma^2`.
//! - Division with rounding (rescale, ModDown): each component has a rounding error of up to one half, variance `1/12`,
//!   and decryption multiplies component `i` by `s^i`: `g/12 (1 + E|s|^2 [+ E|s|^4])`, with `E|s|^2 = g h/n` for a
//!   secret of `h` non-zero coefficients.
//! - Key switch: `sum_d x_d e_d / P` with the digits `x_d` of the input and the errors `e_d` of the key. The fast basis
//!   extension returns a digit of `k` primes as `sum_i z_i Q_d/q_i`, with every `z_i` uniform in `[-q_i/2, q_i/2]`. Its
//!   coefficients have mean zero and variance `k Q_d^2 / 12`. The errors of a short form are rounding errors of the
//!   division that made it.

use chacha20::ChaCha8Rng;
use num_complex::Complex64;
use rand_core::{Rng, SeedableRng};
use unspoken_ring::{Basis, ERROR_SIGMA, RingKind, Special};
use unspoken_rlwe::KeyKind;
use unspoken_rlwe::security::{SPARSE_WEIGHT, SecretDistribution};

use crate::encoding::Encoder;
use crate::parameters::CkksParameters;

/// Variance of a rounding error.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;

/// Predicts root-mean-square errors of slots, times their scale. Divide by the scale to get errors of values.
#[derive(Clone, Debug)]
pub struct NoiseModel {
    parameters: CkksParameters,
    real: bool,
}

impl NoiseModel {
    /// The model of these parameters.
    pub fn new(parameters: &CkksParameters) -> Self {
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        NoiseModel { parameters: parameters.clone(), real }
    }

    /// Noise of a fresh encryption, without the rounding error of the encoding.
    pub fn encryption(&self) -> f64 {
        ERROR_SIGMA * self.gain().sqrt()
    }

    /// Noise of a fresh encryption under a public key, `e u + e_0 + e_1 s` with a ternary `u`, without the rounding
    /// error of the encoding.
    pub fn public_encryption(&self) -> f64 {
        let ephemeral = self.gain() * 2.0 / 3.0;
        ERROR_SIGMA * (self.gain() * (1.0 + ephemeral + self.secret_energy())).sqrt()
    }

    /// Noise of rounding a plaintext's coefficients.
    pub fn encoding(&self) -> f64 {
        (ROUNDING_VARIANCE * self.gain()).sqrt()
    }

    /// Noise of a division with rounding (rescale, or the end of a key switch) of a ciphertext of two or three
    /// components.
    pub fn rounding(&self, components: usize) -> f64 {
        let energy = self.secret_energy();
        // Slots of the secret are Gaussian, complex or real: E|s|^4 is 2 or 3 times the square of E|s|^2.
        let fourth = if self.real { 3.0 } else { 2.0 } * energy * energy;
        let sum = 1.0 + energy + if components > 2 { fourth } else { 0.0 };
        (ROUNDING_VARIANCE * self.gain() * sum).sqrt()
    }

    /// Noise of the key switch of a ciphertext over `basis` after the division by `P`, without the rounding error of
    /// that division.
    pub fn key_switch(&self, basis: Basis) -> f64 {
        self.gain().sqrt() * self.key_errors(basis) * self.digit_variances(basis).sum::<f64>().sqrt()
    }

    /// Ratio of the variance of a slot to the variance of a coefficient.
    fn gain(&self) -> f64 {
        let degree = self.parameters.ring().degree() as f64;
        if self.real { 2.0 * degree } else { degree }
    }

    /// `E|s|^2` at a slot.
    fn secret_energy(&self) -> f64 {
        let degree = self.parameters.ring().degree() as f64;
        let weight = match self.parameters.rlwe().literal().secret {
            SecretDistribution::UniformTernary => 2.0 / 3.0 * degree,
            SecretDistribution::SparseTernary { weight } => weight as f64,
        };
        self.gain() * weight / degree
    }

    /// Errors of the rows of the key that switches a ciphertext over `basis`. A whole key has fresh errors. A short key
    /// has the errors of a division, which rounds both components of the whole key.
    fn key_errors(&self, basis: Basis) -> f64 {
        match self.parameters.ring().switching_basis(basis).special {
            Special::Short => self.rounding(2),
            _ => self.encryption(),
        }
    }

    /// Variance of the coefficients of each gadget digit divided by `P`.
    fn digit_variances(&self, basis: Basis) -> impl Iterator<Item = f64> {
        let ring = self.parameters.ring();
        let log2 = |primes: &[u32]| primes.iter().map(|&q| f64::from(q).log2()).sum::<f64>();
        let special = log2(ring.special_primes(ring.switching_basis(basis)));
        let digits = ring.digit_primes(basis).into_iter();
        digits.map(move |d| (2.0 * (log2(&d) - special)).exp2() * d.len() as f64 * ROUNDING_VARIANCE)
    }
}

/// Source of noise at the slots, as if a client had drawn a secret and keys from `seed`.
pub(crate) struct NoiseSource {
    model: NoiseModel,
    seed: u64,
    /// The slots of a secret.
    secret: Vec<Complex64>,
}

impl NoiseSource {
    pub(crate) fn new(encoder: &Encoder, seed: u64) -> Self {
        let parameters = encoder.parameters();
        let degree = parameters.ring().degree();
        let mut rng = ChaCha8Rng::seed_from_u64(mix(seed, &[SECRET_STREAM]));
        let weight = match parameters.rlwe().literal().secret {
            SecretDistribution::UniformTernary => 2.0 / 3.0,
            SecretDistribution::SparseTernary { weight } => weight as f64 / degree as f64,
        };
        let ternary = |_| {
            let draw = unit(&mut rng);
            if draw >= weight {
                0.0
            } else if draw < weight / 2.0 {
                1.0
            } else {
                -1.0
            }
        };
        let secret: Vec<f64> = (0..degree).map(ternary).collect();
        NoiseSource { model: NoiseModel::new(parameters), seed, secret: encoder.slots_of(&secret, 1.0) }
    }

    /// A source without noise, for vectors without slots.
    pub(crate) fn silent(encoder: &Encoder) -> Self {
        NoiseSource { model: NoiseModel::new(encoder.parameters()), seed: 0, secret: Vec::new() }
    }

    /// Whether this source is for vectors without slots.
    pub(crate) fn is_silent(&self) -> bool {
        self.secret.is_empty()
    }

    /// The error of a fresh encryption.
    pub(crate) fn encryption(&self, stream: u64) -> Vec<Complex64> {
        self.gaussian(&[ENCRYPTION_STREAM, stream], self.model.encryption())
    }

    /// The rounding error of an encoding.
    pub(crate) fn encoding(&self, stream: u64) -> Vec<Complex64> {
        self.gaussian(&[ENCODING_STREAM, stream], self.model.encoding())
    }

    /// The rounding errors of a division: the sum of the errors of all components, each times its power of the secret.
    pub(crate) fn rounding(&self, stream: u64, components: usize) -> Vec<Complex64> {
        let mut sum = vec![Complex64::default(); self.secret.len()];
        for component in (0..components).rev() {
            let error = self.gaussian(&[ROUNDING_STREAM, stream, component as u64], self.model.encoding());
            sum.iter_mut().zip(&self.secret).zip(error).for_each(|((sum, s), e)| *sum = *sum * s + e);
        }
        sum
    }

    /// The noise of a key switch with a key of `kind` over `basis`, after the division by `P` and without the
    /// rounding error of that division.
    pub(crate) fn key_switch(&self, stream: u64, kind: KeyKind, basis: Basis) -> Vec<Complex64> {
        let mut sum = vec![Complex64::default(); self.secret.len()];
        for (index, variance) in self.model.digit_variances(basis).enumerate() {
            let index = index as u64;
            let deviation = (variance * self.model.gain()).sqrt();
            let spread = self.gaussian(&[DIGIT_STREAM, stream, index], deviation);
            let errors = self.gaussian(&[KEY_STREAM, kind.code(), index], self.model.key_errors(basis));
            sum.iter_mut().zip(spread).zip(errors).for_each(|((sum, spread), error)| *sum += spread * error);
        }
        sum
    }

    /// The noise of a switch with errors of this variance of each coefficient.
    pub(crate) fn of_variance(&self, stream: u64, variance: f64) -> Vec<Complex64> {
        self.gaussian(&[PRODUCT_STREAM, stream], (variance * self.model.gain()).sqrt())
    }

    /// The integers that raising the modulus adds to the coefficients: rounded sums of `h + 1` terms uniform in `[-1/2,
    /// 1/2]`, with `h` the weight of the sparse secret.
    pub(crate) fn raised(&self, stream: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(self.seed, &[RAISE_STREAM, stream]));
        let mut integer = || (0..=SPARSE_WEIGHT).map(|_| unit(&mut rng) - 0.5).sum::<f64>().round();
        (0..self.model.parameters.ring().degree()).map(|_| integer()).collect()
    }

    /// The errors of `count` elements of a query modulo `modulus`: from encryption and from rounding.
    pub(crate) fn query_errors(&self, stream: u64, count: usize, modulus: f64) -> Vec<f64> {
        let deviation = (ERROR_SIGMA * ERROR_SIGMA + ROUNDING_VARIANCE).sqrt() / modulus;
        let complex = self.gaussian(&[ENCRYPTION_STREAM, stream], deviation * std::f64::consts::SQRT_2);
        complex.into_iter().take(count).map(|z| z.re).collect()
    }

    /// Independent Gaussian slots with `E|z|^2 = deviation^2`. They depend only on the seed and the label.
    fn gaussian(&self, label: &[u64], deviation: f64) -> Vec<Complex64> {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(self.seed, label));
        // Box-Muller method: modulus and argument of a complex Gaussian with E|z|^2 = 2.
        let draw = || {
            let modulus = (-2.0 * (1.0 - unit(&mut rng)).ln()).sqrt();
            let z = Complex64::from_polar(modulus, std::f64::consts::TAU * unit(&mut rng));
            if self.model.real {
                Complex64::new(z.re * deviation, 0.0)
            } else {
                z * (deviation * std::f64::consts::FRAC_1_SQRT_2)
            }
        };
        std::iter::repeat_with(draw).take(self.secret.len()).collect()
    }
}

const SECRET_STREAM: u64 = 1;
const ENCRYPTION_STREAM: u64 = 2;
const ROUNDING_STREAM: u64 = 3;
const DIGIT_STREAM: u64 = 4;
const KEY_STREAM: u64 = 5;
const RAISE_STREAM: u64 = 6;
const ENCODING_STREAM: u64 = 7;
const PRODUCT_STREAM: u64 = 8;

/// Uniform in `[0, 1)`.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

/// Hashes words into one, by the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mix(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(seed, |state, word| {
        let z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
