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

use crate::powers::{LevelScale, power_shapes};

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
pub(crate) struct Cut {
    /// The Chebyshev coefficients of each `q_g`.
    pub(crate) groups: Vec<Vec<f64>>,
    /// The factor of `T_p` that makes the polynomial 0 at 0.
    pub(crate) top: f64,
}

impl Cut {
    pub(crate) fn new(row: &[f64], babies: usize) -> Self {
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
