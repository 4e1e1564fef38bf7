//! The arithmetic on limbs, implemented once per instruction set.
//!
//! [`portable`] is the reference: plain loops over `u32`. The vector kernels in [`simd`] return the same bits for every
//! input, which tests check, so results never depend on the machine.
//!
//! Conventions: a *limb* is the run of `n` residues of one polynomial modulo one prime. Residues are
//! canonical (`[0, q)`) on entry and exit. Limbs in the evaluation domain are in Montgomery form.

pub(crate) mod digits;
pub(crate) mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "wasm32"))]
pub(crate) mod simd;
#[cfg(test)]
mod tests;

use crate::automorphism::Permutation;
use crate::kernels::digits::DigitTable;
use crate::modular::{Modulus, Shoup};
use crate::ntt::NttTable;

/// Residues per block of a gadget key: the two components alternate in blocks of this length, in the order in which the
/// inner product reads them.
pub const KEY_BLOCK: usize = 64;

/// Rows of a [`PackedMatrix`] that are multiplied together.
pub(crate) const MATRIX_TILE: usize = 4;

/// Most products of two 30-bit numbers that a 64-bit accumulator can hold before Montgomery reduction.
pub(crate) const LAZY_TERMS: usize = 12;

/// Residues per block of a table of polynomials ([`TableShape`](crate::TableShape)): a cache line.
pub(crate) const TABLE_BLOCK: usize = 16;

/// Columns per block of a table of bytes: a cache line.
pub const BYTE_BLOCK: usize = 64;

/// Most products of residues of a prime that a 64-bit accumulator can hold before Montgomery reduction.
pub(crate) fn lazy_terms(modulus: &Modulus) -> usize {
    ((3u64 << 32) / u64::from(modulus.q)) as usize
}

/// One target prime of a basis conversion: `out = (offset + sum_i source_i * factors_i) / R mod q`.
pub(crate) struct ConversionTarget {
    pub(crate) modulus: Modulus,
    /// Below `q`.
    pub(crate) offset: u32,
    pub(crate) factors: Vec<u32>,
}

/// A matrix of residues modulo one prime, packed `[row / 4][column][row % 4]` and padded with zero rows.
pub(crate) struct PackedMatrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) entries: Vec<u32>,
}

impl PackedMatrix {
    /// Number of packed entries, those of padding among them.
    pub(crate) fn entries(rows: usize, columns: usize) -> usize {
        rows.div_ceil(MATRIX_TILE) * columns * MATRIX_TILE
    }

    /// Packs `entry(row, column)`, each canonical.
    pub(crate) fn new(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> u32) -> Self {
        let entries = (0..Self::entries(rows, columns))
            .map(|i| {
                let (tile, rest) = (i / (columns * MATRIX_TILE), i % (columns * MATRIX_TILE));
                let (column, row) = (rest / MATRIX_TILE, tile * MATRIX_TILE + rest % MATRIX_TILE);
                if row < rows { entry(row, column) } else { 0 }
            })
            .collect();
        PackedMatrix { rows, columns, entries }
    }
}

/// The kernels of one instruction set.
///
/// Methods are called once per limb or per group of limbs, so the cost of dynamic dispatch is negligible. Slices given
/// together have equal lengths, a power of two of at least 512; callers guarantee it.
pub(crate) trait Kernels: Send + Sync {
    /// Number of lanes of 32 bits for which [`NttTable`] lays out its last stages; 1 for none.
    fn lanes(&self) -> usize;

    /// Forward transform of several limbs under one prime, in place. Inputs may be in `[0, 4q)`.
    fn ntt_forward(&self, table: &NttTable, limbs: &mut [&mut [u32]]);

    /// Inverse transform in place, times `scale` (which contains `1/n`).
    fn ntt_inverse(&self, table: &NttTable, limb: &mut [u32], scale: Shoup);

    /// Inverse transform of `source` into `target`, times `scale`.
    fn ntt_inverse_from(&self, table: &NttTable, source: &[u32], target: &mut [u32], scale: Shoup);

