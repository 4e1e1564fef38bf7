//! Giant steps: rows that are sums over groups of a combination of babies times a giant, relinearised once.

use std::ops::Range;

use unspoken_ckks::{Arithmetic, CkksError, Complex64, PreparedMatrix};

use crate::error::LookupError;
use crate::program::{Compiler, bytes_of};

/// Inner combinations held at one time.
const BLOCK_VECTORS: usize = 64;

/// Rows of a block, for rows of so many groups.
pub(crate) fn block_rows(groups: usize) -> usize {
    (BLOCK_VECTORS / groups).max(1)
}

/// Rows whose inner combinations are in memory at one time.
pub(crate) struct RowBlock {
    rows: usize,
    /// Per subtable: one matrix row per group and table row, group by group.
    matrices: Vec<PreparedMatrix>,
    /// Per subtable, in the order of the matrix's rows: what is added to each combination, but for those of group 0.
    constants: Vec<Vec<f64>>,
    /// Per row: the constants of group 0 of all subtables, added at the end.
    sums: Vec<f64>,
}

/// The coefficients of the groups, and where they are combined.
pub(crate) struct Groups<E, C> {
    /// Rows of the output.
    pub(crate) rows: usize,
    /// The level of the combinations and of their products with the giants.
    pub(crate) level: usize,
    /// Scales of the babies, one per column.
    pub(crate) babies: Vec<f64>,
    /// Scale of the combinations of each group.
    pub(crate) scales: Vec<f64>,
    /// Coefficient of subtable, row, group, column.
    pub(crate) entry: E,
    /// Constant of subtable, row, group.
    pub(crate) constant: C,
}

impl<E, C> Groups<E, C>
where
    E: Fn(usize, usize, usize, usize) -> Complex64,
    C: Fn(usize, usize, usize) -> f64,
{
    /// Cuts the rows into blocks.
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
    /// Bytes its matrices and constants take in memory.
    pub(crate) fn bytes(&self) -> usize {
        let constants: usize = self.constants.iter().map(|constants| size_of_val(constants.as_slice())).sum();
        bytes_of(&self.matrices) + constants + size_of_val(self.sums.as_slice())
    }

    /// The rows: `sum_t (inner_(t,0) + sum_g inner_(t,g) giant_(t,g))`, relinearised once each.
    ///
    /// # Errors
    /// If babies or giants are not those the block was made for, or the relinearisation key is missing.
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
