//! The product of a matrix of residues with a column of limbs.

use super::prefetch::prefetch;
use super::vector::{Factor, Prime, Vector, Wide};
use crate::kernels::{MATRIX_TILE, PackedMatrix};
use crate::modular::Modulus;

/// Residues of each input that are packed together: a cache line.
const STRIP: usize = 16;

/// Number of products of two residues below `2^30` that can be added to a sum below `2^63`, with a result that is below
/// twice a multiple of `q` just below `2^63`: `8 (2^30 - 2)^2 < 2^63 - 2^32`.
const TERMS: usize = 8;

/// `output_r = sum_c matrix[r][c] * input_c`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn product<V: Vector>(
    modulus: &Modulus,
    matrix: &PackedMatrix,
    inputs: &[&[u32]],
    outputs: &mut [&mut [u32]],
) {
    let Some(length) = outputs.first().map(|output| output.len()) else { return };
    assert!(length.is_multiple_of(STRIP) && STRIP.is_multiple_of(V::LANES));
    assert!(matrix.rows == outputs.len() && matrix.columns == inputs.len());
    assert!(matrix.entries.len() == matrix.rows.div_ceil(MATRIX_TILE) * matrix.columns * MATRIX_TILE);
    assert!(inputs.iter().all(|input| input.len() == length) && outputs.iter().all(|output| output.len() == length));
    if inputs.is_empty() {
        return outputs.iter_mut().for_each(|output| output.fill(0));
    }
    let mut packed = vec![0; inputs.len() * STRIP];
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        let reduction = Reduction::<V>::new(modulus);
        for x in (0..length).step_by(STRIP) {
            for (strip, input) in packed.chunks_exact_mut(STRIP).zip(inputs) {
                strip.copy_from_slice(&input[x..x + STRIP]);
                prefetch(input, x + STRIP, STRIP);
            }
            let tiles = matrix.entries.chunks_exact(matrix.columns * MATRIX_TILE);
            for (tile, outputs) in tiles.zip(outputs.chunks_mut(MATRIX_TILE)) {
                for offset in (0..STRIP).step_by(V::LANES) {
                    let results = reduction.tile_product(tile, &packed, offset);
                    for (output, result) in outputs.iter_mut().zip(results) {
                        result.store(output, x + offset);
                    }
                }
            }
        }
    }
}

/// The constants that keep sums of products within 64 bits and reduce them to residues.
struct Reduction<V: Vector> {
    prime: Prime<V>,
    zero: V,
    /// A multiple of `q` just below `2^63`.
    multiple: V,
    /// `R mod q`, which undoes the factor of Montgomery reduction.
    radix: Factor<V>,
}

impl<V: Vector> Reduction<V> {
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn new(modulus: &Modulus) -> Self {
        let q = u64::from(modulus.q);
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            Reduction {
                prime: Prime::new(modulus),
                zero: V::splat(0),
                multiple: V::splat64((1 << 63) / q * q),
                radix: Factor::splat(modulus.shoup(modulus.r)),
            }
        }
    }

    /// Four rows times one vector of columns of the packed strip.
    ///
    /// # Safety
    /// `tile` has [`MATRIX_TILE`] entries for every [`STRIP`] words of `packed`, and `offset + LANES <= STRIP`.
    #[inline(always)]
    unsafe fn tile_product(&self, tile: &[u32], packed: &[u32], offset: usize) -> [V; MATRIX_TILE] {
        let mut sums = [Wide(self.zero, self.zero); MATRIX_TILE];
        let (tiles, strips) = (tile.chunks_exact(TERMS * MATRIX_TILE), packed.chunks_exact(TERMS * STRIP));
        let (last_tile, last_strip) = (tiles.remainder(), strips.remainder());
        for (tile, strip) in tiles.zip(strips) {
            for k in 0..TERMS {
                // SAFETY: the caller vouches for the offset.
                unsafe { accumulate(&mut sums, &tile[k * MATRIX_TILE..], &strip[k * STRIP..], offset) };
            }
            self.fold(&mut sums);
        }
        for (tile, strip) in last_tile.chunks_exact(MATRIX_TILE).zip(last_strip.chunks_exact(STRIP)) {
            // SAFETY: the caller vouches for the offset.
            unsafe { accumulate(&mut sums, tile, strip, offset) };
        }
        self.fold(&mut sums);
        let mut results = [self.zero; MATRIX_TILE];
        for r in 0..MATRIX_TILE {
            results[r] = self.prime.mul(self.prime.montgomery_lazy(sums[r]), self.radix);
        }
        results
    }

    /// Reduces sums below `2^63`, so that [`TERMS`] more products can be added.
    #[inline(always)]
    fn fold(&self, sums: &mut [Wide<V>; MATRIX_TILE]) {
        for sum in sums {
            *sum = sum.reduce(self.multiple);
        }
    }
}

/// Adds the products of one input with the entries of its column.
///
/// # Safety
/// `tile` has at least [`MATRIX_TILE`] entries, `strip` at least [`STRIP`] words, and `offset + LANES <= STRIP`.
#[inline(always)]
unsafe fn accumulate<V: Vector>(sums: &mut [Wide<V>; MATRIX_TILE], tile: &[u32], strip: &[u32], offset: usize) {
    // SAFETY: the caller vouches for the lengths and the offset, `sums` for the instruction set.
    let input = unsafe { V::load(strip, offset) }.operand();
    for (sum, &entry) in sums.iter_mut().zip(&tile[..MATRIX_TILE]) {
        // SAFETY: `sums` holds values of `V`.
        let entry = unsafe { V::splat(entry) };
        *sum = sum.add_multiple(input, entry);
    }
}
