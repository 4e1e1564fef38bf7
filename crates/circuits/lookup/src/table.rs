//! Tables for lookups, and their rows as polynomials in one complex number.
//!
//! Index `j` of `p = 2n` columns is encoded as `alpha_j = exp(2 pi i J_j)`, `J_j = (-1)^j (2j + 1) / 4p`. The vectors
//! `v(alpha_j)` of the real parts of `alpha^1 .. alpha^n`, the imaginary parts of `alpha^1 .. alpha^(n-1)` and a
//! constant are, suitably scaled, the columns of an orthogonal matrix `D` (a discrete cosine transform with its rows in
//! another order; paper, section 4.1 and Appendix B). So a table row `m` is `m_j = (m D^T) v(alpha_j)`, which is
//! `constant + 2 Re sum_k c_k alpha_j^k` for complex `c_1 .. c_n`.

use std::f64::consts::PI;

use unspoken_ckks::Complex64;

use crate::error::LookupError;

/// Largest magnitude of a table entry.
const LARGEST_ENTRY: f64 = 1e12;

/// A mean below this fraction of the largest entry of the row counts as zero.
const CENTRED: f64 = 1e-9;

/// One subtable: `d` rows of `p` columns. `p` is a power of two from 4 to 4096; other tables are padded with zero
/// columns.
#[derive(Clone, Debug)]
pub struct Table {
    rows: usize,
    columns: usize,
    /// Row-major.
    entries: Vec<f64>,
}

impl Table {
    /// A table with `rows` rows from entries in row-major order. The number of columns follows from the length and is
    /// padded to a power of two.
    ///
    /// # Errors
    /// If the length is zero or not a multiple of `rows`, there are more than 4096 columns, or an entry is not finite
    /// or above 10^12 in magnitude.
    pub fn new(rows: usize, entries: &[f64]) -> Result<Self, LookupError> {
        let refuse = |what, found: String, needed: &str| LookupError::Table { what, found, needed: needed.into() };
        if rows == 0 || entries.is_empty() || !entries.len().is_multiple_of(rows) {
            return Err(refuse("the number of entries", entries.len().to_string(), "a multiple of the number of rows"));
        }
        let given = entries.len() / rows;
        let columns = padded_columns(given);
        if columns > 4096 {
            return Err(refuse("the number of columns", given.to_string(), "at most 4096; compress the table first"));
        }
        if let Some(bad) = entries.iter().find(|x| !x.is_finite() || x.abs() > LARGEST_ENTRY) {
            return Err(refuse("an entry", bad.to_string(), "a finite number of magnitude at most 10^12"));
        }
        let mut padded = vec![0.0; rows * columns];
        for (target, source) in padded.chunks_exact_mut(columns).zip(entries.chunks_exact(given)) {
            target[..given].copy_from_slice(source);
        }
        Ok(Table { rows, columns, entries: padded })
    }

    /// The table with all entries divided by `unit`.
    ///
    /// # Errors
    /// If a quotient is not finite or above 10^12 in magnitude.
    pub fn divided_by(&self, unit: f64) -> Result<Self, LookupError> {
        Table::new(self.rows, &self.entries.iter().map(|entry| entry / unit).collect::<Vec<_>>())
    }

    /// Rows `d`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns `p`, a power of two.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Row `r`.
    pub fn row(&self, r: usize) -> &[f64] {
        &self.entries[r * self.columns..][..self.columns]
    }

    /// The largest magnitude in row `r`.
    pub fn row_bound(&self, r: usize) -> f64 {
        self.row(r).iter().fold(0.0, |max, x| x.abs().max(max))
    }

    /// Row `r` as a polynomial.
    pub fn expansion(&self, r: usize) -> Expansion {
        Expansion::of(self.row(r))
    }
}

/// The common number of rows and columns of all tables.
///
/// # Errors
/// If there is no table, or the shapes differ.
pub(crate) fn check_shapes(tables: &[Table]) -> Result<(usize, usize), LookupError> {
    let Some(first) = tables.first() else {
        let needed = "at least one".into();
        return Err(LookupError::Table { what: "the list of subtables", found: "empty".into(), needed });
    };
    let shape = |table: &Table| (table.rows(), table.columns());
    match tables.iter().find(|table| shape(table) != shape(first)) {
        None => Ok(shape(first)),
        Some(other) => {
            let (found, needed) = (format!("{:?}", shape(other)), format!("{:?} as the first", shape(first)));
            Err(LookupError::Table { what: "the shape of a subtable", found, needed })
        }
    }
}

