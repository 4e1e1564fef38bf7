//! Randomness: public uniform polynomials from seeds, secrets and errors in constant time.
//!
//! Public and secret randomness never share a stream: [`Seed`] expands to public residues only, and
//! [`SecretRng`] is keyed from the operating system and used for nothing public but fresh seeds.

use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::{ChaCha20Legacy, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

use crate::fork::process_generation;
use crate::kernels::portable::Portable;
use crate::kernels::{Backend, Kernels};

/// The standard deviation of error polynomials.
pub const ERROR_SIGMA: f64 = 3.19;

/// A public 32-byte seed of uniform polynomials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// Fills `limb` with residues uniform in `[0, q)`.
    ///
    /// Every `(stream, q)` pair is an independent ChaCha20 stream, so a limb does not depend on which other limbs are
    /// expanded. Rejection sampling: no bias.
    pub(crate) fn fill_uniform(&self, kernels: &dyn Kernels, stream: u32, q: u32, limb: &mut [u32]) {
        let nonce = (u64::from(stream) << 32 | u64::from(q)).to_le_bytes();
        // The cipher, whose many blocks at once take a quarter of the time of the generator's four.
        let mut keystream = ChaCha20Legacy::new(&self.0.into(), &nonce.into());
        let mask = u32::MAX >> q.leading_zeros();
        let (mut block, mut words) = ([0u8; 4 * BLOCK_WORDS], [0u32; BLOCK_WORDS]);
        let mut filled = 0;
        while filled < limb.len() {
            keystream.write_keystream(&mut block);
            words.iter_mut().zip(block.as_chunks().0).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
            filled = kernels.select_below(&words, mask, q, limb, filled);
        }
    }
}

/// Words drawn at once: few enough to stay in the first cache.
const BLOCK_WORDS: usize = 1024;

/// A generator for secrets, errors and fresh seeds.
///
/// ChaCha20 keyed from the operating system; its state is wiped when dropped. It is not `Clone`. A process forked from one
/// that has a generator gets a new key before it draws from it (see [`process_generation`](crate::process_generation)). An
/// image of the memory that is restored later or elsewhere (a virtual machine's snapshot, CRIU) is not noticed: it draws
/// the same numbers again, as that of any program that encrypts would. Start such a program anew.
pub struct SecretRng {
    stream: ChaCha20Rng,
    /// The process it was keyed in; `None` for a generator whose key was given.
    generation: Option<u64>,
}

impl SecretRng {
    /// Keyed from the operating system's generator.
    ///
    /// # Errors
    /// If the operating system has no randomness to give.
    pub fn from_os() -> Result<Self, getrandom::Error> {
        let mut key = Zeroizing::new([0u8; 32]);
        getrandom::fill(key.as_mut_slice())?;
        Ok(SecretRng { stream: ChaCha20Rng::from_seed(*key), generation: Some(process_generation()) })
    }

    /// Reproducible, for tests and benchmarks only: everything made from it is known to whoever knows `seed`.
    pub fn insecure_from_seed(seed: u64) -> Self {
        SecretRng { stream: ChaCha20Rng::seed_from_u64(seed), generation: None }
    }

    /// Keyed with secret bytes: for secrets that are derived from another secret. The same key gives the same secrets, so it
    /// must never serve for errors or seeds.
    pub fn derived(key: &Zeroizing<[u8; 32]>) -> Self {
        SecretRng { stream: ChaCha20Rng::from_seed(**key), generation: None }
    }

    /// The stream to draw from, under a new key if this process was forked since it got its last.
    fn stream(&mut self) -> &mut ChaCha20Rng {
        if let Some(before) = self.generation {
            let now = process_generation();
            if now != before {
                self.rekey(now);
            }
        }
        &mut self.stream
    }

    #[cold]
    fn rekey(&mut self, generation: u64) {
        let mut key = Zeroizing::new([0u8; 32]);
        self.stream.fill_bytes(key.as_mut_slice());
        let mut fresh = Zeroizing::new([0u8; 32]);
        // The system gave randomness before. If it has none now, the process number still tells this stream from its
        // parent's.
        if getrandom::fill(fresh.as_mut_slice()).is_err() {
            fresh[..4].copy_from_slice(&std::process::id().to_le_bytes());
        }
        key.iter_mut().zip(fresh.iter()).for_each(|(key, fresh)| *key ^= fresh);
        self.stream = ChaCha20Rng::from_seed(*key);
        self.stream.set_stream(generation);
        self.generation = Some(generation);
    }

    /// A fresh public seed.
    pub fn seed(&mut self) -> Seed {
        let mut seed = [0u8; 32];
        self.stream().fill_bytes(&mut seed);
        Seed(seed)
    }

