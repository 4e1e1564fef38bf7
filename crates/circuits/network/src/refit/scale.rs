//! Other maps: each result gets a factor and a shift.

use ndarray::{Array2, ArrayView1};
use rayon::prelude::*;

use super::{FOLDS, Refit, WORTHWHILE};
use crate::encoding::Encoding;
use crate::matrix::SparseMatrix;
use crate::network::{Step, ValueId};

/// Least variance of a slot that is given a factor, too.
const LEAST_VARIANCE: f64 = 1e-12;

/// Largest magnitude of a slope: a result keeps at least half of its weights.
const MOST_SLOPE: f64 = 0.5;

/// What is added to a slot `x`: `slope * x + shift`.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    slope: f64,
    shift: f64,
}

/// A line for one result, and its errors: squares before, and on rows that are left out, and the largest of these.
struct Fitted {
    line: Line,
    before: f64,
    after: f64,
    largest: f64,
}

/// Sums over rows of slots `x` and errors `e`.
#[derive(Clone, Copy, Default)]
struct Sums {
    rows: f64,
    x: f64,
    e: f64,
    xx: f64,
    xe: f64,
}

impl Sums {
    fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        pairs.fold(Sums::default(), |sums, (x, e)| Sums {
            rows: sums.rows + 1.0,
            x: sums.x + x,
            e: sums.e + e,
            xx: sums.xx + x * x,
            xe: sums.xe + x * e,
        })
    }

    fn plus(self, other: Sums, sign: f64) -> Sums {
        Sums {
            rows: self.rows + sign * other.rows,
            x: self.x + sign * other.x,
            e: self.e + sign * other.e,
            xx: self.xx + sign * other.xx,
            xe: self.xe + sign * other.xe,
        }
    }

    /// The line with the least square errors.
    fn line(self) -> Line {
        if self.rows == 0.0 {
            return Line::default();
        }
        let (x, e) = (self.x / self.rows, self.e / self.rows);
        let variance = self.xx / self.rows - x * x;
        let slope = if variance > LEAST_VARIANCE { (self.xe / self.rows - x * e) / variance } else { 0.0 };
        let slope = slope.clamp(-MOST_SLOPE, MOST_SLOPE);
        Line { slope, shift: e - slope * x }
    }
}

impl Line {
    fn rest(self, (x, e): (f64, f64)) -> f64 {
        e - self.slope * x - self.shift
    }
}

/// The lines of all results of a map, if they are worthwhile on rows that are left out. Results that they do not help
/// have lines of 0.
pub(super) fn lines(
    encoding: &Encoding,
    value: ValueId,
    clear: &Array2<f64>,
    near: &Array2<f64>,
) -> Option<(Vec<Line>, Refit)> {
    let of = |element: usize| fitted(encoding, element, clear.column(element), near.column(element));
    let fitted: Vec<Fitted> = (0..near.ncols()).into_par_iter().map(of).collect();
    let (before, after) = fitted.iter().fold((0.0, 0.0), |sums, one| (sums.0 + one.before, sums.1 + one.after));
    let largest = fitted.iter().map(|one| one.largest).fold(0.0, f64::max);
    let rms = |squares: f64| (squares / near.len() as f64).sqrt();
    let refit = Refit { value, before: rms(before), after: rms(after), largest };
    (after < WORTHWHILE * before).then(|| (fitted.into_iter().map(|one| one.line).collect(), refit))
}

fn fitted(encoding: &Encoding, element: usize, clear: ArrayView1<'_, f64>, near: ArrayView1<'_, f64>) -> Fitted {
    let pair = |row: usize| (encoding.slot(element, near[row]), (clear[row] - near[row]) / encoding.radius[element]);
    let rows = |fold: usize| (fold..near.len()).step_by(FOLDS);
    let folds: Vec<Sums> = (0..FOLDS).map(|fold| Sums::of(rows(fold).map(pair))).collect();
    let all = folds.iter().fold(Sums::default(), |sums, fold| sums.plus(*fold, 1.0));
    let (mut before, mut after, mut largest, mut largest_before) = (0.0, 0.0, 0.0f64, 0.0f64);
    for (fold, sums) in folds.iter().enumerate() {
        let line = all.plus(*sums, -1.0).line();
        for (x, e) in rows(fold).map(pair) {
            let rest = line.rest((x, e));
            (before, after) = (before + e * e, after + rest * rest);
            (largest, largest_before) = (largest.max(rest.abs()), largest_before.max(e.abs()));
        }
    }
    if after < WORTHWHILE * before {
        Fitted { line: all.line(), before, after, largest }
    } else {
        Fitted { line: Line::default(), before, after: before, largest: largest_before }
    }
}

/// A map with these lines.
pub(super) fn scaled((terms, bias): (&[(ValueId, SparseMatrix)], &[f64]), encoding: &Encoding, lines: &[Line]) -> Step {
    let divisors: Vec<f64> = lines.iter().map(|line| (1.0 + line.slope).recip()).collect();
    let of_term = |(argument, matrix): &(ValueId, SparseMatrix)| {
        (*argument, matrix.rescaled(&divisors, &vec![1.0; matrix.columns()]))
    };
    let results = bias.iter().zip(lines).zip(encoding.middle.iter().zip(&encoding.radius));
    // With `slot = (z - middle) / radius`, the result is `z + radius (slope slot + shift)`.
    let shifted = |((bias, line), (middle, radius)): ((&f64, &Line), (&f64, &f64))| {
        (1.0 + line.slope) * bias - line.slope * middle + radius * line.shift
    };
    Step::Affine { terms: terms.iter().map(of_term).collect(), bias: results.map(shifted).collect() }
}
