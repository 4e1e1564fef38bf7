//! Sparse matrices in the clear.

use crate::error::NetworkError;

/// Vectors that are multiplied together.
pub(crate) const LANES: usize = 8;

/// A matrix as the entries of its rows. Entries that are zero are not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix {
    columns: usize,
    /// Where each row begins in `entries`, and where the last one ends.
    starts: Vec<usize>,
    /// Column and value, by row and then by column.
    entries: Vec<(u32, f64)>,
}

impl SparseMatrix {
    /// The matrix with these numbers of rows and columns and with the entries `(row, column, value)` in any order.
    /// Values at the same place are added.
    ///
    /// # Errors
    /// If there are no rows or columns, more than 2^32 of one, an entry is outside, or a value is not finite.
    pub fn new(
        (rows, columns): (usize, usize),
        entries: impl IntoIterator<Item = (usize, usize, f64)>,
    ) -> Result<Self, NetworkError> {
        const OPERATION: &str = "make a sparse matrix";
        if rows == 0 || columns == 0 || rows.max(columns) > u32::MAX as usize {
            let needed = "1 to 2^32 - 1 rows and columns";
            return Err(NetworkError::mismatch(OPERATION, format!("{rows} x {columns}"), needed));
        }
        let mut sorted: Vec<(u32, u32, f64)> = Vec::new();
        for (row, column, value) in entries {
            if row >= rows || column >= columns || !value.is_finite() {
                let needed = format!("a finite number inside {rows} x {columns}");
                return Err(NetworkError::mismatch(OPERATION, format!("{value} at ({row}, {column})"), needed));
            }
            sorted.push((row as u32, column as u32, value));
        }
        sorted.sort_by_key(|&(row, column, _)| (row, column));
        let mut matrix = SparseMatrix { columns, starts: vec![0], entries: Vec::with_capacity(sorted.len()) };
        let mut rest = sorted.as_slice();
        for row in 0..rows as u32 {
            let count = rest.iter().take_while(|entry| entry.0 == row).count();
            let (own, others) = rest.split_at(count);
            matrix.push_row(own.iter().map(|&(_, column, value)| (column, value)));
            rest = others;
        }
        Ok(matrix)
    }

    /// The matrix with `entry(row, column)` everywhere.
    ///
    /// # Errors
    /// As for [`SparseMatrix::new`].
    pub fn dense(shape: (usize, usize), entry: impl Fn(usize, usize) -> f64) -> Result<Self, NetworkError> {
        let row = |row: usize| (0..shape.1).map(move |column| (row, column));
        Self::new(shape, (0..shape.0).flat_map(row).map(|(row, column)| (row, column, entry(row, column))))
    }

    /// The matrix with these entries on its diagonal.
    ///
    /// # Errors
    /// As for [`SparseMatrix::new`].
    pub fn diagonal(values: &[f64]) -> Result<Self, NetworkError> {
        Self::new((values.len(), values.len()), values.iter().enumerate().map(|(i, &value)| (i, i, value)))
    }

    /// Adds a row. Entries must be in the order of columns; those of one column are added.
    fn push_row(&mut self, entries: impl Iterator<Item = (u32, f64)>) {
        let start = self.entries.len();
        for (column, value) in entries {
            match self.entries[start..].last_mut() {
                Some(last) if last.0 == column => last.1 += value,
                _ => self.entries.push((column, value)),
            }
        }
        let mut kept = start;
        for index in start..self.entries.len() {
            if self.entries[index].1 != 0.0 {
                self.entries[kept] = self.entries[index];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        self.starts.push(kept);
    }

    /// Number of rows: the size of its results.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of columns: the size of its arguments.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of entries that are not zero.
    pub fn nonzero(&self) -> usize {
        self.entries.len()
    }

    /// Columns and values of a row, in the order of columns.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> impl ExactSizeIterator<Item = (usize, f64)> + '_ {
        self.entries[self.starts[row]..self.starts[row + 1]].iter().map(|&(column, value)| (column as usize, value))
    }

    /// All entries as `(row, column, value)`, by row and then by column.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        (0..self.rows()).flat_map(move |row| self.row(row).map(move |(column, value)| (row, column, value)))
    }

    /// The product `self * inner`: first `inner`, then `self`.
    ///
    /// # Errors
    /// If the columns of `self` are not the rows of `inner`, or a value becomes infinite.
    pub fn compose(&self, inner: &SparseMatrix) -> Result<Self, NetworkError> {
        const OPERATION: &str = "compose matrices";
        if self.columns != inner.rows() {
            let needed = format!("{} columns, one for each row of the inner matrix", inner.rows());
            return Err(NetworkError::mismatch(OPERATION, format!("{} columns", self.columns), needed));
        }
        let mut product = SparseMatrix { columns: inner.columns, starts: vec![0], entries: Vec::new() };
        let (mut sums, mut used) = (vec![0.0; inner.columns], Vec::new());
        let mut is_used = vec![false; inner.columns];
        for row in 0..self.rows() {
            for (middle, weight) in self.row(row) {
                for (column, value) in inner.row(middle) {
                    if !std::mem::replace(&mut is_used[column], true) {
                        used.push(column);
                    }
                    sums[column] += weight * value;
                }
            }
            used.sort_unstable();
            product.push_row(used.iter().map(|&column| (column as u32, sums[column])));
            used.drain(..).for_each(|column| (sums[column], is_used[column]) = (0.0, false));
        }
        product.finite(OPERATION)
    }

