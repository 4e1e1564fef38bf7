//! 256-bit registers.

use std::arch::x86_64::*;

use super::permute::{check_permutation, prefetch_permuted, source_block};
use super::vector::{Vector, Wide, even_odd_products, lanes_of_sets};
use crate::automorphism::{LANES as BLOCK, Permutation};

/// Lanes of a register.
const LANES: usize = 8;

/// One AVX2 register.
#[derive(Clone, Copy)]
pub(super) struct Register(__m256i);

/// For each set of lanes, its lanes in ascending order, then zeros.
static COMPRESS: [[u32; LANES]; 1 << LANES] = lanes_of_sets(0, 1);

/// An operation on registers from one intrinsic.
macro_rules! operation {
    ($name:ident ( $($operand:ident),* ) = $intrinsic:expr) => {
        #[inline(always)]
        fn $name($($operand: Self),*) -> Self {
            // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
            Register(unsafe { $intrinsic })
        }
    };
}

impl Vector for Register {
    const LANES: usize = LANES;
    type Square = [Self; LANES];

    #[inline(always)]
    unsafe fn splat(x: u32) -> Self {
        // SAFETY: the caller vouches for AVX2.
        Register(unsafe { _mm256_set1_epi32(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn splat64(x: u64) -> Self {
        // SAFETY: the caller vouches for AVX2.
        Register(unsafe { _mm256_set1_epi64x(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load_from(source: *const u32) -> Self {
        // SAFETY: the caller vouches for AVX2 and the memory; the load needs no alignment.
        Register(unsafe { _mm256_loadu_si256(source.cast()) })
    }

    #[inline(always)]
    unsafe fn load_bytes_from(source: *const u8) -> Self {
        // SAFETY: the caller vouches for AVX2 and the memory; the load needs no alignment.
        Register(unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(source.cast())) })
    }

    #[inline(always)]
    unsafe fn store_to(self, target: *mut u32) {
        // SAFETY: the caller vouches for the memory, `self` for AVX2; the store needs no alignment.
        unsafe { _mm256_storeu_si256(target.cast(), self.0) }
    }

    operation!(add(self, other) = _mm256_add_epi32(self.0, other.0));
    operation!(sub(self, other) = _mm256_sub_epi32(self.0, other.0));
    operation!(and(self, other) = _mm256_and_si256(self.0, other.0));
    operation!(min(self, other) = _mm256_min_epu32(self.0, other.0));
    operation!(mul_low(self, other) = _mm256_mullo_epi32(self.0, other.0));
    operation!(reverse(self) = _mm256_permutevar8x32_epi32(self.0, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0)));
    operation!(add64(self, other) = _mm256_add_epi64(self.0, other.0));
    operation!(
        reduce64(self, multiple) = {
            let [sum, less] = [self.0, _mm256_sub_epi64(self.0, multiple.0)].map(|x| _mm256_castsi256_pd(x));
            _mm256_castpd_si256(_mm256_blendv_pd(less, sum, less))
        }
    );

    even_odd_products!();

    #[inline(always)]
    fn high_words(Wide(even, odd): Wide<Self>) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        Register(unsafe { _mm256_blend_epi32::<0b1010_1010>(even.odd().0, odd.0) })
    }

    #[inline(always)]
    fn low_words(Wide(even, odd): Wide<Self>) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        Register(unsafe { _mm256_blend_epi32::<0b1010_1010>(even.0, _mm256_shuffle_epi32::<0b10_10_00_00>(odd.0)) })
    }

    #[inline(always)]
    fn shift_right64(self, count: u32) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        Register(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn compress_below(self, bound: Self) -> (Self, usize) {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`. A row of `COMPRESS` is a register
        // long.
        unsafe {
            let below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bound.0, self.0)));
            let order = _mm256_loadu_si256(COMPRESS[below as usize & 0xFF].as_ptr().cast());
            (Register(_mm256_permutevar8x32_epi32(self.0, order)), below.count_ones() as usize)
        }
    }

    #[inline(always)]
    fn square(self) -> [Self; LANES] {
        [self; LANES]
    }

    #[inline(always)]
    fn transpose(block: &mut [Self; LANES]) {
        let [a, b, c, d, e, f, g, h] = *block;
        // Pairs of lanes, then fours, then halves.
        let (ab, cd, ef, gh) = (a.interleave32(b), c.interleave32(d), e.interleave32(f), g.interleave32(h));
        let (low0, low1) = (ab.0.interleave64(cd.0), ab.1.interleave64(cd.1));
        let (high0, high1) = (ef.0.interleave64(gh.0), ef.1.interleave64(gh.1));
        (block[0], block[4]) = low0.0.join_halves(high0.0);
        (block[1], block[5]) = low0.1.join_halves(high0.1);
        (block[2], block[6]) = low1.0.join_halves(high1.0);
        (block[3], block[7]) = low1.1.join_halves(high1.1);
    }
}

impl Register {
    operation!(mul_even(self, other) = _mm256_mul_epu32(self.0, other.0));
    operation!(odd(self) = _mm256_shuffle_epi32::<0b11_11_01_01>(self.0));

    /// Lanes 0, 1 and lanes 2, 3 of each half, alternating with the lanes of `other`.
    #[inline(always)]
    fn interleave32(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        unsafe { (Register(_mm256_unpacklo_epi32(self.0, other.0)), Register(_mm256_unpackhi_epi32(self.0, other.0))) }
    }

    /// The same on 64-bit lanes.
    #[inline(always)]
    fn interleave64(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        unsafe { (Register(_mm256_unpacklo_epi64(self.0, other.0)), Register(_mm256_unpackhi_epi64(self.0, other.0))) }
    }

    /// Both low halves, and both high halves.
    #[inline(always)]
    fn join_halves(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX2, see `Vector`.
        unsafe {
            (
                Register(_mm256_permute2x128_si256::<0x20>(self.0, other.0)),
                Register(_mm256_permute2x128_si256::<0x31>(self.0, other.0)),
            )
        }
    }
}

/// `target[i] = source[permutation(i)]`: each half of a target block is a shuffle of one half of the source block.
///
/// # Safety
/// The machine has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn permute(permutation: &Permutation, source: &[u32], target: &mut [u32]) {
    check_permutation(permutation, source, target);
    for (block, out) in target.chunks_exact_mut(BLOCK).enumerate() {
        prefetch_permuted(permutation, source, block);
        let input = source_block(permutation, source, block);
        let shuffle = &permutation.shuffles[usize::from(permutation.shuffle[block]) % BLOCK];
        for half in [0, LANES] {
            let from = shuffle[half] as usize & LANES;
            // SAFETY: `input`, `out` and `shuffle` are 16 words long, `half` and `from` are 0 or 8. The shuffle
            // itself reads the low three bits of its lanes only.
            unsafe {
                let (lanes, index) = (Register::load(input, from), Register::load(shuffle, half));
                Register(_mm256_permutevar8x32_epi32(lanes.0, index.0)).store(out, half);
            }
        }
    }
}
