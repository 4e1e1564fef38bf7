//! 128-bit registers of WebAssembly.

use std::arch::wasm32::*;

use super::permute::{check_permutation, source_block};
use super::vector::{Vector, Wide, lanes_of_sets};
use crate::automorphism::{LANES as BLOCK, Permutation};

/// Lanes of a register.
const LANES: usize = 4;

/// One 128-bit register.
#[derive(Clone, Copy)]
pub(super) struct Register(v128);

/// For each set of lanes, the bytes of its lanes in ascending order, then zeros.
static COMPRESS: [[u32; LANES]; 1 << LANES] = lanes_of_sets(FIRST_BYTES, LANE_BYTES);

/// The numbers of the bytes of lane 0, as one word.
const FIRST_BYTES: u32 = 0x0302_0100;

/// Added once for each lane to get the bytes of the next lane.
const LANE_BYTES: u32 = 0x0404_0404;

/// An operation on registers from one intrinsic.
macro_rules! operation {
    ($name:ident ( $($operand:ident),* ) = $expression:expr) => {
        #[inline(always)]
        fn $name($($operand: Self),*) -> Self {
            Register($expression)
        }
    };
}

impl Vector for Register {
    const LANES: usize = LANES;
    type Square = [Self; LANES];
    type Operand = Self;

    #[inline(always)]
    unsafe fn splat(x: u32) -> Self {
        Register(u32x4_splat(x))
    }

    #[inline(always)]
    unsafe fn splat64(x: u64) -> Self {
        Register(u64x2_splat(x))
    }

    #[inline(always)]
    unsafe fn load_from(source: *const u32) -> Self {
        // SAFETY: the caller vouches for the memory; the load needs no alignment.
        Register(unsafe { v128_load(source.cast()) })
    }

    #[inline(always)]
    unsafe fn load_bytes_from(source: *const u8) -> Self {
        // SAFETY: the caller vouches for the memory; the load needs no alignment.
        let bytes = unsafe { v128_load32_zero(source.cast()) };
        Register(i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(bytes)))
    }

    #[inline(always)]
    unsafe fn store_to(self, target: *mut u32) {
        // SAFETY: the caller vouches for the memory; the store needs no alignment.
        unsafe { v128_store(target.cast(), self.0) }
    }

    operation!(add(self, other) = u32x4_add(self.0, other.0));
    operation!(sub(self, other) = u32x4_sub(self.0, other.0));
    operation!(and(self, other) = v128_and(self.0, other.0));
    operation!(min(self, other) = u32x4_min(self.0, other.0));
    operation!(mul_low(self, other) = u32x4_mul(self.0, other.0));
    operation!(reverse(self) = u32x4_shuffle::<3, 2, 1, 0>(self.0, self.0));
    operation!(add64(self, other) = u64x2_add(self.0, other.0));
    operation!(
        reduce64(self, multiple) = {
            let less = u64x2_sub(self.0, multiple.0);
            v128_bitselect(self.0, less, i64x2_lt(less, i64x2_splat(0)))
        }
    );

    #[inline(always)]
    fn operand(self) -> Self {
        self
    }

    #[inline(always)]
    fn equal_operand(self) -> Self {
        self
    }

    #[inline(always)]
    fn products(a: Self, b: Self) -> Wide<Self> {
        Wide(Register(u64x2_extmul_low_u32x4(a.0, b.0)), Register(u64x2_extmul_high_u32x4(a.0, b.0)))
    }

    #[inline(always)]
    fn low_products(t: Wide<Self>, a: Self, b: Self) -> Wide<Self> {
        Self::products(Self::low_words(t).mul_low(a), b)
    }

    #[inline(always)]
    fn high_words(Wide(low, high): Wide<Self>) -> Self {
        Register(u32x4_shuffle::<1, 3, 5, 7>(low.0, high.0))
    }

    #[inline(always)]
    fn low_words(Wide(low, high): Wide<Self>) -> Self {
        Register(u32x4_shuffle::<0, 2, 4, 6>(low.0, high.0))
    }

    #[inline(always)]
    fn shift_right64(self, count: u32) -> Self {
        Register(u64x2_shr(self.0, count))
    }

    #[inline(always)]
    fn compress_below(self, bound: Self) -> (Self, usize) {
        let below = u32x4_bitmask(i32x4_lt(self.0, bound.0));
        // SAFETY: a row of `COMPRESS` is a register long.
        let bytes = unsafe { v128_load(COMPRESS[usize::from(below) % COMPRESS.len()].as_ptr().cast()) };
        (Register(u8x16_swizzle(self.0, bytes)), below.count_ones() as usize)
    }

    #[inline(always)]
    fn square(self) -> [Self; LANES] {
        [self; LANES]
    }

    #[inline(always)]
    fn transpose(block: &mut [Self; LANES]) {
        let [a, b, c, d] = *block;
        let ((ab0, ab1), (cd0, cd1)) = (a.interleave32(b), c.interleave32(d));
        (block[0], block[1]) = ab0.interleave64(cd0);
        (block[2], block[3]) = ab1.interleave64(cd1);
    }
}

impl Register {
    /// Lanes 0, 1 and lanes 2, 3, alternating with the lanes of `other`.
    #[inline(always)]
    fn interleave32(self, other: Self) -> (Self, Self) {
        (Register(u32x4_shuffle::<0, 4, 1, 5>(self.0, other.0)), Register(u32x4_shuffle::<2, 6, 3, 7>(self.0, other.0)))
    }

    /// The same on 64-bit lanes.
    #[inline(always)]
    fn interleave64(self, other: Self) -> (Self, Self) {
        (Register(u64x2_shuffle::<0, 2>(self.0, other.0)), Register(u64x2_shuffle::<1, 3>(self.0, other.0)))
    }
}

/// `target[i] = source[permutation(i)]`: each quarter of a target block is a shuffle of one quarter of the source
/// block.
///
/// # Safety
/// The machine has 128-bit registers.
#[target_feature(enable = "simd128")]
pub(super) unsafe fn permute(permutation: &Permutation, source: &[u32], target: &mut [u32]) {
    check_permutation(permutation, source, target);
    for (block, out) in target.chunks_exact_mut(BLOCK).enumerate() {
        let input = source_block(permutation, source, block);
        let shuffle = &permutation.shuffles[usize::from(permutation.shuffle[block]) % BLOCK];
        for quarter in (0..BLOCK).step_by(LANES) {
            let from = shuffle[quarter] as usize % BLOCK / LANES * LANES;
            // SAFETY: `input`, `out` and `shuffle` are 16 words long, `quarter` and `from` are at most 12. The bytes of
            // the lanes are below 16.
            unsafe {
                let (lanes, index) = (Register::load(input, from), Register::load(shuffle, quarter));
                let lane = v128_and(index.0, u32x4_splat(LANES as u32 - 1));
                let bytes = u32x4_add(u32x4_mul(lane, u32x4_splat(LANE_BYTES)), u32x4_splat(FIRST_BYTES));
                Register(u8x16_swizzle(lanes.0, bytes)).store(out, quarter);
            }
        }
    }
}
