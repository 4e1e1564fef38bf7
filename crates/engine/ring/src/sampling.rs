//! Randomness: public uniform polynomials from seeds; secrets and errors in constant time.
//!
//! Public and secret randomness never share a stream. [`Seed`] expands to public residues only. [`SecretRng`] is keyed
//! by the operating system, and its only public output is fresh seeds.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::{ChaCha20Legacy, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};
use zeroize::{Zeroizing, zeroize_stack};

use crate::backend::Backend;
use crate::error::RingError;
use crate::fork::process_generation;
use crate::kernels::Kernels;
use crate::kernels::portable::Portable;

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
        // The cipher computes more blocks at once than the generator's four, in a quarter of the time per block.
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

/// Words drawn at once: few enough to stay in the first-level cache.
const BLOCK_WORDS: usize = 1024;

impl Seed {
    /// The residues of [`Seed::fill_uniform`], to be taken a few at a time.
    pub(crate) fn stream(&self, stream: u32, q: u32) -> UniformStream {
        let nonce = (u64::from(stream) << 32 | u64::from(q)).to_le_bytes();
        let keystream = ChaCha20Legacy::new(&self.0.into(), &nonce.into());
        UniformStream { keystream, q, ready: [0; BLOCK_WORDS], used: 0, filled: 0 }
    }
}

/// Residues uniform in `[0, q)`, expanded from a public seed block by block.
pub(crate) struct UniformStream {
    keystream: ChaCha20Legacy,
    q: u32,
    /// Residues of the last block, those from `used` to `filled` not taken yet.
    ready: [u32; BLOCK_WORDS],
    used: usize,
    filled: usize,
}

impl UniformStream {
    /// Takes the next residues.
    pub(crate) fn fill(&mut self, kernels: &dyn Kernels, mut out: &mut [u32]) {
        while !out.is_empty() {
            if self.used == self.filled {
                self.expand(kernels);
            }
            let count = out.len().min(self.filled - self.used);
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&self.ready[self.used..self.used + count]);
            self.used += count;
            out = later;
        }
    }

    fn expand(&mut self, kernels: &dyn Kernels) {
        let (mut block, mut words) = ([0u8; 4 * BLOCK_WORDS], [0u32; BLOCK_WORDS]);
        self.keystream.write_keystream(&mut block);
        words.iter_mut().zip(block.as_chunks().0).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        let mask = u32::MAX >> self.q.leading_zeros();
        self.filled = kernels.select_below(&words, mask, self.q, &mut self.ready, 0);
        self.used = 0;
    }
}

/// A generator for secrets, errors and fresh seeds.
///
/// ChaCha20 keyed by the operating system; its state is wiped when dropped. It is not `Clone`. In a forked process, an
/// inherited generator gets a new key before its first draw (see [`process_generation`](crate::process_generation)).
/// The generator does not detect that an image of the memory was restored later or on another machine (a virtual
/// machine's snapshot, CRIU): the restored program draws the same numbers again, as any program that encrypts would.
/// Restart such a program instead.
pub struct SecretRng {
    /// On the heap, so that moving the generator leaves no copy of its key.
    stream: Box<ChaCha20Rng>,
    /// The [`process_generation`] in which it was keyed; `None` for a generator with a given key.
    generation: Option<u64>,
}

/// The stream from which a forked process takes its new key. Nothing else is drawn from it: generators use stream 0.
const FORK_STREAM: u64 = 1;

const FORK_LABEL: &str = "unspoken 2026 generator of a forked process";

/// Bytes of stack that are wiped after secrets are drawn: more than the arrays of the sampler, its kernel and the
/// cipher need. The deepest is the kernel with AVX-512: 8.6 KB of the sampler, and 10.4 KB of its own.
const SAMPLER_STACK_BYTES: usize = 32 << 10;

impl SecretRng {
    /// A fresh generator, keyed by the operating system. Callers take one for each call.
    ///
    /// # Errors
    /// If the operating system's random generator fails.
    pub fn from_os() -> Result<Self, RingError> {
        let mut key = Zeroizing::new([0u8; 32]);
        getrandom::fill(key.as_mut_slice())?;
        Ok(SecretRng { generation: Some(process_generation()), ..Self::keyed(&key) })
    }

