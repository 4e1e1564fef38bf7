//! Where the coordinates of a token's vector lie, and the matrices over them.

use std::collections::BTreeMap;

use unspoken_ckks::Complex64;

use crate::strided::StridedPlan;
use crate::table::Table;

/// Where the coordinates of the selection vectors lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) batch: usize,
    /// Positions of a token.
    pub(super) width: usize,
    pub(super) subtables: usize,
    pub(super) columns: usize,
    /// Coordinates of one subtable's vector.
    pub(super) len: usize,
    /// Subtables that share a ciphertext, a power of two: those of position `j` are numbered by its lowest bits.
    pub(super) shared: usize,
    /// Ciphertexts one subtable's vector takes.
    pub(super) chunks: usize,
}

impl Layout {
    /// Positions after which a ciphertext repeats.
    pub(super) fn period(&self) -> usize {
        self.shared * self.len.min(self.width)
    }

    /// Query ciphertexts.
    pub(super) fn groups(&self) -> usize {
        self.subtables.div_ceil(self.shared)
    }

    /// The subtable and the coordinate of position `j` in selection ciphertext `i`.
    pub(super) fn place(&self, i: usize, j: usize) -> (usize, usize) {
        let (group, chunk) = (i / self.chunks, i % self.chunks);
        let j = j % self.period();
        (group * self.shared + j % self.shared, chunk * self.width + j / self.shared)
    }

    /// One period of a vector whose every token has `value(j)` in position `j`.
    pub(super) fn tables(&self, value: impl Fn(usize) -> Complex64) -> Vec<Complex64> {
        (0..self.period() * self.batch).map(|slot| value(slot / self.batch)).collect()
    }
}

/// `[t][r]`: what coordinate `c` of subtable `t` adds to row `r`.
pub(super) fn coefficients(plan: StridedPlan, tables: &[Table]) -> Vec<Vec<Vec<Complex64>>> {
    let row = |table: &Table, r: usize| match plan {
        StridedPlan::Powers => table.expansion(r).coefficients,
        StridedPlan::Indicator => table.row(r).iter().map(|&x| Complex64::from(x)).collect(),
    };
    tables.iter().map(|table| (0..table.rows()).map(|r| row(table, r)).collect()).collect()
}

/// The diagonals of selection ciphertext `i`: since it repeats, those of one period reach every coordinate from every
/// row.
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
