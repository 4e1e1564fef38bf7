//! Tables of signed bytes that are multiplied by words modulo 2^32, for the first step of private retrieval from large
//! databases (Henzinger et al., "SimplePIR", USENIX Security 2023).

use rayon::prelude::*;

use crate::backend::Backend;
use crate::basis::{Basis, Domain};
use crate::error::RingError;
pub use crate::kernels::BYTE_BLOCK;
use crate::kernels::portable;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::stored::Stored;

/// Rows of a block that several queries read while they are in the cache.
const ROWS: usize = 1024;

/// The number of rows of factors is filled up to a multiple of this number.
const ALIGNED_ROWS: usize = 4;

/// The words that some queries multiply the rows of tables of bytes with, as fractions of 2^32.
pub struct ByteFactors {
    /// For each query, the words of all rows, then zeros.
    pub(crate) words: Words,
    rows: usize,
    queries: usize,
}

impl std::fmt::Debug for ByteFactors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteFactors").field("rows", &self.rows).field("queries", &self.queries).finish_non_exhaustive()
    }
}

impl ByteFactors {
    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Words from the first factor of a query to the first of the next query.
    pub(crate) fn stride(&self) -> usize {
        self.rows.next_multiple_of(ALIGNED_ROWS)
    }

    fn each(&self) -> Vec<&[u32]> {
        self.words.chunks_exact(self.stride().max(1)).map(|words| &words[..self.rows]).collect()
    }
}

/// Changes of bytes of a table since it was written, which are added to its sums.
#[derive(Clone, Debug)]
pub struct ByteChanges {
    /// For each change its row, and the column of its first difference.
    places: Vec<[u32; 2]>,
    /// The same number of differences for each change.
    differences: Vec<i16>,
    length: usize,
    step: usize,
}

impl ByteChanges {
    /// No changes yet. Each will be of `length` bytes, whose columns are `step` apart.
    pub fn new(length: usize, step: usize) -> Self {
        ByteChanges { places: Vec::new(), differences: Vec::new(), length, step }
    }

    /// Adds a change: for bytes of a row, from the column `first` on, by how much they grow, as signed numbers.
    ///
    /// # Errors
    /// If there are more or fewer differences than all changes have.
    pub fn push(&mut self, (row, first): (usize, usize), differences: &[i16]) -> Result<(), RingError> {
        if differences.len() != self.length {
            let (what, found) = ("the differences of changed bytes", differences.len());
            return Err(RingError::Length { what, found, needed: "as many for each change" });
        }
        self.places.push([row as u32, first as u32]);
        self.differences.extend_from_slice(differences);
        Ok(())
    }

    pub(crate) fn places(&self) -> &[[u32; 2]] {
        &self.places
    }

    pub(crate) fn differences(&self) -> &[i16] {
        &self.differences
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// Whether all changes are within the first `rows` rows and `columns` columns.
    fn fits(&self, rows: usize, columns: usize) -> bool {
        let last = (self.length.max(1) - 1) * self.step;
        self.places.iter().all(|&[row, first]| (row as usize) < rows && first as usize + last < columns)
    }

    /// Adds the changes to the sums of a query.
    fn add_to(&self, sums: &mut [u32], factors: &[u32]) {
        for (&[row, first], differences) in self.places.iter().zip(self.differences.chunks_exact(self.length.max(1))) {
            let columns = sums.iter_mut().skip(first as usize).step_by(self.step.max(1));
            for (sum, &difference) in columns.zip(differences) {
                let difference = i32::from(difference).cast_unsigned();
                *sum = sum.wrapping_add(factors[row as usize].wrapping_mul(difference));
            }
        }
    }
}

const OPERATION: &str = "sum over a table of bytes";

impl Ring {
    /// Arranges the words of some queries, one for each row of a table: fractions of `2^bits`, for 1 to 32 bits.
    ///
    /// # Errors
    /// If queries have different numbers of words.
    pub fn byte_factors(&self, words: &[&[u32]], bits: u32) -> Result<ByteFactors, RingError> {
        let rows = words.first().map_or(0, |words| words.len());
        if let Some(found) = words.iter().map(|words| words.len()).find(|&found| found != rows) {
            let what = "the words of a query to a table of bytes";
            return Err(RingError::Length { what, found, needed: "as many as the others have" });
        }
        let (queries, stride) = (words.len(), rows.next_multiple_of(ALIGNED_ROWS));
        let mut factors = self.scratch(queries * stride, false);
        let shift = u32::BITS - bits.clamp(1, u32::BITS);
        for (factors, words) in factors.chunks_exact_mut(stride.max(1)).zip(words) {
            let (factors, rest) = factors.split_at_mut(rows);
            factors.iter_mut().zip(*words).for_each(|(factor, word)| *factor = word << shift);
            rest.fill(0);
        }
        Ok(ByteFactors { words: factors, rows, queries })
    }

