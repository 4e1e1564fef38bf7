//! Tables of signed bytes that are multiplied by words modulo 2^32, for the first step of private retrieval from large
//! databases (Henzinger et al., "SimplePIR", USENIX Security 2023).

use crate::error::RingError;
pub use crate::kernels::BYTE_BLOCK;
use crate::kernels::{Backend, portable};

/// Rows of a block that several queries read while they are in the cache.
const ROWS: usize = 1024;

/// For each of some queries, the sums over all rows of a block of [`BYTE_BLOCK`] columns: `sum_r bytes_(r,c) *
/// factor_r` modulo 2^32 for each column `c`. `bytes` are the signed bytes of the block, row by row, and each query has
/// one factor for each row. The block is read once for all queries.
///
/// # Errors
/// If the bytes are not whole rows, or a query has another number of factors.
pub fn byte_sums(backend: Backend, bytes: &[u8], factors: &[&[u32]]) -> Result<Vec<[u32; BYTE_BLOCK]>, RingError> {
    let rows = bytes.len() / BYTE_BLOCK;
    if !bytes.len().is_multiple_of(BYTE_BLOCK) {
        let (what, found) = ("the bytes of a block", bytes.len());
        return Err(RingError::Length { what, found, needed: "whole rows" });
    }
    if let Some(found) = factors.iter().map(|factors| factors.len()).find(|&found| found * BYTE_BLOCK != bytes.len()) {
        let what = "the factors of a table of bytes";
        return Err(RingError::Length { what, found, needed: "one for each row" });
    }
    let kernels = backend.kernels().unwrap_or(&portable::Portable);
    let mut sums = vec![[0; BYTE_BLOCK]; factors.len()];
    for first in (0..rows).step_by(ROWS) {
        let chunk = first..rows.min(first + ROWS);
        let factors: Vec<&[u32]> = factors.iter().map(|factors| &factors[chunk.clone()]).collect();
        kernels.byte_sum(&bytes[chunk.start * BYTE_BLOCK..chunk.end * BYTE_BLOCK], &factors, &mut sums);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_products() {
        let byte = |i: usize| (i as u32).wrapping_mul(0x9E37_79B1).to_le_bytes()[3];
        for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
            for rows in [0, 1, 5, ROWS + 3] {
                let bytes: Vec<u8> = (0..rows * BYTE_BLOCK).map(byte).collect();
                for queries in 0..7u32 {
                    let factors: Vec<Vec<u32>> = (0..queries)
                        .map(|query| (0..rows as u32).map(|i| (i + query + 1).wrapping_mul(0x85EB_CA6B)).collect())
                        .collect();
                    let views: Vec<&[u32]> = factors.iter().map(Vec::as_slice).collect();
                    let found = byte_sums(backend, &bytes, &views).unwrap();
                    assert_eq!(found.len(), factors.len());
                    for (found, factors) in found.iter().zip(&factors) {
                        for (column, sum) in found.iter().enumerate() {
                            let term = |row: usize| {
                                let byte = i64::from(bytes[row * BYTE_BLOCK + column] as i8);
                                byte * i64::from(factors[row])
                            };
                            assert_eq!(*sum, (0..rows).map(term).sum::<i64>() as u32, "{backend:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn other_numbers_of_factors_are_refused() {
        assert!(byte_sums(Backend::detect(), &[0; 2 * BYTE_BLOCK], &[&[1]]).is_err());
        assert!(byte_sums(Backend::detect(), &[0; BYTE_BLOCK + 1], &[&[1]]).is_err());
        assert!(byte_sums(Backend::detect(), &[0; BYTE_BLOCK + 1], &[]).is_err());
    }
}