    /// A reproducible generator, for tests and benchmarks only: anyone who knows `seed` can compute everything drawn
    /// from it.
    pub fn insecure_from_seed(seed: u64) -> Self {
        SecretRng { stream: Box::new(ChaCha20Rng::seed_from_u64(seed)), generation: None }
    }

    /// A generator for secrets that are derived from a stored one, keyed with a hash of the parts under a label
    /// ([`derive_bytes`]). The same label and parts give the same secrets, so it must never be used for errors or
    /// seeds.
    pub fn derived(label: &str, parts: &[&[u8]]) -> Self {
        let mut key = Zeroizing::new([0u8; 32]);
        derive_bytes(label, parts, key.as_mut_slice());
        Self::keyed(&key)
    }

    /// A generator keyed with these bytes.
    fn keyed(key: &[u8; 32]) -> Self {
        #[inline(never)]
        fn stream(key: &[u8; 32]) -> Box<ChaCha20Rng> {
            Box::new(ChaCha20Rng::from_seed(*key))
        }
        let stream = stream(key);
        zeroize_stack::<SAMPLER_STACK_BYTES>();
        SecretRng { stream, generation: None }
    }

    /// The stream to draw from. If this process was forked since the last key was set, the generator gets a new key
    /// first.
    fn stream(&mut self) -> &mut ChaCha20Rng {
        if let Some(before) = self.generation {
            let now = process_generation();
            if now != before {
                self.rekey(now, getrandom::fill);
            }
        }
        &mut self.stream
    }

    /// Derives the key of a forked process from the operating system's generator and from the parent's key. If the
    /// operating system's generator fails, the parent's output still does not reveal the new key: it comes from a
    /// stream of the parent's key that the parent never draws from, and from the position in the parent's stream, the
    /// process number and the time, which distinguish forks of one parent.
    #[cold]
    fn rekey(&mut self, generation: u64, system: impl FnOnce(&mut [u8]) -> Result<(), getrandom::Error>) {
        let place = self.stream.get_word_pos().to_le_bytes();
        self.stream.set_stream(FORK_STREAM);
        let (mut inherited, mut fresh) = (Zeroizing::new([0u8; 32]), Zeroizing::new([0u8; 32]));
        self.stream.fill_bytes(inherited.as_mut_slice());
        if system(fresh.as_mut_slice()).is_err() {
            fresh.fill(0);
        }
        let process = std::process::id().to_le_bytes();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos()).to_le_bytes();
        let parts = [inherited.as_slice(), &fresh[..], &place, &process, &time];
        let mut key = Zeroizing::new([0u8; 32]);
        derive_bytes(FORK_LABEL, &parts, key.as_mut_slice());
        self.replace_key(&key);
        self.generation = Some(generation);
    }

    /// Sets the key in place. It allocates nothing: in a child of a raw `clone`, another thread of the parent may have
    /// held the lock of the allocator.
    fn replace_key(&mut self, key: &[u8; 32]) {
        #[inline(never)]
        fn replace(stream: &mut ChaCha20Rng, key: &[u8; 32]) {
            *stream = ChaCha20Rng::from_seed(*key);
        }
        replace(&mut self.stream, key);
        zeroize_stack::<SAMPLER_STACK_BYTES>();
    }

    /// A generator keyed with the next bytes of this one.
    fn split(&mut self) -> Self {
        let mut key = Zeroizing::new([0u8; 32]);
        self.fill(key.as_mut_slice());
        Self::keyed(&key)
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
        collect(n, |_| ((u128::from(stream.next_u64()) * 3) >> 64) as i32 - 1)
    }

    /// `n` coefficients, each 0 or 1 with probability one half.
    pub fn binary(&mut self, n: usize) -> Zeroizing<Vec<i32>> {
        let stream = self.stream();
        collect(n, |_| (stream.next_u32() & 1) as i32)
    }

    /// `n` coefficients of which exactly `weight` are -1 or 1, at uniform positions (up to 2^-62 per position).
    ///
    /// Selection sampling: position `i` is taken with probability (still needed) / (still left), without a branch.
    pub fn sparse_ternary(&mut self, n: usize, weight: usize) -> Zeroizing<Vec<i32>> {
        let stream = self.stream();
        let mut needed = weight.min(n) as u64;
        collect(n, |i| {
            let left = (n - i) as u64;
            let draw = ((u128::from(stream.next_u64()) * u128::from(left)) >> 64) as u64;
            let taken = draw.wrapping_sub(needed) >> 63;
            needed -= taken;
            let sign = 1 - 2 * (stream.next_u32() & 1) as i32;
            sign * taken as i32
        })
    }

    /// `n` samples of the discrete Gaussian with standard deviation [`ERROR_SIGMA`], in constant time.
    pub fn gaussian(&mut self, n: usize) -> Zeroizing<Vec<i32>> {
        let kernels = Backend::detect().kernels().unwrap_or(&Portable);
        let mut samples = Zeroizing::new(vec![0; n]);
        sample_gaussian(self.stream(), kernels, &mut samples);
        zeroize_stack::<SAMPLER_STACK_BYTES>();
        samples
    }
}