    /// In place, before the forward transform of the conjugate-invariant ring: `c_0 = a_0` and
    /// `c_i = a_i - imaginary a_(n-i)`. The network of the ring evaluates at roots of `X^n = imaginary`, where
    /// `X^-i = -imaginary X^(n-i)`; so `c` has there the values of `a_0 + sum_i a_i (X^i + X^-i)`.
    fn fold(&self, modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]);

    /// The inverse of [`Kernels::fold`]: `a_0 = c_0` and `a_i = (c_i + imaginary c_(n-i)) / 2`.
    fn unfold(&self, modulus: &Modulus, imaginary: Shoup, limb: &mut [u32]);

    /// `a += b`.
    fn add_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]);

    /// `a -= b`.
    fn sub_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]);

    /// `a = -a`.
    fn neg_assign(&self, modulus: &Modulus, a: &mut [u32]);

    /// `a *= w`.
    fn scale_assign(&self, modulus: &Modulus, a: &mut [u32], w: Shoup);

    /// `acc += a * w`.
    fn add_scaled_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], w: Shoup);

    /// `a += word` for every residue.
    fn add_word_assign(&self, modulus: &Modulus, a: &mut [u32], word: u32);

    /// `a = (a - b) * w`.
    fn sub_scale_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32], w: Shoup);

    /// `a = a * b / R`.
    fn mul_assign(&self, modulus: &Modulus, a: &mut [u32], b: &[u32]);

    /// `acc += a * b / R`.
    fn mul_add_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32]);

    /// `acc -= a * b / R`.
    fn mul_sub_assign(&self, modulus: &Modulus, acc: &mut [u32], a: &[u32], b: &[u32]);

    /// `out = source * w` for signed words.
    fn embed(&self, modulus: &Modulus, out: &mut [u32], source: &[i32], w: Shoup);

    /// `out = (low + 2^32 high) * w` for signed double words.
    fn embed_wide(&self, modulus: &Modulus, out: &mut [u32], low: &[u32], high: &[i32], w: Shoup);

    /// Appends words to `out`, from `filled` on, until `out` is full: each of `words`, in order, that is below `bound`
    /// after `mask` is applied. Returns the number of words in `out` afterwards. `bound` is below 2^31. `words` and
    /// `out` may have any length.
    fn select_below(&self, words: &[u32], mask: u32, bound: u32, out: &mut [u32], filled: usize) -> usize;

    /// Signed samples from a table of tails: the magnitude of a sample is the number of `tails` above `draw >> 1`, its
    /// sign is the lowest bit of the draw. In constant time. `tails` are below 2^63.
    fn tail_samples(&self, draws: &[u64], tails: &[u64], out: &mut [i32]);

    /// The tensor product over `R`: `(a0 b0, a0 b1 + a1 b0, a1 b1)`.
    fn tensor(&self, modulus: &Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3]);

    /// `target[i] = source[permutation(i)]`.
    fn permute(&self, permutation: &Permutation, source: &[u32], target: &mut [u32]);

    /// One basis conversion from `sources` to every target.
    fn convert(&self, sources: &[&[u32]], targets: &[ConversionTarget], outputs: &mut [&mut [u32]]);

    /// `out = floor(sum_i source_i * reciprocals_i / 2^shift + 1/2)`, at most 18 sources, terms below `2^shift`.
    fn quotient(&self, sources: &[&[u32]], reciprocals: &[u32], shift: u32, out: &mut [u32]);

    /// `out = sum_i a_i * b_i / R`, added to what `out` has if it has `begun`.
    fn dot(&self, modulus: &Modulus, a: &[&[u32]], b: &[&[u32]], out: &mut [u32], begun: bool);

    /// As [`Kernels::dot`], where `a` has one word for each `run` words of `b`. `run` is a multiple of the lanes.
    fn dot_runs(&self, modulus: &Modulus, a: &[&[u32]], run: usize, b: &[&[u32]], out: &mut [u32], begun: bool);

    /// `out_c = sum_d digit_d * key_{d,c} / R` for both components `c` of a gadget key.
    ///
    /// `key[d]` holds digit `d` for this prime: blocks of [`KEY_BLOCK`] residues of component 0, then of component 1.
    fn inner_product(&self, modulus: &Modulus, digits: &[&[u32]], key: &[&[u32]], out: [&mut [u32]; 2]);

    /// Decomposes coefficients, given by their residues modulo one or two primes, into signed digits. `outputs` has for
    /// each of `moduli` the digits from the lowest, as residues.
    fn signed_digits(&self, residues: &[&[u32]], table: &DigitTable, moduli: &[Modulus], outputs: &mut [&mut [u32]]);

    /// The values of `X^exponent - 1` in the order of the evaluation domain, for the ring of degree `n = out.len()`
    /// whose `2n`-th root of unity has these `powers`. Both are in Montgomery form.
    fn rotation_difference(&self, modulus: &Modulus, powers: &[u32], exponent: u32, out: &mut [u32]);

    /// `sums_c = sum_r entries_r * factors_{r,c} / R` for one block of residues: `entries` are a block of each row,
    /// `factors` for each row a block of both components, `sums` a block of both components.
    fn table_sum(&self, modulus: &Modulus, entries: &[u32], factors: &[u32], sums: &mut [u32]);

    /// `sums_j = sum_i factors_i,j * key_(i+j) / R` for one block of residues: `factors` are a block of each factor,
    /// `key` is a window of residues, one fewer than there are factors and residues in a block.
    fn window_sum(&self, modulus: &Modulus, factors: &[u32], key: &[u32], sums: &mut [u32]);

    /// `sums_q,c += sum_r bytes_r,c * factors_q,r` modulo 2^32 for one block of columns of signed bytes and the factors
    /// of several queries, one for each row.
    fn byte_sum(&self, bytes: &[u8], factors: &[&[u32]], sums: &mut [[u32; BYTE_BLOCK]]);

    /// `output_r = sum_c matrix[r][c] * input_c` (no Montgomery factor: the form of the inputs is kept).
    fn matrix_product(&self, modulus: &Modulus, matrix: &PackedMatrix, inputs: &[&[u32]], outputs: &mut [&mut [u32]]);
}
