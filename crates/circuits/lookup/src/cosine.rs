//! Tables as polynomials in one real number, for the conjugate-invariant ring.
//!
//! Index `j` of `p` columns is encoded as `c_j = cos(theta_j)`, `theta_j = (2j + 1) pi / 2p`, a root of the Chebyshev
//! polynomial `T_p`. The numbers `T_k(c_j) = cos(k theta_j)`, `k < p`, are up to factors the columns of an orthogonal
//! matrix (the discrete cosine transform DCT-II). So a table row is `m_j = sum_k A_k T_k(c_j)` with
//! `A_k = (2/p) sum_j m_j cos(k theta_j)`, and half of that for `k = 0`.
//!
//! A padded slot contains `c = 0`, where `T_k` vanishes for odd `k` only. But `T_p` is 0 at every `c_j` and 1 at 0
//! (`p` is a multiple of 4). Let `f` be the polynomial of a row. Subtracting `f(0) T_p` changes no entry, and the row
//! then vanishes at 0, centred or not. Since `T_p = 2 T_(p/2)^2 - 1`, this needs no further power.

use std::f64::consts::PI;

use unspoken_ckks::Complex64;

use crate::baby_giant::{Groups, RowBlock};
use crate::error::LookupError;
use crate::powers::{LevelScale, power_shapes};
use crate::program::Compiler;

/// `c_j` for `columns` columns. The running time depends on the index: for public indices.
pub fn cosine(index: usize, columns: usize) -> f64 {
    angle(index, columns).cos()
}

fn angle(index: usize, columns: usize) -> f64 {
    (2 * index + 1) as f64 * PI / (2 * columns) as f64
}

/// The polynomial of a row, split at the multiples of `m`: `sum_g q_g T_gm + 2 top T_(p/2)^2`, with `q_g` of degree
/// below `m`.
#[derive(Clone, Debug)]
struct Cut {
    /// The Chebyshev coefficients of each `q_g`.
    groups: Vec<Vec<f64>>,
    /// The factor of `T_p` that makes the polynomial 0 at 0.
    top: f64,
}

impl Cut {
    fn new(row: &[f64], babies: usize) -> Self {
        let p = row.len();
        // A table of cosines, because the recurrence with 2 cos(x) cos(theta) would lose digits. p is at most 4096, and
        // all k theta_j are multiples of pi / 2p.
        let table: Vec<f64> = (0..4 * p).map(|i| (i as f64 * PI / (2 * p) as f64).cos()).collect();
        let coefficient = |k: usize| {
            let sum: f64 = row.iter().enumerate().map(|(j, m)| m * table[k * (2 * j + 1) % (4 * p)]).sum();
            sum * if k == 0 { 1.0 } else { 2.0 } / p as f64
        };
        let mut coefficients: Vec<f64> = (0..p).map(coefficient).collect();
        // T_k(0) is 1, 0, -1, 0 in turn.
        let at_zero: f64 = coefficients.chunks(4).map(|c| c[0] - c.get(2).copied().unwrap_or(0.0)).sum();
        // -at_zero T_p = -2 at_zero T_(p/2)^2 + at_zero.
        coefficients[0] += at_zero;
        let mut groups = vec![vec![0.0; babies]; p / babies];
        for (g, group) in groups.iter_mut().enumerate().rev() {
            let base = g * babies;
            group[0] = coefficients[base];
            for i in 1..babies {
                let high = coefficients[base + i];
                if g == 0 {
                    group[i] = high;
                } else {
                    // 2 T_i T_base = T_(base+i) + T_(base-i)
                    group[i] = 2.0 * high;
                    coefficients[base - i] -= high;
                }
            }
        }
        Cut { groups, top: -at_zero }
    }
}

/// Number of levels of the plan: for the babies, the giants and one product.
pub(crate) fn depth(columns: usize, babies: usize) -> usize {
    let log2 = columns.ilog2() as usize;
    // Two groups need only the giant T_(p/2); more groups need giants beyond it.
    if babies * 2 == columns { log2 } else { log2 + 1 }
}

