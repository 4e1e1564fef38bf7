//! Giant steps: each row is a sum over groups of a combination of babies times a giant, relinearised once.

use std::ops::Range;

use unspoken_ckks::{Arithmetic, CkksError, Complex64, PreparedMatrix};

use crate::compiler::{Compiler, bytes_of};
use crate::error::LookupError;

/// Maximum number of inner combinations in memory at the same time.
const BLOCK_VECTORS: usize = 64;

/// Number of rows of a block, for rows with this number of groups.
pub(crate) fn block_rows(groups: usize) -> usize {
    (BLOCK_VECTORS / groups).max(1)
}

/// A block of rows, whose inner combinations are in memory at the same time.
pub(crate) struct RowBlock {
    rows: usize,
    /// Per subtable: a matrix with one row per group and table row, group by group.
    matrices: Vec<PreparedMatrix>,
    /// Per subtable, in the order of the rows of the matrix: the constant added to each combination, except the
    /// combinations of group 0.
    constants: Vec<Vec<f64>>,
    /// Per row: the sum of the constants of group 0 of all subtables, which is added at the end.
    sums: Vec<f64>,
}

/// The coefficients of the groups, and the levels and scales of their combinations.
pub(crate) struct Groups<E, C> {
    /// Number of rows of the output.
    pub(crate) rows: usize,
    /// The level of the combinations and of their products with the giants.
    pub(crate) level: usize,
    /// Scales of the babies, one per column.
    pub(crate) babies: Vec<f64>,
    /// Scale of the combinations of each group.
    pub(crate) scales: Vec<f64>,
    /// Coefficient for a subtable, row, group and column.
    pub(crate) entry: E,
    /// Constant for a subtable, row and group.
    pub(crate) constant: C,
}

impl<E, C> Groups<E, C>
where
    E: Fn(usize, usize, usize, usize) -> Complex64,
    C: Fn(usize, usize, usize) -> f64,
{
    /// Splits the rows into blocks.
    ///
    /// # Errors
    /// If a coefficient does not fit its scale.
    pub(crate) fn blocks(&self, compiler: &Compiler<'_>) -> Result<Vec<RowBlock>, LookupError> {
        let per_block = block_rows(self.scales.len());
        let starts = (0..self.rows).step_by(per_block);
        starts.map(|first| self.block(compiler, first..self.rows.min(first + per_block))).collect()
    }

    fn block(&self, compiler: &Compiler<'_>, rows: Range<usize>) -> Result<RowBlock, LookupError> {
        let count = rows.len();
        let outputs: Vec<f64> = self.scales.iter().flat_map(|&scale| vec![scale; count]).collect();
        let place = |i: usize| (rows.start + i % count, i / count);
        let matrix = |t: usize| {
            let entry = |i: usize, column: usize| (self.entry)(t, place(i).0, place(i).1, column);
            PreparedMatrix::new(compiler.parameters, self.level, &self.babies, &outputs, entry)
        };
        let constants =
            |t: usize| (0..outputs.len()).map(|i| (self.constant)(t, place(i).0, place(i).1)).collect::<Vec<f64>>();
        let subtables = 0..compiler.tables.len();
        let sum = |row: usize| subtables.clone().map(|t| (self.constant)(t, row, 0)).sum();
        Ok(RowBlock {
            rows: count,
            matrices: subtables.clone().map(matrix).collect::<Result<_, _>>()?,
            sums: rows.clone().map(sum).collect(),
            constants: subtables.clone().map(constants).collect(),
        })
    }
}

impl RowBlock {
    /// Bytes of memory of its matrices and constants.
    pub(crate) fn bytes(&self) -> usize {
        let constants: usize = self.constants.iter().map(|constants| size_of_val(constants.as_slice())).sum();
        bytes_of(&self.matrices) + constants + size_of_val(self.sums.as_slice())
    }

    /// The rows `sum_t (inner_(t,0) + sum_g inner_(t,g) giant_(t,g))`, each relinearised once.
    ///
    /// # Errors
    /// If babies or giants do not match the block, or the relinearisation key is missing.
    pub(crate) fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        babies: &[Vec<A::Vector>],
        giants: &[Vec<A::Vector>],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let mut sums: Vec<Option<A::Vector>> = (0..self.rows).map(|_| None).collect();
        let subtables = self.matrices.iter().zip(&self.constants).zip(babies.iter().zip(giants));
        for ((matrix, constants), (babies, giants)) in subtables {
            let inner = arithmetic.matrix(matrix, &babies.iter().collect::<Vec<_>>())?;
            for (i, (inner, &constant)) in inner.into_iter().zip(constants).enumerate() {
                let (group, row) = (i / self.rows, i % self.rows);
                let term = match group {
                    0 => inner,
                    _ => arithmetic.tensor(&add_constant(arithmetic, inner, constant)?, &giants[group - 1])?,
                };
                sums[row] = Some(match sums[row].take() {
                    Some(sum) => arithmetic.add(&term, &sum)?,
                    None => term,
                });
            }
        }
        let rows = sums.iter().flatten().zip(&self.sums);
        rows.map(|(row, &sum)| add_constant(arithmetic, arithmetic.relinearise_rescale(row)?, sum)).collect()
    }
}

fn add_constant<A: Arithmetic>(arithmetic: &A, vector: A::Vector, constant: f64) -> Result<A::Vector, CkksError> {
    if constant == 0.0 { Ok(vector) } else { arithmetic.add_constant(&vector, Complex64::from(constant)) }
}
