//! The bound of the error of a lookup: the paper's Theorem 5.1.
//!
//! An error `e` in the encrypted number changes the vector `v` of its powers by at most `C_V e (p + 2) / sqrt 12`
//! (Lemma C.2). The matrix `M L`, with `L` orthogonal, increases this change by a factor of at most `||M||_2`. Per row
//! (root mean square over the `d` rows) the error is at most `C_PCMM / scale + (||M||_2 / sqrt d) C_V (p + 2) / sqrt 12
//! C_0 / scale`.
//!
//! The theorem leaves out two errors that matter here. First, the products of the tree are rounded too, and for a
//! secret that is not sparse these errors are larger than the error of encryption. Power `k` has at most `k - 1`
//! roundings, so they are counted as part of `C_0`. Second, the entries of `M L` are rounded to integers. No scale of
//! the query reduces this error, so it is a separate term.
//!
//! The bound assumes errors of six standard deviations, all aligned with the largest singular direction. If these
//! errors dominate (`paper`, `cosine-m`), measured errors are some 50 to 120 times smaller than the bound. The term of
//! the matrix is twice a root mean square. If this term dominates, the bound is little more than twice the root mean
//! square.

use std::f64::consts::PI;

use unspoken_ckks::{CkksParameters, NoiseModel};

use crate::compiler::matrix_bits;
use crate::plan::{IndexEncoding, LookupPlan};
use crate::table::{Table, padded_columns};

/// Number of standard deviations that an error exceeds with a probability below 2^-28.
const DEVIATIONS: f64 = 6.0;

/// The paper's `C_coeff`: six standard deviations of 3.2.
const COEFFICIENT_BOUND: f64 = 19.2;

/// Maximum number of steps of the power iteration.
const ITERATIONS: usize = 1000;

/// The terms of the bound, for one plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBound {
    /// `||M||_2 / sqrt d`, summed over the subtables.
    pub gain: f64,
    /// Change of `v` per error of the query: `C_V (p + 2) / sqrt 12`.
    pub lipschitz: f64,
    /// `C_0`: the largest error of the query, times its scale.
    pub input: f64,
    /// `C_PCMM`: bound of the root mean square of the roundings after the matrix, times the scale.
    pub output: f64,
    /// Error of an output from the rounding of the matrix, independent of the scale: twice the root mean square.
    pub matrix: f64,
}

/// The properties of the tables that an error bound depends on: their shape, norm and outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSummary {
    /// Subtables `l`.
    pub subtables: usize,
    /// Rows `d`.
    pub rows: usize,
    /// Columns `p`.
    pub columns: usize,
    /// `||M||_2`, summed over the subtables.
    pub norm: f64,
    /// The largest magnitude of an output.
    pub bound: f64,
}

impl TableSummary {
    /// The summary of tables of one shape.
    pub fn of(tables: &[Table], bound: f64) -> Self {
        let (rows, columns) = tables.first().map_or((1, 4), |table| (table.rows(), table.columns()));
        TableSummary { subtables: tables.len(), rows, columns, norm: tables.iter().map(spectral_norm).sum(), bound }
    }

    /// The summary of tables whose entries are independent with mean square 1: `||M||_2` is near `sqrt d + sqrt p` (the
    /// paper's `C_T = 1`), and an output rarely exceeds six standard deviations.
    pub fn typical(subtables: usize, rows: usize, columns: usize) -> Self {
        let columns = padded_columns(columns);
        let norm = subtables as f64 * ((rows as f64).sqrt() + (columns as f64).sqrt());
        TableSummary { subtables, rows, columns, norm, bound: DEVIATIONS * (subtables as f64).sqrt() }
    }
}

impl ErrorBound {
    /// The published theorem, with `C_0 = 19.2 sqrt N` (equation 3). `lipschitz_factor` is `C_V`, `output` is `C_PCMM`.
    pub fn theorem(tables: TableSummary, degree: usize, lipschitz_factor: f64, output: f64) -> Self {
        let input = COEFFICIENT_BOUND * (degree as f64).sqrt();
        let lipschitz = lipschitz_factor * power_lipschitz(tables.columns);
        ErrorBound { gain: tables.norm / (tables.rows as f64).sqrt(), lipschitz, input, output, matrix: 0.0 }
    }

    /// The bound for queries at the minimum level of the plan. `None` for plans without a power basis, to which the
    /// theorem does not apply.
    pub fn of(parameters: &CkksParameters, plan: LookupPlan, tables: TableSummary) -> Option<Self> {
        Self::above(parameters, plan, tables, 0)
    }

    /// [`ErrorBound::of`] for queries `levels` levels above the minimum, so that outputs end at that level.
    pub fn above(parameters: &CkksParameters, plan: LookupPlan, tables: TableSummary, levels: usize) -> Option<Self> {
        let lipschitz = match plan.index_encoding() {
            IndexEncoding::Alpha => power_lipschitz(tables.columns),
            IndexEncoding::Cosine => cosine_lipschitz(tables.columns),
            IndexEncoding::Index | IndexEncoding::OneHot => return None,
        };
        let noise = NoiseModel::new(parameters);
        let rounding = noise.rounding(2);
        let matrix_scale = matrix_bits(parameters, plan, levels, tables.bound).exp2();
        // Each rounded part of an entry has a mean square error of 1/12, and there are p of them, times 2 Re or 2 Im.
        let entries = (tables.subtables * tables.columns) as f64;
        Some(ErrorBound {
            gain: tables.norm / (tables.rows as f64).sqrt(),
            lipschitz,
            input: DEVIATIONS * (noise.encryption() + noise.encoding() + rounding),
            // A rescale, and the key switch of the conjugation if there is one.
            output: 2.0 * rounding,
            matrix: 2.0 * (entries / 6.0).sqrt() / matrix_scale,
        })
    }