    /// For each query the sums over rows of a table of signed bytes times its words, a fraction of 2^32 for each
    /// column, rounded to fractions of the modulus: a polynomial over all primes of the chain, in the evaluation
    /// domain. The table has one column for each coefficient of the ring. Its bytes are, for each block of
    /// [`BYTE_BLOCK`] columns and each row, the columns of the block. The table is read once for several queries. Runs
    /// on all threads.
    ///
    /// # Errors
    /// If the bytes are not a table of the factors' rows, a change is outside it, or the modulus has more than 63 bits.
    pub fn byte_sums(
        &self,
        bytes: Stored<'_, u8>,
        factors: &ByteFactors,
        changes: &ByteChanges,
    ) -> Result<Vec<Poly>, RingError> {
        self.check_words(OPERATION, &factors.words)?;
        if factors.queries == 0 {
            return Ok(Vec::new());
        }
        let (rows, n, found) = (factors.rows, self.degree(), bytes.items.len());
        if found != rows * n {
            return Err(RingError::Length { what: "the bytes of a table", found, needed: "a column per coefficient" });
        }
        if !changes.fits(rows, n) {
            let (what, found) = ("the changes of a table of bytes", changes.places.len());
            return Err(RingError::Length { what, found, needed: "changes within the table" });
        }
        let modulus = self.chain().iter().try_fold(1u64, |product, &q| product.checked_mul(q.into()));
        let Some(modulus) = modulus.filter(|&modulus| modulus < 1 << 63) else {
            let (what, found) = ("the chain of sums over bytes", self.chain().len());
            return Err(RingError::Length { what, found, needed: "primes of 63 bits together" });
        };
        if rows == 0 {
            return Ok((0..factors.queries).map(|_| self.zero(self.whole_chain(), Domain::Evaluation)).collect());
        }
        if let Some(on) = self.on() {
            return on.byte_sums(self, bytes, factors, (changes, modulus));
        }
        let each = factors.each();
        let blocks = bytes.items.par_chunks(rows * BYTE_BLOCK).map(|bytes| block_sums(self.backend(), bytes, &each));
        let blocks: Vec<Vec<[u32; BYTE_BLOCK]>> = blocks.collect::<Result<_, _>>()?;
        let raised = |sum: u32| ((u128::from(sum) * u128::from(modulus) + (1 << 31)) >> 32) as i64;
        let poly = |(query, factors): (usize, &&[u32])| {
            let mut sums: Vec<u32> = blocks.iter().flat_map(|block| block[query]).collect();
            changes.add_to(&mut sums, factors);
            let sums: Vec<i64> = sums.into_iter().map(raised).collect();
            self.evaluate_i64(&sums, self.whole_chain())
        };
        each.par_iter().enumerate().map(poly).collect()
    }

    fn whole_chain(&self) -> Basis {
        Basis::chain(self.chain().len())
    }
}

/// For each of some queries, the sums over all rows of a block of [`BYTE_BLOCK`] columns: `sum_r bytes_(r,c) *
/// factor_r` modulo 2^32 for each column `c`. `bytes` are the signed bytes of the block, row by row, and each query has
/// one factor for each row. The block is read once for all queries.
///
/// # Errors
/// If the bytes are not whole rows, or a query has another number of factors.
fn block_sums(backend: Backend, bytes: &[u8], factors: &[&[u32]]) -> Result<Vec<[u32; BYTE_BLOCK]>, RingError> {
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
                    let found = block_sums(backend, &bytes, &views).unwrap();
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
        assert!(block_sums(Backend::detect(), &[0; 2 * BYTE_BLOCK], &[&[1]]).is_err());
        assert!(block_sums(Backend::detect(), &[0; BYTE_BLOCK + 1], &[&[1]]).is_err());
        assert!(block_sums(Backend::detect(), &[0; BYTE_BLOCK + 1], &[]).is_err());
    }
}
