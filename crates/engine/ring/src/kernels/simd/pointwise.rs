//! Kernels whose result at a position depends on the operands at that position, and the folds of the
//! conjugate-invariant ring.

use super::vector::{Factor, Prime, Vector, Wide};
use crate::modular::{Modulus, Shoup};
use crate::ntt::bit_reverse;

/// Asserts the conditions that the kernels rely on: all lengths are equal, and a multiple of the lanes.
#[inline(always)]
fn check_lengths<V: Vector>(length: usize, others: &[&[u32]]) {
    assert!(length.is_multiple_of(V::LANES) && others.iter().all(|other| other.len() == length));
}

/// A kernel `out[i] = expression(operands[i])`, where `out` may be an operand.
macro_rules! pointwise {
    (
        $(#[$doc:meta])*
        $name:ident($prime:ident, $out:ident $(, $operand:ident)* $(; $factor:ident)?) = $expression:expr
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The machine has the instruction set of `V`.
        #[inline(always)]
        pub(super) unsafe fn $name<V: Vector>(
            modulus: &Modulus, $out: &mut [u32] $(, $operand: &[u32])* $(, $factor: Shoup)?
        ) {
            check_lengths::<V>($out.len(), &[$($operand),*]);
            // SAFETY: the caller vouches for the instruction set; the lengths are checked.
            unsafe {
                let $prime = Prime::<V>::new(modulus);
                $(let $factor = Factor::<V>::splat($factor);)?
                for i in (0..$out.len()).step_by(V::LANES) {
                    let result = {
                        $(let $operand = V::load($operand, i);)*
                        let $out = V::load($out, i);
                        $expression
                    };
                    result.store($out, i);
                }
            }
        }
    };
}

pointwise!(
    /// `a += b`.
    add_assign(prime, a, b) = prime.add(a, b)
);
pointwise!(
    /// `a -= b`.
    sub_assign(prime, a, b) = prime.sub(a, b)
);
pointwise!(
    /// `a = -a`.
    neg_assign(prime, a) = prime.sub(prime.q.sub(prime.q), a)
);
pointwise!(
    /// `a *= w`.
    scale_assign(prime, a; w) = prime.mul(a, w)
);
pointwise!(
    /// `acc += a * w`.
    add_scaled_assign(prime, acc, a; w) = prime.add(acc, prime.mul(a, w))
);
pointwise!(
    /// `a = (a - b) * w`.
    sub_scale_assign(prime, a, b; w) = prime.mul(a.add(prime.q).sub(b), w)
);
pointwise!(
    /// `a = a * b / R`.
    mul_assign(prime, a, b) = prime.montgomery_mul(a, b)
);
pointwise!(
    /// `acc += a * b / R`.
    mul_add_assign(prime, acc, a, b) = prime.add(acc, prime.montgomery_mul(a, b))
);
pointwise!(
    /// `acc -= a * b / R`.
    mul_sub_assign(prime, acc, a, b) = prime.sub(acc, prime.montgomery_mul(a, b))
);

/// `a += word` for every residue.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn add_word_assign<V: Vector>(modulus: &Modulus, a: &mut [u32], word: u32) {
    check_lengths::<V>(a.len(), &[]);
    // SAFETY: the caller vouches for the instruction set; the length is checked.
    unsafe {
        let (prime, word) = (Prime::<V>::new(modulus), V::splat(word));
        for i in (0..a.len()).step_by(V::LANES) {
            prime.add(V::load(a, i), word).store(a, i);
        }
    }
}

