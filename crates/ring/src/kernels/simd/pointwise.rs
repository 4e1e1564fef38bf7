//! Kernels whose result at a position depends on the operands at that position.

use crate::kernels::portable;
use super::vector::{Factor, Prime, Vector, Wide};
use crate::modular::{Modulus, Shoup};

/// Asserts what the kernels rely on: equal lengths, a multiple of the lanes.
#[inline(always)]
fn check_lengths<V: Vector>(length: usize, others: &[&[u32]]) {
    assert!(length.is_multiple_of(V::LANES) && others.iter().all(|other| other.len() == length));
}

/// A kernel `out[i] = expression(operands[i])`, where `out` may be an operand.
macro_rules! pointwise {
    ($(#[$doc:meta])* $name:ident($prime:ident, $out:ident $(, $operand:ident)* $(; $factor:ident)?) = $expression:expr) => {
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

/// The fold of the conjugate-invariant ring: the portable loop, which the compiler vectorises.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn fold<V: Vector>(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    portable::fold(modulus, imaginary, limb);
}

/// The inverse of [`fold`].
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn unfold<V: Vector>(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]) {
    portable::unfold(modulus, imaginary, limb);
}