    /// The sum of two matrices of one shape.
    ///
    /// # Errors
    /// If the shapes differ, or a value becomes infinite.
    pub fn plus(&self, other: &SparseMatrix) -> Result<Self, NetworkError> {
        const OPERATION: &str = "add matrices";
        let shape = (self.rows(), self.columns);
        if shape != (other.rows(), other.columns) {
            let found = format!("{} x {}", other.rows(), other.columns);
            return Err(NetworkError::mismatch(OPERATION, found, format!("{} x {}", shape.0, shape.1)));
        }
        let mut sum = SparseMatrix { columns: self.columns, starts: vec![0], entries: Vec::new() };
        for row in 0..shape.0 {
            let mut all: Vec<(usize, f64)> = self.row(row).chain(other.row(row)).collect();
            all.sort_by_key(|&(column, _)| column);
            sum.push_row(all.into_iter().map(|(column, value)| (column as u32, value)));
        }
        sum.finite(OPERATION)
    }

    /// The matrix with row `r` divided by `rows[r]` and column `c` multiplied by `columns[c]`.
    pub(crate) fn rescaled(&self, rows: &[f64], columns: &[f64]) -> Self {
        let mut scaled = self.clone();
        for (row, &divisor) in rows.iter().enumerate() {
            let own = &mut scaled.entries[self.starts[row]..self.starts[row + 1]];
            own.iter_mut().for_each(|(column, value)| *value *= columns[*column as usize] / divisor);
        }
        scaled
    }

    /// `sums += self * values` for [`LANES`] vectors together, `values[column][lane]`: the entries, which are far more
    /// than the values, are read once. Sums are those of [`SparseMatrix::add_product`].
    pub(crate) fn add_products(&self, values: &[[f64; LANES]], sums: &mut [[f64; LANES]]) {
        for (row, row_sums) in sums.iter_mut().enumerate() {
            let mut products = [0.0; LANES];
            for (column, weight) in self.row(row) {
                let lanes = products.iter_mut().zip(&values[column]);
                lanes.for_each(|(product, value)| *product += weight * value);
            }
            row_sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
        }
    }

    /// `sums += self * values`.
    pub(crate) fn add_product(&self, values: &[f64], sums: &mut [f64]) {
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum += self.row(row).map(|(column, weight)| weight * values[column]).sum::<f64>();
        }
    }

    fn finite(self, operation: &'static str) -> Result<Self, NetworkError> {
        match self.entries.iter().find(|(_, value)| !value.is_finite()) {
            None => Ok(self),
            Some((column, value)) => {
                let found = format!("{value} in column {column}");
                Err(NetworkError::mismatch(operation, found, "finite entries; scale the weights down"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_together_have_the_sums_of_each() {
        let matrix = SparseMatrix::dense((5, 7), |row, column| ((row * 7 + column) as f64).sin()).unwrap();
        let value = |column: usize, lane: usize| ((column * LANES + lane) as f64 * 0.7).cos();
        let values: Vec<[f64; LANES]> = (0..7).map(|column| std::array::from_fn(|lane| value(column, lane))).collect();
        let mut sums = vec![[0.5; LANES]; 5];
        matrix.add_products(&values, &mut sums);
        for lane in 0..LANES {
            let mut own = [0.5; 5];
            matrix.add_product(&(0..7).map(|column| value(column, lane)).collect::<Vec<_>>(), &mut own);
            assert!(own.iter().zip(&sums).all(|(own, sums)| *own == sums[lane]), "{lane}");
        }
    }

    #[test]
    fn sums_and_products_are_those_of_the_entries() {
        let a = SparseMatrix::new((2, 3), [(1, 2, 4.0), (0, 1, 1.5), (0, 1, 0.5), (1, 0, -1.0)]).unwrap();
        let b = SparseMatrix::dense((3, 2), |row, column| (row * 2 + column) as f64).unwrap();
        assert_eq!((a.rows(), a.columns(), a.nonzero(), b.nonzero()), (2, 3, 3, 5));
        let product = a.compose(&b).unwrap();
        assert_eq!(product, SparseMatrix::dense((2, 2), |r, c| [[4.0, 6.0], [16.0, 19.0]][r][c]).unwrap());
        let sum = a.plus(&SparseMatrix::new((2, 3), [(1, 0, 1.0), (0, 0, 2.0)]).unwrap()).unwrap();
        assert_eq!(sum.entries().collect::<Vec<_>>(), [(0, 0, 2.0), (0, 1, 2.0), (1, 2, 4.0)]);
        assert!(b.compose(&b).is_err() && a.plus(&b).is_err());
    }

    #[test]
    fn entries_outside_and_infinite_ones_are_refused() {
        assert!(SparseMatrix::new((0, 1), []).is_err());
        assert!(SparseMatrix::new((2, 2), [(2, 0, 1.0)]).is_err());
        assert!(SparseMatrix::new((2, 2), [(0, 0, f64::NAN)]).is_err());
        let huge = SparseMatrix::diagonal(&[1e200]).unwrap();
        assert!(huge.compose(&huge).unwrap_err().to_string().contains("finite"));
    }
}
