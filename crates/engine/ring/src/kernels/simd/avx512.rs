//! 512-bit registers.

use std::arch::x86_64::*;

use super::permute::{check_permutation, prefetch_permuted, source_block};
use super::vector::{Vector, Wide, even_odd_products};
use crate::automorphism::{LANES as BLOCK, Permutation};

/// Lanes of a register.
const LANES: usize = 16;

/// One AVX-512 register.
#[derive(Clone, Copy)]
pub(super) struct Register(__m512i);

/// The even lanes.
const EVEN: __mmask16 = 0x5555;
/// The odd lanes.
const ODD: __mmask16 = 0xAAAA;

/// An operation on registers from one intrinsic.
macro_rules! operation {
    ($name:ident ( $($operand:ident),* ) = $intrinsic:expr) => {
        #[inline(always)]
        fn $name($($operand: Self),*) -> Self {
            // SAFETY: a `Register` exists only where the machine has AVX-512 F and BW, see `Vector`.
            Register(unsafe { $intrinsic })
        }
    };
}

impl Vector for Register {
    const LANES: usize = LANES;
    type Square = [Self; LANES];

    #[inline(always)]
    unsafe fn splat(x: u32) -> Self {
        // SAFETY: the caller vouches for AVX-512.
        Register(unsafe { _mm512_set1_epi32(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn splat64(x: u64) -> Self {
        // SAFETY: the caller vouches for AVX-512.
        Register(unsafe { _mm512_set1_epi64(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load_from(source: *const u32) -> Self {
        // SAFETY: the caller vouches for AVX-512 and the memory; the load needs no alignment.
        Register(unsafe { _mm512_loadu_si512(source.cast()) })
    }

    #[inline(always)]
    unsafe fn load_bytes_from(source: *const u8) -> Self {
        // SAFETY: the caller vouches for AVX-512 and the memory; the load needs no alignment.
        Register(unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(source.cast())) })
    }

    #[inline(always)]
    unsafe fn store_to(self, target: *mut u32) {
        // SAFETY: the caller vouches for the memory, `self` for AVX-512; the store needs no alignment.
        unsafe { _mm512_storeu_si512(target.cast(), self.0) }
    }

    operation!(add(self, other) = _mm512_add_epi32(self.0, other.0));
    operation!(sub(self, other) = _mm512_sub_epi32(self.0, other.0));
    operation!(and(self, other) = _mm512_and_si512(self.0, other.0));
    operation!(min(self, other) = _mm512_min_epu32(self.0, other.0));
    operation!(mul_low(self, other) = _mm512_mullo_epi32(self.0, other.0));
    operation!(
        reverse(self) = {
            let last_to_first = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            _mm512_permutexvar_epi32(last_to_first, self.0)
        }
    );
    operation!(add64(self, other) = _mm512_add_epi64(self.0, other.0));
    // The difference wraps to a large number where `self` is below `multiple`.
    operation!(reduce64(self, multiple) = _mm512_min_epu64(self.0, _mm512_sub_epi64(self.0, multiple.0)));

    even_odd_products!();

    #[inline(always)]
    fn high_words(Wide(even, odd): Wide<Self>) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX-512 F and BW, see `Vector`.
        Register(unsafe { _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd.0, EVEN, even.0) })
    }

    #[inline(always)]
    fn low_words(Wide(even, odd): Wide<Self>) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX-512 F and BW, see `Vector`.
        Register(unsafe { _mm512_mask_shuffle_epi32::<0b10_10_00_00>(even.0, ODD, odd.0) })
    }

    #[inline(always)]
    fn shift_right64(self, count: u32) -> Self {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        Register(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn compress_below(self, bound: Self) -> (Self, usize) {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        unsafe {
            let below = _mm512_cmplt_epu32_mask(self.0, bound.0);
            (Register(_mm512_maskz_compress_epi32(below, self.0)), below.count_ones() as usize)
        }
    }

    #[inline(always)]
    fn square(self) -> [Self; LANES] {
        [self; LANES]
    }

    #[inline(always)]
    fn transpose(block: &mut [Self; LANES]) {
        // Four rounds that each exchange lanes at one distance: 1, 2, 4 and 8.
        for i in (0..LANES).step_by(2) {
            (block[i], block[i + 1]) = block[i].interleave32(block[i + 1]);
        }
        let rows = *block;
        for i in (0..LANES).step_by(4) {
            (block[i], block[i + 1]) = rows[i].interleave64(rows[i + 2]);
            (block[i + 2], block[i + 3]) = rows[i + 1].interleave64(rows[i + 3]);
        }
        // Now quarter `k` of vector `4i + j` is column `4k + j` of rows `4i..4i + 4`.
        let rows = *block;
        for j in 0..4 {
            let (low0, low1) = rows[j].join_halves(rows[4 + j]);
            let (high0, high1) = rows[8 + j].join_halves(rows[12 + j]);
            (block[j], block[4 + j]) = low0.separate_quarters(high0);
            (block[8 + j], block[12 + j]) = low1.separate_quarters(high1);
        }
    }
}

impl Register {
    operation!(mul_even(self, other) = _mm512_mul_epu32(self.0, other.0));
    operation!(odd(self) = _mm512_shuffle_epi32::<0b11_11_01_01>(self.0));

    /// Lanes 0, 1 and lanes 2, 3 of each quarter, alternating with the lanes of `other`.
    #[inline(always)]
    fn interleave32(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        unsafe { (Register(_mm512_unpacklo_epi32(self.0, other.0)), Register(_mm512_unpackhi_epi32(self.0, other.0))) }
    }

    /// The same on 64-bit lanes.
    #[inline(always)]
    fn interleave64(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        unsafe { (Register(_mm512_unpacklo_epi64(self.0, other.0)), Register(_mm512_unpackhi_epi64(self.0, other.0))) }
    }

    /// Both low halves, and both high halves.
    #[inline(always)]
    fn join_halves(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        unsafe {
            (
                Register(_mm512_shuffle_i64x2::<0b01_00_01_00>(self.0, other.0)),
                Register(_mm512_shuffle_i64x2::<0b11_10_11_10>(self.0, other.0)),
            )
        }
    }

    /// Quarters 0 and 2 of both, and quarters 1 and 3 of both.
    #[inline(always)]
    fn separate_quarters(self, other: Self) -> (Self, Self) {
        // SAFETY: a `Register` exists only where the machine has AVX-512, see `Vector`.
        unsafe {
            (
                Register(_mm512_shuffle_i64x2::<0b10_00_10_00>(self.0, other.0)),
                Register(_mm512_shuffle_i64x2::<0b11_01_11_01>(self.0, other.0)),
            )
        }
    }
}

/// `target[i] = source[permutation(i)]`: one shuffle per block.
///
/// # Safety
/// The machine has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn permute(permutation: &Permutation, source: &[u32], target: &mut [u32]) {
    check_permutation(permutation, source, target);
    for (block, out) in target.chunks_exact_mut(BLOCK).enumerate() {
        prefetch_permuted(permutation, source, block);
        let input = source_block(permutation, source, block);
        let shuffle = &permutation.shuffles[usize::from(permutation.shuffle[block]) % BLOCK];
        // SAFETY: `input`, `out` and `shuffle` are 16 words long. The shuffle itself reads the low four bits of
        // its lanes only.
        unsafe {
            let (lanes, index) = (Register::load(input, 0), Register::load(shuffle, 0));
            Register(_mm512_permutexvar_epi32(index.0, lanes.0)).store(out, 0);
        }
    }
}