    /// Fresh random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.stream().fill_bytes(bytes);
    }

    /// `n` coefficients, each -1, 0 or 1 with probability one third (up to 2^-62).
    pub fn ternary(&mut self, n: usize) -> Zeroizing<Vec<i32>> {
        let stream = self.stream();
        Zeroizing::new((0..n).map(|_| ((u128::from(stream.next_u64()) * 3) >> 64) as i32 - 1).collect())
    }

    /// `n` coefficients, each 0 or 1 with probability one half.
    pub fn binary(&mut self, n: usize) -> Zeroizing<Vec<i32>> {
        let stream = self.stream();
        Zeroizing::new((0..n).map(|_| (stream.next_u32() & 1) as i32).collect())
    }

    /// `n` coefficients of which exactly `weight` are -1 or 1, at uniform places (up to 2^-62 per place).
    ///
    /// Selection sampling: place `i` is taken with probability (still needed) / (still left), without a branch.
    pub fn sparse_ternary(&mut self, n: usize, weight: usize) -> Zeroizing<Vec<i32>> {
        let stream = self.stream();
        let mut needed = weight.min(n) as u64;
        let coefficients = (0..n as u64).map(|i| {
            let left = n as u64 - i;
            let draw = ((u128::from(stream.next_u64()) * u128::from(left)) >> 64) as u64;
            let taken = draw.wrapping_sub(needed) >> 63;
            needed -= taken;
            let sign = 1 - 2 * (stream.next_u32() & 1) as i32;
            sign * taken as i32
        });
        Zeroizing::new(coefficients.collect())
    }

    /// `n` samples of the discrete Gaussian of deviation [`ERROR_SIGMA`], in constant time.
    pub fn gaussian(&mut self, n: usize) -> Zeroizing<Vec<i32>> {
        let kernels = Backend::detect().kernels().unwrap_or(&Portable);
        let stream = self.stream();
        let mut samples = Zeroizing::new(vec![0; n]);
        let mut block = Zeroizing::new([0u8; 4 * BLOCK_WORDS]);
        let mut draws = Zeroizing::new([0u64; BLOCK_WORDS / 2]);
        for samples in samples.chunks_mut(draws.len()) {
            let bytes = &mut block[..8 * samples.len()];
            stream.fill_bytes(bytes);
            draws.iter_mut().zip(bytes.as_chunks().0).for_each(|(draw, bytes)| *draw = u64::from_le_bytes(*bytes));
            kernels.tail_samples(&draws[..samples.len()], GAUSSIAN_TAIL.as_slice(), samples);
        }
        samples
    }
}

/// `GAUSSIAN_TAIL[k] = 2^63 Pr[|x| > k]` for the discrete Gaussian of deviation [`ERROR_SIGMA`]; magnitudes above 29
/// have probability below 2^-63. The sign is drawn apart.
static GAUSSIAN_TAIL: std::sync::LazyLock<[u64; 30]> = std::sync::LazyLock::new(|| {
    let weight = |x: usize| (-((x * x) as f64) / (2.0 * ERROR_SIGMA * ERROR_SIGMA)).exp();
    // Summed from the small end: the tail keeps its relative precision.
    let tail = |k: usize| 2.0 * (k + 1..60).rev().map(weight).sum::<f64>();
    let total = tail(0) + weight(0);
    std::array::from_fn(|k| (tail(k) / total * 2f64.powi(63)) as u64)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_residues_are_reduced_independent_and_unbiased() {
        let q = 33_292_289; // just below 2^25
        let mut limb = vec![0; 1 << 16];
        Seed([1; 32]).fill_uniform(&Portable, 0, q, &mut limb);
        assert!(limb.iter().all(|&x| x < q));
        let mean = limb.iter().map(|&x| f64::from(x)).sum::<f64>() / limb.len() as f64 / f64::from(q);
        assert!((mean - 0.5).abs() < 0.006, "{mean}"); // 5 sigma
        let mut other = vec![0; 1 << 16];
        Seed([1; 32]).fill_uniform(&Portable, 1, q, &mut other);
        assert_ne!(limb, other);
        let mut prefix = vec![0; 100];
        Seed([1; 32]).fill_uniform(&Portable, 0, q, &mut prefix);
        assert_eq!(prefix, limb[..100]);
    }

    #[test]
    fn a_seed_expands_as_it_always_did() {
        // Stored and sent seeds depend on it.
        let (q, stream) = ((1 << 30) - 35, 5);
        let mut limb = vec![0; 3000];
        Seed([9; 32]).fill_uniform(&Portable, stream, q, &mut limb);
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        rng.set_stream(u64::from(stream) << 32 | u64::from(q));
        let words = std::iter::repeat_with(|| rng.next_u32() & (u32::MAX >> 2)).filter(|&x| x < q);
        assert_eq!(limb, words.take(3000).collect::<Vec<_>>());
    }

    #[test]
    fn gaussian_has_its_deviation() {
        let samples = SecretRng::insecure_from_seed(1).gaussian(1 << 18);
        let n = samples.len() as f64;
        let mean = samples.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let deviation = (samples.iter().map(|&x| f64::from(x * x)).sum::<f64>() / n).sqrt();
        assert!(mean.abs() < 5.0 * ERROR_SIGMA / n.sqrt(), "{mean}");
        assert!((deviation - ERROR_SIGMA).abs() < 5.0 * ERROR_SIGMA / (2.0 * n).sqrt(), "{deviation}");
        let zeros = samples.iter().filter(|&&x| x == 0).count() as f64 / n;
        assert!((zeros - 1.0 / (ERROR_SIGMA * (2.0 * std::f64::consts::PI).sqrt())).abs() < 0.004, "{zeros}");
    }

    #[test]
    fn ternary_secrets_have_their_distribution() {
        let mut rng = SecretRng::insecure_from_seed(2);
        let n = 1 << 16;
        for value in -1..=1 {
            let count = rng.ternary(n).iter().filter(|&&x| x == value).count();
            assert!(count.abs_diff(n / 3) < 700, "{count}");
        }
        let ones = rng.binary(n).iter().map(|&x| x as usize).sum::<usize>();
        assert!(rng.binary(n).iter().all(|x| (0..=1).contains(x)) && ones.abs_diff(n / 2) < 700, "{ones}");
        let sparse = rng.sparse_ternary(n, 192);
        assert_eq!(sparse.iter().filter(|&&x| x != 0).count(), 192);
        let first_half = sparse[..n / 2].iter().filter(|&&x| x != 0).count();
        assert!(first_half.abs_diff(96) < 40, "{first_half}");
        assert_eq!(rng.sparse_ternary(16, 16).iter().filter(|&&x| x != 0).count(), 16);
    }
}
