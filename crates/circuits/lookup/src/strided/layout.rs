//! The layout of the coordinates of a token's vector, and the matrices over them.

use std::collections::BTreeMap;

use unspoken_ckks::Complex64;

use crate::strided::plan::StridedPlan;
use crate::table::Table;

/// The layout of the coordinates of the selection vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) batch: usize,
    /// Number of positions of a token.
    pub(super) width: usize,
    pub(super) subtables: usize,
    pub(super) columns: usize,
    /// Number of coordinates of the vector of one subtable.
    pub(super) len: usize,
    /// Number of subtables that share a ciphertext, a power of two. The lowest bits of position `j` are the number of
    /// the subtable among them.
    pub(super) shared: usize,
    /// Number of ciphertexts of the vector of one subtable.
    pub(super) chunks: usize,
}

impl Layout {
    /// Number of positions after which a ciphertext repeats.
    pub(super) fn period(&self) -> usize {
        self.shared * self.len.min(self.width)
    }

    /// Number of query ciphertexts.
    pub(super) fn groups(&self) -> usize {
        self.subtables.div_ceil(self.shared)
    }

    /// The subtable and the coordinate of position `j` in selection ciphertext `i`.
    pub(super) fn place(&self, i: usize, j: usize) -> (usize, usize) {
        let (group, chunk) = (i / self.chunks, i % self.chunks);
        let j = j % self.period();
        (group * self.shared + j % self.shared, chunk * self.width + j / self.shared)
    }

    /// One period of the vector that has `value(j)` in position `j` of every token.
    pub(super) fn tables(&self, value: impl Fn(usize) -> Complex64) -> Vec<Complex64> {
        (0..self.period() * self.batch).map(|slot| value(slot / self.batch)).collect()
    }
}

/// `[t][r][c]`: the coefficient of coordinate `c` of subtable `t` in row `r`.
pub(super) fn coefficients(plan: StridedPlan, tables: &[Table]) -> Vec<Vec<Vec<Complex64>>> {
    let row = |table: &Table, r: usize| match plan {
        StridedPlan::Powers => table.expansion(r).coefficients,
        StridedPlan::Indicator => table.row(r).iter().map(|&x| Complex64::from(x)).collect(),
    };
    tables.iter().map(|table| (0..table.rows()).map(|r| row(table, r)).collect()).collect()
}

/// The diagonals of the matrix over selection ciphertext `i`. The ciphertext repeats, so the diagonals of one period
/// reach every coordinate from every row.
pub(super) fn diagonals(
    layout: &Layout,
    i: usize,
    rows: usize,
    coefficients: &[Vec<Vec<Complex64>>],
) -> BTreeMap<usize, Vec<Complex64>> {
    let entry = |row: usize, position: usize| {
        let (subtable, coordinate) = layout.place(i, position);
        coefficients.get(subtable).map_or(Complex64::default(), |table| table[row][coordinate])
    };
    let diagonal = |shift: usize| {
        let value = |row: usize| if row < rows { entry(row, row + shift) } else { Complex64::default() };
        let values = (0..layout.width).flat_map(|row| vec![value(row); layout.batch]).collect();
        (shift * layout.batch, values)
    };
    (0..layout.period()).map(diagonal).collect()
}
