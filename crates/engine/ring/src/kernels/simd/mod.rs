//! Vector kernels: one source, compiled for each instruction set.
//!
//! [`vector`] defines the operations of a register and builds modular arithmetic on them; one module per instruction
//! set provides the register. The kernels are generic over the register, always inlined, and unsafe for one reason
//! only: the machine must have the instructions. The kernels check the lengths that they rely on. This module wraps
//! them in one function per kernel and instruction set, compiled for that set.

#![expect(unsafe_code, reason = "vector instructions, and pointers into limbs whose lengths are checked")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bytes;
mod matrix;
mod ntt;
mod permute;
mod pointwise;
mod prefetch;
mod sampling;
#[cfg(target_arch = "wasm32")]
mod simd128;
mod sums;
mod vector;

use super::{BYTE_BLOCK, ConversionTarget, Kernels, PackedMatrix, portable};
use crate::automorphism::Permutation;
use crate::kernels::digits::DigitTable;
use crate::modular::{Modulus, Shoup};
use crate::ntt::NttTable;

/// The kernels on 128-bit registers. A module that contains them runs only on a machine that has the instructions.
#[cfg(target_arch = "wasm32")]
pub(crate) fn simd128() -> Option<&'static dyn Kernels> {
    Some(&Simd128)
}

/// The AVX2 kernels, if this machine has AVX2.
#[cfg(target_arch = "x86_64")]
pub(crate) fn avx2() -> Option<&'static dyn Kernels> {
    is_x86_feature_detected!("avx2").then_some(&Avx2(()))
}

/// The AVX-512 kernels, if this machine has AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
pub(crate) fn avx512() -> Option<&'static dyn Kernels> {
    let available = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    available.then_some(&Avx512(()))
}

/// Kernels on the 128-bit registers of WebAssembly.
#[cfg(target_arch = "wasm32")]
struct Simd128;

/// Kernels on 256-bit registers. A value is proof that the machine has AVX2.
#[cfg(target_arch = "x86_64")]
struct Avx2(());

/// Kernels on 512-bit registers. A value is proof that the machine has AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
struct Avx512(());

/// Trait methods that call `kernel` compiled for `features`.
macro_rules! methods {
    ($features:literal; $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $kernel:expr;)*) => {$(
        fn $name(&self, $($argument: $type),*) $(-> $result)? {
            /// # Safety
            /// The machine has the features.
            #[target_feature(enable = $features)]
            unsafe fn compiled($($argument: $type),*) $(-> $result)? {
                // SAFETY: the caller vouches for the features.
                unsafe { $kernel }
            }
            // SAFETY: `self` exists, so the machine has the features.
            unsafe { compiled($($argument),*) }
        }
    )*};
}

