//! Kernels that make limbs from random words and from signed integers, and the kernel of Gaussian samples.

use super::vector::{Factor, Prime, Vector};
use crate::kernels::portable;
use crate::modular::{Modulus, Shoup};

/// `out = source * w` for signed words.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn embed<V: Vector>(modulus: &Modulus, out: &mut [u32], source: &[i32], w: Shoup) {
    assert!(out.len().is_multiple_of(V::LANES) && source.len() == out.len());
    // SAFETY: the caller vouches for the instruction set; the lengths are checked, and words of both signs are alike.
    unsafe {
        let (prime, factor, half) = (Prime::<V>::new(modulus), Factor::<V>::splat(w), V::splat(HALF));
        let surplus = V::splat(modulus.mul_shoup(HALF, w));
        for i in (0..out.len()).step_by(V::LANES) {
            let c = V::load_from(source.as_ptr().add(i).cast());
            prime.sub(prime.mul(c.add(half), factor), surplus).store(out, i);
        }
    }
}

/// Added to a signed word modulo `2^32`, to make it non-negative.
const HALF: u32 = 1 << 31;

/// `out = (low + 2^32 high) * w` for signed double words.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn embed_wide<V: Vector>(modulus: &Modulus, out: &mut [u32], low: &[u32], high: &[i32], w: Shoup) {
    assert!(out.len().is_multiple_of(V::LANES) && low.len() == out.len() && high.len() == out.len());
    let shifted = modulus.shoup(modulus.mul(w.value, modulus.r));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked, and words of both signs are alike.
    unsafe {
        let (prime, half) = (Prime::<V>::new(modulus), V::splat(HALF));
        let (low_factor, high_factor) = (Factor::<V>::splat(w), Factor::<V>::splat(shifted));
        let surplus = V::splat(modulus.mul_shoup(HALF, shifted));
        for i in (0..out.len()).step_by(V::LANES) {
            let high = V::load_from(high.as_ptr().add(i).cast()).add(half);
            let sum = prime.mul_lazy(V::load(low, i), low_factor).add(prime.mul_lazy(high, high_factor));
            prime.sub(prime.canonical_from_4q(sum), surplus).store(out, i);
        }
    }
}

/// See [`Kernels::select_below`](crate::kernels::Kernels::select_below).
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn select_below<V: Vector>(
    words: &[u32],
    mask: u32,
    bound: u32,
    out: &mut [u32],
    mut filled: usize,
) -> usize {
    let mut done = 0;
    // SAFETY: the caller vouches for the instruction set; in the loop both slices have room for a whole register.
    unsafe {
        let bound = V::splat(bound);
        while done + V::LANES <= words.len() && filled + V::LANES <= out.len() {
            let (kept, count) = V::load(words, done).and(V::splat(mask)).compress_below(bound);
            kept.store(out, filled);
            filled += count;
            done += V::LANES;
        }
    }
    portable::select_below(&words[done..], mask, bound, out, filled)
}

/// See [`Kernels::tail_samples`](crate::kernels::Kernels::tail_samples): the portable loop, compiled for more
/// registers.
///
/// # Safety
/// No requirement: unsafe only because all kernels of this module are.
#[inline(always)]
pub(super) unsafe fn tail_samples(draws: &[u64], tails: &[u64], out: &mut [i32]) {
    portable::tail_samples(draws, tails, out);
}
