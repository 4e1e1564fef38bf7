//! Maps of few arguments: all weights are fitted again.

use nalgebra::{Cholesky, DMatrix};
use ndarray::Array2;

use super::{FOLDS, Refit, WORTHWHILE, errors};
use crate::design::Design;
use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::matrix::SparseMatrix;
use crate::network::{Step, ValueId};

/// Most elements of the arguments of a map: the work grows with the cube.
const MOST_COLUMNS: usize = 512;

/// Calibration rows for each of these elements, at least.
const ROWS_PER_COLUMN: usize = 2;

/// Penalties that are tried, as parts of the mean square of a slot times the number of rows.
const PENALTIES: [f64; 6] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// The normal equations of some rows.
struct Sums {
    /// Arguments with arguments. The last argument is 1.
    gram: DMatrix<f64>,
    /// Arguments with errors.
    right: DMatrix<f64>,
}

/// Whether all weights of a map can be fitted to so many rows.
pub(super) fn is_possible(terms: &[(ValueId, SparseMatrix)], rows: usize) -> bool {
    let columns: usize = terms.iter().map(|(_, matrix)| matrix.columns()).sum();
    let is_dense = |matrix: &SparseMatrix| 2 * matrix.nonzero() > matrix.rows() * matrix.columns();
    columns <= MOST_COLUMNS && columns * ROWS_PER_COLUMN <= rows && terms.iter().all(|(_, matrix)| is_dense(matrix))
}

impl Design {
    /// The change of the map of `value`, in slots (elements of the arguments and then the bias x elements of the
    /// result), with the least errors on rows that are left out, if it is worthwhile.
    pub(super) fn fitted_again(
        &self,
        value: ValueId,
        clear: &[Array2<f64>],
        near: &[Array2<f64>],
    ) -> Option<(DMatrix<f64>, Refit)> {
        let rows = near[value.index()].nrows();
        let slots = |value: ValueId| slots(self.encoding(value), &near[value.index()]);
        let mut known: Vec<f64> = self.network.steps[value.index()].arguments().into_iter().flat_map(slots).collect();
        known.resize(known.len() + rows, 1.0);
        let known = DMatrix::from_vec(rows, known.len() / rows, known);
        let wanted = errors(self.encoding(value), &clear[value.index()], &near[value.index()]);
        let wanted = DMatrix::from_vec(rows, wanted.len() / rows, wanted);
        let folds: Vec<Fold> = (0..FOLDS).map(|fold| Fold::new(&known, &wanted, fold)).collect();
        let sums = Sums::total(folds.iter().map(|fold| &fold.sums));
        let left = |penalty: f64| -> Option<Vec<DMatrix<f64>>> {
            folds.iter().map(|fold| Some(fold.errors(&sums.less(&fold.sums).solve(penalty)?))).collect()
        };
        let squares = |errors: &[DMatrix<f64>]| errors.iter().map(DMatrix::norm_squared).sum::<f64>();
        let fits = PENALTIES.iter().filter_map(|&penalty| Some((penalty, left(penalty)?)));
        let (penalty, left) = fits.min_by(|a, b| squares(&a.1).total_cmp(&squares(&b.1)))?;
        let (before, after) = (wanted.norm_squared(), squares(&left));
        let weights = (after < WORTHWHILE * before).then(|| sums.solve(penalty))??;
        let rms = |squares: f64| (squares / wanted.len() as f64).sqrt();
        let largest = left.iter().map(DMatrix::amax).fold(0.0, f64::max);
        Some((weights, Refit { value, before: rms(before), after: rms(after), largest }))
    }

    /// A map with a change of its weights in slots.
    pub(super) fn with_weights(
        &self,
        (terms, bias): (&[(ValueId, SparseMatrix)], &[f64]),
        value: ValueId,
        change: &DMatrix<f64>,
    ) -> Result<Step, NetworkError> {
        let own = &self.encoding(value).radius;
        let (mut first, mut changed, mut bias) = (0, Vec::with_capacity(terms.len()), bias.to_vec());
        for (argument, matrix) in terms {
            let Encoding { middle, radius } = self.encoding(*argument);
            let of_values = |row: usize, column: usize| change[(first + column, row)] * own[row] / radius[column];
            let more = SparseMatrix::dense((matrix.rows(), matrix.columns()), of_values)?;
            let middle: Vec<f64> = middle.iter().map(|middle| -middle).collect();
            more.add_product(&middle, &mut bias);
            first += matrix.columns();
            changed.push((*argument, matrix.plus(&more)?));
        }
        bias.iter_mut().enumerate().for_each(|(row, bias)| *bias += change[(first, row)] * own[row]);
        Ok(Step::Affine { terms: changed, bias })
    }
}

/// Rows of calibration that are left out together.
struct Fold {
    known: DMatrix<f64>,
    wanted: DMatrix<f64>,
    sums: Sums,
}

impl Fold {
    fn new(known: &DMatrix<f64>, wanted: &DMatrix<f64>, fold: usize) -> Self {
        let rows: Vec<usize> = (fold..known.nrows()).step_by(FOLDS).collect();
        let (known, wanted) = (known.select_rows(&rows), wanted.select_rows(&rows));
        let sums = Sums { gram: known.tr_mul(&known), right: known.tr_mul(&wanted) };
        Fold { known, wanted, sums }
    }

    /// The errors that these weights leave.
    fn errors(&self, weights: &DMatrix<f64>) -> DMatrix<f64> {
        &self.wanted - &self.known * weights
    }
}

impl Sums {
    fn total<'a>(folds: impl Iterator<Item = &'a Sums> + Clone) -> Self {
        Sums { gram: folds.clone().map(|fold| &fold.gram).sum(), right: folds.map(|fold| &fold.right).sum() }
    }

    fn less(&self, fold: &Sums) -> Self {
        Sums { gram: &self.gram - &fold.gram, right: &self.right - &fold.right }
    }

    /// The weights with the least square errors and penalty, if the system can be solved. There is none on the bias.
    fn solve(&self, penalty: f64) -> Option<DMatrix<f64>> {
        let mut gram = self.gram.clone();
        let columns = gram.ncols() - 1;
        let squares: f64 = (0..columns).map(|column| gram[(column, column)]).sum();
        (0..columns).for_each(|column| gram[(column, column)] += penalty * squares / columns as f64);
        Some(Cholesky::new(gram)?.solve(&self.right))
    }
}

/// The slots of a table, by column.
fn slots(encoding: &Encoding, table: &Array2<f64>) -> Vec<f64> {
    let columns = table.columns().into_iter().enumerate();
    columns.flat_map(|(element, column)| column.mapv(|x| encoding.slot(element, x)).into_iter()).collect()
}