/// The kernels of one instruction set.
macro_rules! kernels {
    ($backend:ident, $module:ident, $features:literal) => {
        impl Kernels for $backend {
            fn lanes(&self) -> usize {
                <$module::Register as vector::Vector>::LANES
            }

            methods! { $features;
                fn ntt_forward(table: &NttTable, limbs: &mut [&mut [u32]])
                    = ntt::forward::<$module::Register>(table, limbs);
                fn ntt_inverse(table: &NttTable, limb: &mut [u32], scale: Shoup)
                    = ntt::inverse::<$module::Register>(table, None, limb, scale);
                fn ntt_inverse_from(table: &NttTable, source: &[u32], target: &mut [u32], scale: Shoup)
                    = ntt::inverse::<$module::Register>(table, Some(source), target, scale);
                fn fold(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32])
                    = pointwise::fold::<$module::Register>(modulus, imaginary, limb);
                fn unfold(modulus: &Modulus, imaginary: Shoup, limb: &mut [u32])
                    = pointwise::unfold::<$module::Register>(modulus, imaginary, limb);
                fn add_assign(modulus: &Modulus, a: &mut [u32], b: &[u32])
                    = pointwise::add_assign::<$module::Register>(modulus, a, b);
                fn sub_assign(modulus: &Modulus, a: &mut [u32], b: &[u32])
                    = pointwise::sub_assign::<$module::Register>(modulus, a, b);
                fn neg_assign(modulus: &Modulus, a: &mut [u32])
                    = pointwise::neg_assign::<$module::Register>(modulus, a);
                fn scale_assign(modulus: &Modulus, a: &mut [u32], w: Shoup)
                    = pointwise::scale_assign::<$module::Register>(modulus, a, w);
                fn add_scaled_assign(modulus: &Modulus, acc: &mut [u32], a: &[u32], w: Shoup)
                    = pointwise::add_scaled_assign::<$module::Register>(modulus, acc, a, w);
                fn add_word_assign(modulus: &Modulus, a: &mut [u32], word: u32)
                    = pointwise::add_word_assign::<$module::Register>(modulus, a, word);
                fn sub_scale_assign(modulus: &Modulus, a: &mut [u32], b: &[u32], w: Shoup)
                    = pointwise::sub_scale_assign::<$module::Register>(modulus, a, b, w);
                fn mul_assign(modulus: &Modulus, a: &mut [u32], b: &[u32])
                    = pointwise::mul_assign::<$module::Register>(modulus, a, b);
                fn mul_add_assign(modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32])
                    = pointwise::mul_add_assign::<$module::Register>(modulus, acc, a, b);
                fn mul_sub_assign(modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32])
                    = pointwise::mul_sub_assign::<$module::Register>(modulus, acc, a, b);
                fn embed(modulus: &Modulus, out: &mut [u32], source: &[i32], w: Shoup)
                    = sampling::embed::<$module::Register>(modulus, out, source, w);
                fn embed_wide(modulus: &Modulus, out: &mut [u32], low: &[u32], high: &[i32], w: Shoup)
                    = sampling::embed_wide::<$module::Register>(modulus, out, low, high, w);
                fn select_below(words: &[u32], mask: u32, bound: u32, out: &mut [u32], filled: usize) -> usize
                    = sampling::select_below::<$module::Register>(words, mask, bound, out, filled);
                fn tail_samples(draws: &[u64], tails: &[u64], out: &mut [i32])
                    = sampling::tail_samples(draws, tails, out);
                fn tensor(modulus: &Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3])
                    = pointwise::tensor::<$module::Register>(modulus, a, b, out);
                fn permute(permutation: &Permutation, source: &[u32], target: &mut [u32])
                    = $module::permute(permutation, source, target);
                fn convert(sources: &[&[u32]], targets: &[ConversionTarget], outputs: &mut [&mut [u32]])
                    = sums::convert::<$module::Register>(sources, targets, outputs);
                fn quotient(sources: &[&[u32]], reciprocals: &[u32], shift: u32, out: &mut [u32])
                    = sums::quotient::<$module::Register>(sources, reciprocals, shift, out);
                fn dot(modulus: &Modulus, a: &[&[u32]], b: &[&[u32]], out: &mut [u32], begun: bool)
                    = sums::dot::<$module::Register>(modulus, a, b, out, begun);
                fn dot_runs(
                    modulus: &Modulus, a: &[&[u32]], run: usize, b: &[&[u32]], out: &mut [u32], begun: bool
                ) = sums::dot_runs::<$module::Register>(modulus, a, run, b, out, begun);
                fn inner_product(modulus: &Modulus, digits: &[&[u32]], key: &[&[u32]], out: [&mut [u32]; 2])
                    = sums::inner_product::<$module::Register>(modulus, digits, key, out);
                fn signed_digits(
                    residues: &[&[u32]], table: &DigitTable, moduli: &[Modulus], outputs: &mut [&mut [u32]]
                ) = signed_digits(residues, table, moduli, outputs);
                fn rotation_difference(modulus: &Modulus, powers: &[u32], exponent: u32, out: &mut [u32])
                    = pointwise::rotation_difference::<$module::Register>(modulus, powers, exponent, out);
                fn table_sum(modulus: &Modulus, entries: &[u32], factors: &[u32], sums: &mut [u32])
                    = sums::table_sum::<$module::Register>(modulus, entries, factors, sums);
                fn window_sum(modulus: &Modulus, factors: &[u32], key: &[u32], sums: &mut [u32])
                    = sums::window_sum::<$module::Register>(modulus, factors, key, sums);
                fn byte_sum(bytes: &[u8], factors: &[&[u32]], sums: &mut [[u32; BYTE_BLOCK]])
                    = bytes::sum::<$module::Register>(bytes, factors, sums);
                fn matrix_product(
                    modulus: &Modulus, matrix: &PackedMatrix, inputs: &[&[u32]], outputs: &mut [&mut [u32]]
                ) = matrix::product::<$module::Register>(modulus, matrix, inputs, outputs);
            }
        }
    };
}

#[cfg(target_arch = "wasm32")]
kernels!(Simd128, simd128, "simd128");
#[cfg(target_arch = "x86_64")]
kernels!(Avx2, avx2, "avx2");
#[cfg(target_arch = "x86_64")]
kernels!(Avx512, avx512, "avx512f,avx512bw");

/// See [`Kernels::signed_digits`]: the portable loops, compiled for more registers.
///
/// # Safety
/// No requirement: unsafe only because all kernels of this module are.
#[inline(always)]
unsafe fn signed_digits(residues: &[&[u32]], table: &DigitTable, moduli: &[Modulus], outputs: &mut [&mut [u32]]) {
    portable::signed_digits(residues, table, moduli, outputs);
}