/// `(a0 b0, a0 b1 + a1 b0, a1 b1) / R`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn tensor<V: Vector>(modulus: &Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3]) {
    let [d0, d1, d2] = out;
    check_lengths::<V>(d0.len(), &[a[0], a[1], b[0], b[1], d1, d2]);
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        for i in (0..d0.len()).step_by(V::LANES) {
            let (a0, a1) = (V::load(a[0], i), V::load(a[1], i));
            let (b0, b1) = (V::load(b[0], i), V::load(b[1], i));
            prime.montgomery_mul(a0, b0).store(d0, i);
            let crossed = Wide::product(a0, b1).add(Wide::product(a1, b0));
            prime.canonical_from_4q(prime.montgomery_lazy(crossed)).store(d1, i);
            prime.montgomery_mul(a1, b1).store(d2, i);
        }
    }
}

/// See [`Kernels::rotation_difference`](crate::kernels::Kernels::rotation_difference). The lanes of a vector differ
/// from its first lane by the same powers of a root in every vector, because the low bits of a position are the high
/// bits of its reversal.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn rotation_difference<V: Vector>(modulus: &Modulus, powers: &[u32], exponent: u32, out: &mut [u32]) {
    let (n, exponent) = (out.len(), exponent as usize);
    assert!(n.is_power_of_two() && n >= V::LANES && powers.len() == 2 * n);
    let bits = n.trailing_zeros();
    // The number of powers is a power of two, so a product that wraps has the same remainder.
    let power = |position: usize, odd: usize| {
        powers[exponent.wrapping_mul(2 * bit_reverse(position, bits) + odd) % powers.len()]
    };
    let mut within = [0; 16];
    within.iter_mut().take(V::LANES).enumerate().for_each(|(lane, within)| *within = power(lane, 0));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let (within, one) = (V::load(&within, 0), V::splat(modulus.r));
        for i in (0..n).step_by(V::LANES) {
            prime.sub(prime.montgomery_mul(V::splat(power(i, 1)), within), one).store(out, i);
        }
    }
}

/// `c_i = a_i - imaginary a_(n-i)` for `0 < i < n`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn fold<V: Vector>(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { combine_mirrored::<V>(modulus, modulus.shoup(1), modulus.shoup(modulus.neg(imaginary.value)), limb) }
}

/// `a_i = (c_i + imaginary c_(n-i)) / 2` for `0 < i < n`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn unfold<V: Vector>(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    let half = modulus.q.div_ceil(2);
    let mirrored = modulus.shoup(modulus.mul(half, imaginary.value));
    // SAFETY: the caller vouches for the instruction set.
    unsafe { combine_mirrored::<V>(modulus, modulus.shoup(half), mirrored, limb) }
}

/// `a_i = a_i * own + a_(n-i) * mirrored` for `0 < i < n`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn combine_mirrored<V: Vector>(modulus: &Modulus, own: Shoup, mirrored: Shoup, limb: &mut [u32]) {
    let (length, middle) = (limb.len(), limb.len() / 2);
    let vectors = middle.saturating_sub(1) / V::LANES;
    // SAFETY: the caller vouches for the instruction set. `i + LANES <= middle`, so the mirror image of the vector
    // at `i`, which ends at `length - i`, begins after `middle`.
    unsafe {
        let prime = Prime::<V>::new(modulus);
        let (own, mirrored) = (Factor::<V>::splat(own), Factor::<V>::splat(mirrored));
        for i in (0..vectors).map(|vector| 1 + vector * V::LANES) {
            let mirror = length - i - (V::LANES - 1);
            let (a, b) = (V::load(limb, i), V::load(limb, mirror).reverse());
            let low = prime.mul_lazy(a, own).add(prime.mul_lazy(b, mirrored));
            let high = prime.mul_lazy(b, own).add(prime.mul_lazy(a, mirrored));
            prime.canonical_from_4q(low).store(limb, i);
            prime.canonical_from_4q(high).reverse().store(limb, mirror);
        }
    }
    for i in 1 + vectors * V::LANES..=middle {
        let (a, b) = (limb[i], limb[length - i]);
        let combine = |a, b| modulus.add(modulus.mul_shoup(a, own), modulus.mul_shoup(b, mirrored));
        (limb[i], limb[length - i]) = (combine(a, b), combine(b, a));
    }
}
