//! Fit of subtables to fixed codes: regularised least squares.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;

use super::Stop;
use crate::error::EmbeddingError;

/// Number of dimensions per thread that are solved at once.
const LANES: usize = 8;
/// Maximum number of steps of conjugate gradients.
const STEPS: usize = 40;
/// The method stops when the squared residual has fallen by this factor.
const TOLERANCE: f64 = 1e-10;
/// The regularisation, which pulls each column to zero.
const RIDGE: f64 = 1e-6;

/// The entries of one column, in some dimensions.
type Lanes = [f64; LANES];

/// Least squares fit of columns (`l p` rows) to `rows` with these codes, starting from `columns`.
///
/// With `B` the matrix of selections (rows x `l p`, one 1 for each row and subtable), it solves `(B^T B + ridge) C =
/// B^T X` by conjugate gradients with the diagonal as preconditioner. Dimensions are independent, so groups of them run
/// in parallel and the result does not depend on the number of threads. Without the ridge the matrix is singular (a
/// constant can move from one subtable to another); conjugate gradients from a nearby start converge anyway.
pub(super) fn least_squares(
    rows: ArrayView2<f32>,
    codes: &[u16],
    (subtables, count): (usize, usize),
    columns: &mut Array2<f32>,
    stop: Stop,
) -> Result<(), EmbeddingError> {
    let selected: Vec<u32> =
        codes.iter().enumerate().map(|(i, &code)| ((i % subtables) * count + usize::from(code)) as u32).collect();
    let mut diagonal = vec![RIDGE; subtables * count];
    selected.iter().for_each(|&column| diagonal[column as usize] += 1.0);
    let system = System { selected: &selected, subtables, diagonal: &diagonal };
    let groups = rows.ncols().div_ceil(LANES);
    let solved: Vec<Vec<Lanes>> = (0..groups)
        .into_par_iter()
        .map(|group| {
            let lanes = group * LANES..((group + 1) * LANES).min(rows.ncols());
            system.solve(rows.slice(s![.., lanes.clone()]), columns.slice(s![.., lanes]), stop)
        })
        .collect::<Result<_, EmbeddingError>>()?;
    for (group, solved) in solved.iter().enumerate() {
        for (mut column, solved) in columns.rows_mut().into_iter().zip(solved) {
            let lanes = column.iter_mut().skip(group * LANES).zip(solved);
            lanes.for_each(|(value, &solved)| *value = solved as f32);
        }
    }
    Ok(())
}

struct System<'a> {
    /// Selected column, rows x subtables.
    selected: &'a [u32],
    subtables: usize,
    /// Diagonal of `B^T B + ridge`.
    diagonal: &'a [f64],
}

impl System<'_> {
    fn solve(&self, rows: ArrayView2<f32>, start: ArrayView2<f32>, stop: Stop) -> Result<Vec<Lanes>, EmbeddingError> {
        let mut solution: Vec<Lanes> = start.rows().into_iter().map(|row| lanes(row.iter())).collect();
        // B^T X - (B^T B + ridge) C = B^T (X - B C) - ridge C
        let mut residual: Vec<Lanes> = solution.iter().map(|column| column.map(|value| -RIDGE * value)).collect();
        for (row, selected) in rows.rows().into_iter().zip(self.selected.chunks_exact(self.subtables)) {
            let sum = sum_of(&solution, selected);
            let row = lanes(row.iter());
            let left: Lanes = std::array::from_fn(|k| row[k] - sum[k]);
            add_to(&mut residual, selected, &left);
        }
        let mut scaled = self.precondition(&residual);
        let mut direction = scaled.clone();
        let mut product = dot(&residual, &scaled);
        let first = product;
        for _ in 0..STEPS {
            stop.check()?;
            let image = self.apply(&direction);
            let curvature = dot(&direction, &image);
            let step = ratio(product, curvature);
            add_scaled(&mut solution, &direction, step);
            add_scaled(&mut residual, &image, step.map(|step| -step));
            scaled = self.precondition(&residual);
            let next = dot(&residual, &scaled);
            if next.iter().zip(&first).all(|(next, first)| next <= &(TOLERANCE * first)) {
                break;
            }
            let keep = ratio(next, product);
            product = next;
            for (direction, scaled) in direction.iter_mut().zip(&scaled) {
                *direction = std::array::from_fn(|k| scaled[k] + keep[k] * direction[k]);
            }
        }
        Ok(solution)
    }

    /// `(B^T B + ridge) v`.
    fn apply(&self, v: &[Lanes]) -> Vec<Lanes> {
        let mut image: Vec<Lanes> = v.iter().map(|column| column.map(|value| RIDGE * value)).collect();
        for selected in self.selected.chunks_exact(self.subtables) {
            let sum = sum_of(v, selected);
            add_to(&mut image, selected, &sum);
        }
        image
    }

    fn precondition(&self, v: &[Lanes]) -> Vec<Lanes> {
        v.iter().zip(self.diagonal).map(|(column, diagonal)| column.map(|value| value / diagonal)).collect()
    }
}

fn lanes<'a>(values: impl Iterator<Item = &'a f32>) -> Lanes {
    let mut lanes = [0.0; LANES];
    lanes.iter_mut().zip(values).for_each(|(lane, &value)| *lane = value.into());
    lanes
}

fn sum_of(v: &[Lanes], selected: &[u32]) -> Lanes {
    let mut sum = [0.0; LANES];
    for &column in selected {
        sum.iter_mut().zip(&v[column as usize]).for_each(|(sum, value)| *sum += value);
    }
    sum
}

fn add_to(v: &mut [Lanes], selected: &[u32], addend: &Lanes) {
    for &column in selected {
        v[column as usize].iter_mut().zip(addend).for_each(|(value, addend)| *value += addend);
    }
}

fn dot(a: &[Lanes], b: &[Lanes]) -> Lanes {
    let mut sum = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        sum.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sum
}

/// Quotient of each lane; zero in lanes that are solved.
fn ratio(a: Lanes, b: Lanes) -> Lanes {
    std::array::from_fn(|k| if b[k] > 0.0 { a[k] / b[k] } else { 0.0 })
}

fn add_scaled(v: &mut [Lanes], addend: &[Lanes], factor: Lanes) {
    for (v, addend) in v.iter_mut().zip(addend) {
        for k in 0..LANES {
            v[k] += factor[k] * addend[k];
        }
    }
}