/// The shapes of the babies `T_1 .. T_m` and of the giants `T_m, T_2m ..` below `T_p`.
pub(crate) struct CosineShapes {
    pub(crate) babies: Vec<LevelScale>,
    pub(crate) giants: Vec<LevelScale>,
}

/// The shapes of babies and giants; `None` if there are too few levels.
pub(crate) fn shapes(
    input: LevelScale,
    columns: usize,
    babies: usize,
    parameters: &unspoken_ckks::CkksParameters,
) -> Option<CosineShapes> {
    let low = power_shapes(input, babies, parameters)?;
    let giants = power_shapes(*low.last()?, columns / babies - 1, parameters)?;
    Some(CosineShapes { babies: low, giants })
}

/// Compiles the plan. Returns the level of the giant steps, the blocks of rows, and the shape of the outputs. The
/// columns of the matrices are `T_1 .. T_(m-1)` and `T_(p/2)`.
///
/// # Errors
/// If there are too few levels, the modulus is too small, or the number of babies is invalid.
pub(crate) fn compile(
    compiler: &Compiler<'_>,
    babies: usize,
) -> Result<(usize, Vec<RowBlock>, LevelScale), LookupError> {
    let columns = compiler.columns();
    if !babies.is_power_of_two() || !(2..=columns / 2).contains(&babies) {
        return Err(compiler.refuse(format!("the number of babies must be a power of two from 2 to {}", columns / 2)));
    }
    let shapes = shapes(compiler.input, columns, babies, compiler.parameters).ok_or_else(|| compiler.too_shallow())?;
    let groups = columns / babies;
    let middle = groups / 2;
    let level = shapes.giants.iter().map(|s| s.level).min().unwrap_or(0);
    let (output, before) = compiler.product_output(level)?;
    let cuts: Vec<Vec<Cut>> = compiler
        .tables
        .iter()
        .map(|table| (0..table.rows()).map(|r| Cut::new(table.row(r), babies)).collect())
        .collect();
    let scales = (0..groups).map(|g| if g == 0 { before } else { before / shapes.giants[g - 1].scale }).collect();
    let mut inputs: Vec<f64> = shapes.babies[..babies - 1].iter().map(|s| s.scale).collect();
    inputs.push(shapes.giants[middle - 1].scale);
    let groups = Groups {
        rows: compiler.tables[0].rows(),
        level,
        babies: inputs,
        scales,
        entry: |t: usize, row: usize, group: usize, column: usize| {
            let cut = &cuts[t][row];
            let value = match column + 1 {
                i if i < babies => cut.groups[group][i],
                _ if group == middle => 2.0 * cut.top,
                _ => 0.0,
            };
            Complex64::from(value)
        },
        constant: |t: usize, row: usize, group: usize| cuts[t][row].groups[group][0],
    };
    Ok((level, groups.blocks(compiler)?, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chebyshev(k: usize, c: f64) -> f64 {
        (k as f64 * c.acos()).cos()
    }

    #[test]
    fn cut_polynomials_reproduce_their_rows_and_vanish_at_zero() {
        for (p, babies) in [(4, 2), (16, 2), (16, 4), (16, 8), (256, 16)] {
            let row: Vec<f64> = (0..p).map(|j| ((j * j * 7 + 3 * j) % 23) as f64 - 4.0).collect();
            let cut = Cut::new(&row, babies);
            let at = |c: f64| {
                let inner =
                    |group: &Vec<f64>| -> f64 { group.iter().enumerate().map(|(i, q)| q * chebyshev(i, c)).sum() };
                let sum: f64 =
                    cut.groups.iter().enumerate().map(|(g, group)| inner(group) * chebyshev(g * babies, c)).sum();
                sum + 2.0 * cut.top * chebyshev(p / 2, c).powi(2)
            };
            for (j, m) in row.iter().enumerate() {
                assert!((at(cosine(j, p)) - m).abs() < 1e-9, "{p} {babies} {j}: {} {m}", at(cosine(j, p)));
            }
            assert!(at(0.0).abs() < 1e-9, "{p} {babies}: {}", at(0.0));
        }
    }
}
