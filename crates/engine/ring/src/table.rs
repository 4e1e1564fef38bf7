//! Tables of plaintext polynomials, stored in the order in which sums over their rows read them.
//!
//! A table has `rows * columns` polynomials in the evaluation domain. Its words may be in any memory, such as a mapped
//! file. Their order is: for each prime and each [`TABLE_BLOCK`] of residues, for each column, for each row, that block
//! of that entry. So a sum reads the table once from the first word to the last, while the factors stay in the cache.

use std::fmt;
use std::ops::Range;

use rayon::prelude::*;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kernels::TABLE_BLOCK;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::stored::Stored;

/// The operation, as errors name it.
const OPERATION: &str = "sum over a table";

/// The shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Number of polynomials in each sum.
    pub rows: usize,
    /// Number of sums.
    pub columns: usize,
    /// Number of chain primes.
    pub chain: usize,
}

impl TableShape {
    /// Number of words of one prime and one block of residues. A table is a sequence of such units; consecutive columns
    /// are one run of words in each unit.
    pub fn unit(&self) -> usize {
        self.rows * self.columns * TABLE_BLOCK
    }

    fn basis(&self) -> Basis {
        Basis::chain(self.chain)
    }
}

/// The factors of sums over a table, in the order in which the sums read them: for each prime and each block of
/// residues, for each row, that block of both components. On a device they are limbs: for each prime, for each row,
/// both components.
pub struct TableFactors {
    pub(crate) words: Words,
    rows: usize,
    chain: usize,
}