/// `n` coefficients. Wipes the stack that was used to draw them.
fn collect(n: usize, mut coefficient: impl FnMut(usize) -> i32) -> Zeroizing<Vec<i32>> {
    #[inline(never)]
    fn fill(coefficients: &mut [i32], mut coefficient: impl FnMut(usize) -> i32) {
        coefficients.iter_mut().enumerate().for_each(|(i, target)| *target = coefficient(i));
    }
    let mut coefficients = Zeroizing::new(vec![0; n]);
    fill(&mut coefficients, &mut coefficient);
    zeroize_stack::<SAMPLER_STACK_BYTES>();
    coefficients
}

/// Overwrites all samples with Gaussian ones. The draws stay on the stack, which the caller wipes.
#[inline(never)]
fn sample_gaussian(stream: &mut ChaCha20Rng, kernels: &dyn Kernels, samples: &mut [i32]) {
    let (mut block, mut draws) = ([0u8; 4 * BLOCK_WORDS], [0u64; BLOCK_WORDS / 2]);
    for samples in samples.chunks_mut(draws.len()) {
        let bytes = &mut block[..8 * samples.len()];
        stream.fill_bytes(bytes);
        draws.iter_mut().zip(bytes.as_chunks().0).for_each(|(draw, bytes)| *draw = u64::from_le_bytes(*bytes));
        kernels.tail_samples(&draws[..samples.len()], GAUSSIAN_TAIL.as_slice(), samples);
    }
}

/// A source of generators, one for each call, so that no two processes share a generator after a fork. Each is keyed by
/// the operating system, or in tests by a seed.
#[derive(Debug, Default)]
pub struct RandomSource(Option<Mutex<SecretRng>>);

impl RandomSource {
    /// A source that uses the operating system.
    pub fn system() -> Self {
        RandomSource(None)
    }

    /// A reproducible source, for tests only: anyone who knows the seed can compute everything that is drawn.
    pub fn insecure_from_seed(seed: u64) -> Self {
        RandomSource(Some(Mutex::new(SecretRng::insecure_from_seed(seed))))
    }

    /// A generator for one call.
    ///
    /// # Errors
    /// If the operating system's random generator fails.
    pub fn generator(&self) -> Result<SecretRng, RingError> {
        match &self.0 {
            Some(seeded) => Ok(seeded.lock().unwrap_or_else(PoisonError::into_inner).split()),
            None => SecretRng::from_os(),
        }
    }
}

/// Fills `out` with a hash of the concatenated parts under a label that names the purpose of the bytes. Secrets are
/// derived from a stored secret in this way. BLAKE3 in its mode for key derivation; all state is wiped.
///
/// Parts are not delimited: callers give parts of fixed length, or only the last one of variable length.
pub fn derive_bytes(label: &str, parts: &[&[u8]], out: &mut [u8]) {
    #[inline(never)]
    fn derive(label: &str, parts: &[&[u8]], out: &mut [u8]) {
        let mut hasher = Zeroizing::new(blake3::Hasher::new_derive_key(label));
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        Zeroizing::new(hasher.finalize_xof()).fill(out);
    }
    derive(label, parts, out);
    zeroize_stack::<SAMPLER_STACK_BYTES>();
}

impl std::fmt::Debug for SecretRng {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretRng").finish_non_exhaustive()
    }
}

