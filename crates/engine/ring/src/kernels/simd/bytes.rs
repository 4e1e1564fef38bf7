//! Sums of signed bytes times words, modulo 2^32.

use super::vector::Vector;
use crate::kernels::BYTE_BLOCK;

/// Most queries for which a block is read once.
const QUERIES: usize = 4;

/// See [`Kernels::byte_sum`](crate::kernels::Kernels::byte_sum). The rows are read once for up to four queries. Their
/// sums stay in registers.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector>(bytes: &[u8], factors: &[&[u32]], sums: &mut [[u32; BYTE_BLOCK]]) {
    assert!(factors.len() == sums.len());
    for (factors, sums) in factors.chunks(QUERIES).zip(sums.chunks_mut(QUERIES)) {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            match (factors, sums) {
                ([a], [u]) => queries::<V, 1>(bytes, [a], [u]),
                ([a, b], [u, v]) => queries::<V, 2>(bytes, [a, b], [u, v]),
                ([a, b, c], [u, v, w]) => queries::<V, 3>(bytes, [a, b, c], [u, v, w]),
                ([a, b, c, d], [u, v, w, x]) => queries::<V, 4>(bytes, [a, b, c, d], [u, v, w, x]),
                _ => unreachable!("chunks of one to four"),
            }
        }
    }
}

/// The sums of `Q` queries. Columns are summed together in groups that fit the registers.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn queries<V: Vector, const Q: usize>(bytes: &[u8], factors: [&[u32]; Q], sums: [&mut [u32; BYTE_BLOCK]; Q]) {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        match V::LANES {
            // 32 registers of 16 lanes: all columns at once.
            16 => columns::<V, Q, 4>(bytes, factors, sums),
            // 16 registers of 8 lanes.
            _ if Q == 1 => columns::<V, Q, 8>(bytes, factors, sums),
            _ => columns::<V, Q, 2>(bytes, factors, sums),
        }
    }
}

/// The sums of `Q` queries, `R` registers of columns at a time.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn columns<V: Vector, const Q: usize, const R: usize>(
    bytes: &[u8],
    factors: [&[u32]; Q],
    mut sums: [&mut [u32; BYTE_BLOCK]; Q],
) {
    let rows = bytes.len() / BYTE_BLOCK;
    assert!(bytes.len() == rows * BYTE_BLOCK && factors.iter().all(|factors| factors.len() == rows));
    assert!(BYTE_BLOCK.is_multiple_of(R * V::LANES));
    // SAFETY: the caller vouches for the instruction set; the lengths are checked.
    unsafe {
        for first in (0..BYTE_BLOCK).step_by(R * V::LANES) {
            let mut totals = [[V::splat(0); Q]; R];
            for (r, totals) in totals.iter_mut().enumerate() {
                let at = first + r * V::LANES;
                totals.iter_mut().zip(&sums).for_each(|(total, sums)| *total = V::load(&sums[..], at));
            }
            for row in 0..rows {
                let words: [V; Q] = std::array::from_fn(|q| V::splat(*factors[q].get_unchecked(row)));
                for (r, totals) in totals.iter_mut().enumerate() {
                    let source = bytes.as_ptr().add(row * BYTE_BLOCK + first + r * V::LANES);
                    let values = V::load_bytes_from(source);
                    for (total, word) in totals.iter_mut().zip(words) {
                        *total = total.add(values.mul_low(word));
                    }
                }
            }
            for (r, totals) in totals.iter().enumerate() {
                let at = first + r * V::LANES;
                totals.iter().zip(&mut sums).for_each(|(total, sums)| total.store(&mut sums[..], at));
            }
        }
    }
}