impl fmt::Debug for TableFactors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFactors").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Ring {
    /// Number of words of a table.
    pub fn table_words(&self, shape: TableShape) -> usize {
        shape.rows * shape.columns * shape.chain * self.degree()
    }

    /// Writes an entry of a table.
    ///
    /// # Errors
    /// If the words are not a table of this shape, the entry is outside it, or the polynomial is in the coefficient
    /// domain or over other primes.
    pub fn write_table_entry(
        &self,
        shape: TableShape,
        words: &mut [u32],
        (row, column): (usize, usize),
        poly: &Poly,
    ) -> Result<(), RingError> {
        self.check_table(shape, words)?;
        for (what, found, end) in [("row of a table", row, shape.rows), ("column of a table", column, shape.columns)] {
            if found >= end {
                return Err(RingError::Length { what, found, needed: "a number within the shape" });
            }
        }
        self.check_values("write an entry of a table", poly, shape.basis())?;
        let poly = &*self.here(poly)?;
        let blocks = self.degree() / TABLE_BLOCK;
        for (number, unit) in words.chunks_exact_mut(shape.unit()).enumerate() {
            let target = &mut unit[(column * shape.rows + row) * TABLE_BLOCK..][..TABLE_BLOCK];
            let at = number % blocks * TABLE_BLOCK;
            target.copy_from_slice(&poly.limb(number / blocks)[at..at + TABLE_BLOCK]);
        }
        Ok(())
    }

    /// Arranges the factors of sums over a table, a pair for each row, for any number of calls of
    /// [`Ring::table_sums`].
    ///
    /// # Errors
    /// If there is no row, or a factor is in the coefficient domain or over other than `chain` chain primes.
    pub fn table_factors(&self, chain: usize, factors: &[[&Poly; 2]]) -> Result<TableFactors, RingError> {
        let polys = || factors.iter().flatten();
        polys().try_for_each(|poly| self.check_values(OPERATION, poly, Basis::chain(chain)))?;
        let (blocks, unit) = (self.degree() / TABLE_BLOCK, 2 * factors.len() * TABLE_BLOCK);
        if unit == 0 {
            return Err(RingError::Length {
                what: "the factors of a table",
                found: 0,
                needed: "one pair for each row",
            });
        }
        if let Some(on) = self.on() {
            return Ok(TableFactors { words: on.table_factors(self, chain, factors)?, rows: factors.len(), chain });
        }
        let mut words = self.scratch(chain * blocks * unit, polys().any(|factor| factor.is_secret()));
        let here = self.all_here(polys().copied())?;
        for (number, unit) in words.chunks_exact_mut(unit).enumerate() {
            let (prime, at) = (number / blocks, number % blocks * TABLE_BLOCK);
            for (target, poly) in unit.chunks_exact_mut(TABLE_BLOCK).zip(&here) {
                target.copy_from_slice(&poly.limb(prime)[at..at + TABLE_BLOCK]);
            }
        }
        Ok(TableFactors { words, rows: factors.len(), chain })
    }

    /// For each of the given columns, the pair of sums `sum_row factor_row,c * entry(row, column)` over both components
    /// `c`, in the evaluation domain. Runs on all threads. Words that are not below their prime give wrong sums but are
    /// memory-safe.
    ///
    /// # Errors
    /// If the words are not a table of this shape, a column is outside it, or the factors are of another ring, other
    /// primes or another number of rows.
    pub fn table_sums(
        &self,
        shape: TableShape,
        words: Stored<'_, u32>,
        columns: Range<usize>,
        factors: &TableFactors,
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        self.check_table(shape, words.items)?;
        if columns.start > columns.end || columns.end > shape.columns {
            let (what, found) = ("the last column of a sum", columns.end);
            return Err(RingError::Length { what, found, needed: "a number within the shape" });
        }
        self.check_words(OPERATION, &factors.words)?;
        if factors.chain != shape.chain {
            let (found, needed) = (Basis::chain(factors.chain), shape.basis());
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        if factors.rows != shape.rows {
            let (what, found) = ("the factors of a table", factors.rows);
            return Err(RingError::Length { what, found, needed: "one pair for each row" });
        }
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(on) = self.on() {
            return on.table_sums(self, (shape, words), columns, factors);
        }
        let (blocks, secret) = (self.degree() / TABLE_BLOCK, factors.words.is_secret());
        let (column, pair) = (shape.rows * TABLE_BLOCK, 2 * TABLE_BLOCK);
        // For each unit the sums of its columns.
        let mut sums = self.scratch(shape.chain * blocks * columns.len() * pair, secret);
        let units = words.items.par_chunks_exact(shape.unit()).zip(factors.words.par_chunks_exact(2 * column));
        let targets = sums.par_chunks_exact_mut(columns.len() * pair);
        units.zip(targets).enumerate().for_each(|(number, ((unit, factors), sums))| {
            let modulus = self.modulus(number / blocks);
            let chosen = &unit[columns.start * column..columns.end * column];
            for (entries, sums) in chosen.chunks_exact(column).zip(sums.chunks_exact_mut(pair)) {
                self.kernels().table_sum(modulus, entries, factors, sums);
            }
        });
        let gather = |column: usize| {
            let mut polys: [Poly; 2] = std::array::from_fn(|_| self.blank(shape.basis(), Domain::Evaluation));
            polys.iter_mut().for_each(|poly| poly.words.inherit(secret));
            for (number, sums) in sums.chunks_exact(columns.len() * pair).enumerate() {
                let (prime, at) = (number / blocks, number % blocks * TABLE_BLOCK);
                for (component, poly) in polys.iter_mut().enumerate() {
                    let from = column * pair + component * TABLE_BLOCK;
                    poly.limb_mut(prime)[at..at + TABLE_BLOCK].copy_from_slice(&sums[from..from + TABLE_BLOCK]);
                }
            }
            polys
        };
        Ok((0..columns.len()).into_par_iter().map(gather).collect())
    }

    fn check_table(&self, shape: TableShape, words: &[u32]) -> Result<(), RingError> {
        let fits = (1..=self.chain().len()).contains(&shape.chain) && shape.rows > 0 && shape.columns > 0;
        if fits && words.len() == self.table_words(shape) {
            return Ok(());
        }
        Err(RingError::Length { what: "the words of a table", found: words.len(), needed: "the words of its shape" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::primes_descending;
    use crate::{Backend, DeviceCopy, RingKind, RingLiteral, SecretRng};

    fn ring(backend: Backend, bits: u32) -> Ring {
        let chain = primes_descending(1 << (bits - 1), 1 << bits, 1024).take(2).collect();
        let literal = RingLiteral {
            degree: 512,
            kind: RingKind::Standard,
            chain,
            terminal: vec![],
            special: vec![],
            digit_len: 1,
        };
        Ring::new(literal, backend).unwrap()
    }

    fn residues(ring: &Ring, poly: &Poly) -> Vec<u8> {
        let mut bytes = Vec::new();
        ring.write_residues(poly, &mut bytes);
        bytes
    }

    #[test]
    fn sums_are_those_of_products() {
        for (backend, bits) in Backend::ALL.into_iter().filter(|b| b.is_available()).flat_map(|b| [(b, 26), (b, 30)]) {
            let ring = ring(backend, bits);
            let seed = SecretRng::insecure_from_seed(3).seed();
            let shape = TableShape { rows: 35, columns: 3, chain: 2 };
            let mut words = vec![7; ring.table_words(shape)];
            let entry = |row: usize, column: usize| ring.uniform(&seed, (row * 3 + column) as u32, Basis::chain(2));
            for (row, column) in (0..35).flat_map(|row| (0..3).map(move |column| (row, column))) {
                ring.write_table_entry(shape, &mut words, (row, column), &entry(row, column)).unwrap();
            }
            let factors: Vec<[Poly; 2]> = (0..70)
                .map(|i| ring.uniform(&seed, 1000 + i, Basis::chain(2)))
                .collect::<Vec<_>>()
                .chunks(2)
                .map(|pair| [pair[0].clone(), pair[1].clone()])
                .collect();
            let views: Vec<[&Poly; 2]> = factors.iter().map(|[a, b]| [a, b]).collect();
            let arranged = ring.table_factors(2, &views).unwrap();
            let copy = DeviceCopy::default();
            let words = Stored::new(&words, &copy);
            let mut sums = ring.table_sums(shape, words, 0..2, &arranged).unwrap();
            sums.extend(ring.table_sums(shape, words, 2..3, &arranged).unwrap());
            assert_eq!(sums.len(), 3);
            for (column, sum) in sums.iter().enumerate() {
                for component in 0..2 {
                    let mut expected = ring.zero(Basis::chain(2), Domain::Evaluation);
                    for (row, factor) in factors.iter().enumerate() {
                        ring.mul_add_assign(&mut expected, &factor[component], &entry(row, column)).unwrap();
                    }
                    assert_eq!(residues(&ring, &sum[component]), residues(&ring, &expected), "{backend:?} {bits}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ring = ring(Backend::detect(), 26);
        let shape = TableShape { rows: 2, columns: 1, chain: 1 };
        let mut words = vec![0; ring.table_words(shape)];
        let poly = ring.zero(Basis::chain(1), Domain::Evaluation);
        assert!(ring.write_table_entry(shape, &mut words, (2, 0), &poly).is_err());
        assert!(ring.write_table_entry(shape, &mut words[1..], (0, 0), &poly).is_err());
        let wide = ring.zero(Basis::chain(2), Domain::Evaluation);
        assert!(matches!(ring.write_table_entry(shape, &mut words, (0, 0), &wide), Err(RingError::Basis { .. })));
        let copy = DeviceCopy::default();
        let words = Stored::new(&words, &copy);
        for (columns, rows) in [(0..1, 1), (0..2, 2), (1..2, 2)] {
            let factors = ring.table_factors(1, &vec![[&poly, &poly]; rows]).unwrap();
            assert!(matches!(ring.table_sums(shape, words, columns, &factors), Err(RingError::Length { .. })));
        }
        let factors = ring.table_factors(1, &[[&poly, &poly]; 2]).unwrap();
        assert!(ring.table_sums(shape, words, 1..1, &factors).unwrap().is_empty());
        assert!(matches!(ring.table_factors(1, &[]), Err(RingError::Length { .. })));
        assert!(matches!(ring.table_factors(2, &[[&poly, &poly]]), Err(RingError::Basis { .. })));
        let wide = ring.table_factors(2, &[[&wide, &wide]; 2]).unwrap();
        assert!(matches!(ring.table_sums(shape, words, 0..1, &wide), Err(RingError::Basis { .. })));
        let other = self::ring(Backend::detect(), 26);
        let zero = other.zero(Basis::chain(1), Domain::Evaluation);
        let foreign = other.table_factors(1, &[[&zero, &zero]; 2]).unwrap();
        assert!(matches!(ring.table_sums(shape, words, 0..1, &foreign), Err(RingError::ForeignOperand { .. })));
    }
}