    /// The bound of the error for queries of this scale: a root mean square over the rows of an output.
    pub fn error(&self, scale: f64) -> f64 {
        self.matrix + (self.output + self.gain * self.lipschitz * self.input) / scale
    }

    /// The scale for which the bound is `1 / u`; `None` if no scale suffices.
    pub fn scale(&self, u: f64) -> Option<f64> {
        let left = 1.0 / u - self.matrix;
        (left > 0.0).then(|| (self.output + self.gain * self.lipschitz * self.input) / left)
    }
}

/// Lemma C.2 with `C_V = 1`: `(p + 2) / sqrt 12`.
fn power_lipschitz(columns: usize) -> f64 {
    (columns as f64 + 2.0) / 12f64.sqrt()
}

/// The same for `sqrt(2/p) (T_1 .. T_(p-1))`, by `T_k'(cos x) = k sin kx / sin x`. It is largest at the first index,
/// whose cosine is closest to 1.
fn cosine_lipschitz(columns: usize) -> f64 {
    let x = PI / (2 * columns) as f64;
    let square = |k: usize| (k as f64 * (k as f64 * x).sin() / x.sin()).powi(2);
    (2.0 / columns as f64 * (1..columns).map(square).sum::<f64>()).sqrt()
}

/// The largest singular value of a table, by power iteration.
pub fn spectral_norm(table: &Table) -> f64 {
    // The start is not symmetric, because a symmetric one could be orthogonal to the singular direction.
    let mut direction: Vec<f64> = (0..table.columns()).map(|j| 1.0 + ((j * j + 3 * j) % 11) as f64).collect();
    let mut norm = 0.0;
    for _ in 0..ITERATIONS {
        let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length == 0.0 {
            return 0.0;
        }
        direction.iter_mut().for_each(|x| *x /= length);
        let image: Vec<f64> = (0..table.rows()).map(|r| dot(table.row(r), &direction)).collect();
        let found = dot(&image, &image).sqrt();
        if (found - norm).abs() <= 1e-12 * found {
            return found;
        }
        norm = found;
        direction.fill(0.0);
        for (r, weight) in image.iter().enumerate() {
            direction.iter_mut().zip(table.row(r)).for_each(|(x, m)| *x += weight * m);
        }
    }
    norm
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosine::cosine;

    #[test]
    fn the_theorem_in_numbers() {
        // u = 2^12, p = 256, d = 50, N = 2^16, norm sqrt d + sqrt p, C_V = 1, C_PCMM = 0.
        let tables = TableSummary { subtables: 1, rows: 50, columns: 256, norm: 50f64.sqrt() + 16.0, bound: 1.0 };
        let bound = ErrorBound::theorem(tables, 1 << 16, 1.0, 0.0);
        let expected = 4096.0 * (1.0 + 16.0 / 50f64.sqrt()) * 258.0 / 12f64.sqrt() * 19.2 * 256.0;
        let scale = bound.scale(4096.0).unwrap();
        assert!((scale / expected - 1.0).abs() < 1e-12, "{scale} {expected}");
        assert!((bound.error(scale) * 4096.0 - 1.0).abs() < 1e-12);
        let rounded = ErrorBound { matrix: 1e-3, ..bound };
        assert!(rounded.scale(4096.0).is_none() && rounded.scale(500.0).unwrap() > bound.scale(500.0).unwrap());
    }

    #[test]
    fn norms_are_largest_singular_values() {
        let diagonal = Table::new(2, &[3.0, 0.0, 0.0, 0.0, 0.0, -7.0, 0.0, 0.0]).unwrap();
        assert!((spectral_norm(&diagonal) - 7.0).abs() < 1e-9);
        let ones = Table::new(3, &[2.0; 12]).unwrap();
        assert!((spectral_norm(&ones) - 2.0 * 12f64.sqrt()).abs() < 1e-9);
        assert_eq!(spectral_norm(&Table::new(2, &[0.0; 8]).unwrap()), 0.0);
    }

    #[test]
    fn the_first_cosine_is_the_most_sensitive() {
        let p = 32;
        let moved = |c: f64, k: usize| (k as f64 * c.acos()).cos();
        let sensitivity = |j: usize| {
            let (c, step) = (cosine(j, p), 1e-7);
            let square = |k: usize| ((moved(c + step, k) - moved(c - step, k)) / (2.0 * step)).powi(2);
            (2.0 / p as f64 * (1..p).map(square).sum::<f64>()).sqrt()
        };
        let bound = cosine_lipschitz(p);
        assert!((0..p).all(|j| sensitivity(j) < bound * 1.0001));
        assert!((sensitivity(0) / bound - 1.0).abs() < 1e-3);
    }
}