/// The number of columns that a table of `columns` columns is padded to: a power of two, at least 4.
pub fn padded_columns(columns: usize) -> usize {
    columns.next_power_of_two().max(4)
}

/// `alpha_j` for `columns` columns. The running time depends on the index: for public indices.
pub fn alpha(index: usize, columns: usize) -> Complex64 {
    let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
    Complex64::cis(2.0 * PI * sign * (2 * index + 1) as f64 / (4 * columns) as f64)
}

/// The element `J_j` of the torus: `exp(2 pi i J_j)` is [`alpha`]`(j, columns)`. In constant time: the sign bit is the
/// parity, the signed conversion is one instruction, and the operands of the only division are public.
pub fn torus(index: usize, columns: usize) -> f64 {
    let index = index as u64;
    let magnitude = (2 * index + 1).cast_signed() as f64 * (1.0 / (4 * columns) as f64);
    f64::from_bits(magnitude.to_bits() ^ (index & 1) << 63)
}

/// A table row as `constant + 2 Re sum_k c_k alpha^k`.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The constant: the mean of the row, exactly zero for a centred row.
    pub constant: f64,
    /// `c_1 .. c_n`.
    pub coefficients: Vec<Complex64>,
}

impl Expansion {
    fn of(row: &[f64]) -> Self {
        let p = row.len();
        let n = p / 2;
        let alphas: Vec<Complex64> = (0..p).map(|j| alpha(j, p)).collect();
        let mut powers = alphas.clone();
        let mut coefficients = Vec::with_capacity(n);
        for k in 1..=n {
            // sum_j m_j conj(alpha_j^k) = A_k - i B_k, up to the transform's factor.
            let sum: Complex64 = row.iter().zip(&powers).map(|(m, a)| a.conj() * *m).sum();
            let value = sum / p as f64;
            coefficients.push(if k == n { Complex64::from(value.re) } else { value });
            powers.iter_mut().zip(&alphas).for_each(|(power, a)| *power *= a);
        }
        let largest = row.iter().fold(0.0f64, |max, x| x.abs().max(max));
        let mean = row.iter().sum::<f64>() / p as f64;
        let constant = if mean.abs() <= CENTRED * largest { 0.0 } else { mean };
        Expansion { constant, coefficients }
    }

    /// The value at `alpha`, in the clear.
    pub fn evaluate(&self, alpha: Complex64) -> f64 {
        let horner = self.coefficients.iter().rev().fold(Complex64::default(), |sum, c| (sum + c) * alpha);
        self.constant + 2.0 * horner.re
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansions_reproduce_their_rows() {
        for p in [4, 8, 64, 256] {
            let row: Vec<f64> = (0..p).map(|j| ((j * j * 7 + 3 * j) % 23) as f64 - 9.0).collect();
            let expansion = Table::new(1, &row).unwrap().expansion(0);
            assert_eq!(expansion.coefficients.len(), p / 2);
            for (j, m) in row.iter().enumerate() {
                assert!((expansion.evaluate(alpha(j, p)) - m).abs() < 1e-10, "{p} {j}");
            }
        }
    }

    #[test]
    fn exponentials_of_the_torus_elements_are_the_alphas() {
        for (j, p) in [(0, 4), (3, 8), (254, 256), (511, 1024), (1023, 1024)] {
            let found = Complex64::cis(2.0 * PI * torus(j, p));
            assert!((found - alpha(j, p)).norm() < 1e-12, "{j} of {p}");
        }
    }

    #[test]
    fn a_centred_row_vanishes_at_zero() {
        let row: Vec<f64> = (0..16).map(|j| f64::from(j) - 7.5).collect();
        let expansion = Table::new(1, &row).unwrap().expansion(0);
        assert_eq!(expansion.evaluate(Complex64::default()), 0.0);
    }

    #[test]
    fn odd_widths_are_padded_and_bad_tables_refused() {
        let table = Table::new(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]).unwrap();
        assert_eq!((table.rows(), table.columns()), (2, 8));
        assert_eq!(table.row(1), [6.0, 7.0, 8.0, 9.0, 10.0, 0.0, 0.0, 0.0]);
        for bad in [f64::NAN, f64::INFINITY, 1e13] {
            assert!(Table::new(1, &[1.0, bad]).unwrap_err().to_string().contains("an entry"));
        }
        assert!(Table::new(3, &[1.0; 10]).is_err());
        assert!(Table::new(0, &[]).is_err());
        assert!(Table::new(1, &vec![0.0; 5000]).is_err());
    }
}