/// `GAUSSIAN_TAIL[k] = 2^63 Pr[|x| > k]` for the discrete Gaussian with standard deviation [`ERROR_SIGMA`]; magnitudes
/// above 29 have probability below 2^-63. The sign is drawn separately.
static GAUSSIAN_TAIL: std::sync::LazyLock<[u64; 30]> = std::sync::LazyLock::new(|| {
    let weight = |x: usize| (-((x * x) as f64) / (2.0 * ERROR_SIGMA * ERROR_SIGMA)).exp();
    // Summed from the smallest term, so that the tail keeps its relative precision.
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
        let mut stream = Seed([1; 32]).stream(0, q);
        let mut parts = vec![0; 1 << 16];
        parts.chunks_mut(777).for_each(|part| stream.fill(&Portable, part));
        assert_eq!(parts, limb);
    }

    #[test]
    fn a_seed_expands_as_it_always_did() {
        // Stored and sent seeds depend on this expansion.
        let (q, stream) = ((1 << 30) - 35, 5);
        let mut limb = vec![0; 3000];
        Seed([9; 32]).fill_uniform(&Portable, stream, q, &mut limb);
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        rng.set_stream(u64::from(stream) << 32 | u64::from(q));
        let words = std::iter::repeat_with(|| rng.next_u32() & (u32::MAX >> 2)).filter(|&x| x < q);
        assert_eq!(limb, words.take(3000).collect::<Vec<_>>());
    }

    #[test]
    fn derived_secrets_never_change() {
        // Clients store 32 bytes and derive the rest.
        let mut derived = [0; 8];
        derive_bytes("a label", &[&[1, 2], &[3]], &mut derived);
        assert_eq!(derived, blake3::derive_key("a label", &[1, 2, 3])[..8]);
        let mut drawn = [0; 8];
        SecretRng::derived("a label", &[&[1, 2, 3]]).fill(&mut drawn);
        let mut rng = ChaCha20Rng::from_seed(blake3::derive_key("a label", &[1, 2, 3]));
        assert_eq!(drawn, *rng.next_u64().to_le_bytes().as_slice());
    }

    // Only these systems fork; elsewhere the standard library may have no process number.
    #[test]
    #[cfg(unix)]
    fn a_forked_process_without_a_system_generator_draws_nothing_its_parent_reveals() {
        let system_fails = |bytes: &mut [u8]| {
            bytes.fill(0xA5);
            Err(getrandom::Error::UNSUPPORTED)
        };
        let draw = |rng: &mut SecretRng| {
            let mut bytes = [0u8; 32];
            rng.stream.fill_bytes(&mut bytes);
            bytes
        };
        let [mut parent, mut child, mut sibling] = [0; 3].map(|_| SecretRng::keyed(&[3; 32]));
        draw(&mut parent);
        for fork in [&mut child, &mut sibling] {
            draw(fork);
            let place = &raw const *fork.stream;
            fork.rekey(7, system_fails);
            assert_eq!(place, &raw const *fork.stream, "no new memory: the allocator may be locked in a child");
        }
        // The next draw of the parent may be a public seed, so the child's key must not follow from it and a process
        // number.
        let next = draw(&mut parent);
        let drawn = [draw(&mut child), draw(&mut sibling)];
        assert_ne!(drawn[0], drawn[1], "two forks at one place");
        for process in 0..=u32::from(u16::MAX) {
            let mut key = next;
            key.iter_mut().zip(process.to_le_bytes()).for_each(|(key, byte)| *key ^= byte);
            for stream in [0, 1, 7] {
                let mut guess = ChaCha20Rng::from_seed(key);
                guess.set_stream(stream);
                let mut guessed = [0; 32];
                guess.fill_bytes(&mut guessed);
                assert!(!drawn.contains(&guessed), "the key of process {process} is the parent's output");
            }
        }
        assert_eq!(child.generation, Some(7));
    }

    #[test]
    fn seeded_sources_give_the_same_generators_in_order() {
        let draw = |source: &RandomSource| source.generator().unwrap().seed();
        let (a, b) = (RandomSource::insecure_from_seed(5), RandomSource::insecure_from_seed(5));
        let first = draw(&a);
        assert!(first == draw(&b) && first != draw(&a));
        assert_ne!(draw(&RandomSource::system()), draw(&RandomSource::system()));
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
