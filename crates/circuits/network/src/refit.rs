//! Dense maps that are fitted again to what polynomials give them.
//!
//! A polynomial in place of a function is wrong in a way that depends on the argument, and much of the error is a
//! linear function of all elements together. A map that takes all these elements can take it away, without a level, a
//! key or a product more. Each map is fitted in its turn, so that its results on calibration rows are those of the
//! network in the clear: layer-wise reconstruction, as it is known from quantised networks (Nagel and others, "Up or
//! Down? Adaptive Rounding for Post-Training Quantization", ICML 2020). The penalty is on the distance from the weights
//! of the model. Cross-validation chooses it, or that the weights stay as they are.

use nalgebra::{Cholesky, DMatrix};
use ndarray::{Array2, ArrayView2, s};

use crate::design::{Activation, Design, Options};
use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::matrix::SparseMatrix;
use crate::network::{Step, ValueId};
use crate::ranges::Ranges;

/// Most elements of the arguments of a map that is fitted again: the work grows with the cube.
const MOST_COLUMNS: usize = 512;

/// Calibration rows for each of these elements, at least.
const ROWS_PER_COLUMN: usize = 2;

/// Calibration rows that are used, at most.
const MOST_ROWS: usize = 8192;

/// Products in the clear for the errors of calibration rows, at most, unless there are few rows; some seconds.
const MOST_WORK: usize = 1 << 32;
const LEAST_ROWS: usize = 128;

/// Parts of the rows for cross-validation.
const FOLDS: usize = 5;

/// Penalties that are tried, as parts of the mean square of a slot times the number of rows.
const PENALTIES: [f64; 6] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// A fit is taken if mean squares of errors on rows that were left out fall to this part of them.
const WORTHWHILE: f64 = 0.9;

/// A map that was fitted again.
#[derive(Clone, Debug, PartialEq)]
pub struct Refit {
    /// The result of the map.
    pub value: ValueId,
    /// Root mean square error of the results before, over the calibration rows; as a part of the radius of their
    /// ranges.
    pub before: f64,
    /// The same after, on rows that were left out of the fit.
    pub after: f64,
    /// The largest error on these rows.
    pub largest: f64,
}

/// The normal equations of some rows.
struct Sums {
    /// Arguments with arguments. The last argument is 1.
    gram: DMatrix<f64>,
    /// Arguments with errors.
    right: DMatrix<f64>,
}

impl Design {
    /// The design with dense maps fitted again to what polynomials give them, on calibration rows (one table for each
    /// input): maps whose arguments all come from polynomials, and have at most 512 elements together and at most one
    /// for every two rows. [`Design::network`] has the new weights, [`Design::original`] those of before.
    ///
    /// `ranges` and `options` are those of the design.
    ///
    /// # Errors
    /// If the tables do not fit, or as for [`Design::new`].
    pub fn refitted(
        &self,
        ranges: &Ranges,
        options: &Options,
        calibration: &[ArrayView2<'_, f64>],
    ) -> Result<Self, NetworkError> {
        let rows = self.network.check_rows(calibration)?.min(MOST_ROWS);
        let inexact = self.inexact();
        let is_candidate = |step: &Step| options.refit && self.is_refittable(step, &inexact, rows);
        let Some(last) = self.network.steps.iter().rposition(is_candidate) else { return Ok(self.clone()) };
        let (mut network, mut refits) = (self.network.clone(), Vec::new());
        let mut inputs = calibration.iter().map(|table| table.slice(s![..rows, ..]).to_owned());
        // All values of the network in the clear, and with polynomials and the maps that were fitted again.
        let (mut clear, mut near) = (Vec::<Array2<f64>>::new(), Vec::<Array2<f64>>::new());
        for (index, step) in self.network.steps.iter().enumerate().take(last + 1) {
            let value = ValueId(index);
            if let Step::Input { .. } = step {
                // Checked: there is a table for each input.
                let table = inputs.next().unwrap_or_default();
                clear.push(table.clone());
                near.push(table);
                continue;
            }
            clear.push(step.of(&clear));
            near.push(self.of(index, &near));
            if let Step::Affine { terms, bias } = step
                && is_candidate(step)
                && let Some((weights, refit)) = self.fitted(value, &clear, &near)
            {
                let changed = self.changed((terms, bias), value, &weights)?;
                near[index] = changed.of(&near);
                network.steps[index] = changed;
                refits.push(refit);
            }
            let later: Vec<ValueId> = self.network.steps[index + 1..].iter().flat_map(Step::arguments).collect();
            for value in step.arguments().iter().filter(|value| !later.contains(value)) {
                (clear[value.index()], near[value.index()]) = Default::default();
            }
        }
        if refits.is_empty() {
            return Ok(self.clone());
        }
        let mut design = Design::new(&network, ranges, options)?;
        (design.original, design.refits) = (Some(self.network.clone()), refits);
        Ok(design)
    }

    /// The outputs for rows with polynomials in place of functions: what a program gives without noise.
    ///
    /// # Errors
    /// As for [`Network::run`](crate::Network::run).
    pub fn run(&self, inputs: &[ArrayView2<'_, f64>]) -> Result<Vec<Array2<f64>>, NetworkError> {
        self.network.run_by(inputs, |index, values| self.of(index, values))
    }

    /// The largest difference that polynomials make to results of calibration rows, as a part of the radius of the
    /// element's range; of maps that were fitted again, on rows that were left out of the fit. Of many rows of a large
    /// network only the first are compared.
    ///
    /// # Errors
    /// If the tables do not fit.
    pub fn error_of_polynomials(&self, calibration: &[ArrayView2<'_, f64>]) -> Result<f64, NetworkError> {
        let entries = |step: &Step| match step {
            Step::Affine { terms, .. } => terms.iter().map(|(_, matrix)| matrix.nonzero()).sum(),
            _ => 0,
        };
        let work = self.network.steps.iter().map(entries).sum::<usize>().max(1);
        let rows = self.network.check_rows(calibration)?.min(MOST_ROWS).min((MOST_WORK / work).max(LEAST_ROWS));
        let first: Vec<ArrayView2<'_, f64>> = calibration.iter().map(|table| table.slice(s![..rows, ..])).collect();
        let results = self.original().run(&first)?.into_iter().zip(self.run(&first)?);
        let mut largest = 0.0f64;
        for ((clear, near), (_, value)) in results.zip(&self.network.outputs) {
            let left_out = self.refits.iter().filter(|refit| refit.value == *value).map(|refit| refit.largest);
            let errors = errors(self.encoding(*value), &clear, &near).into_iter().chain(left_out);
            let worst = |worst: f64, x: f64| if x.is_nan() { f64::INFINITY } else { worst.max(x.abs()) };
            largest = errors.fold(largest, worst);
        }
        Ok(largest)
    }

    /// Whether each value depends on a polynomial that is not exact.
    fn inexact(&self) -> Vec<bool> {
        let mut found = Vec::with_capacity(self.network.steps.len());
        for (step, activation) in self.network.steps.iter().zip(&self.activations) {
            let is_polynomial = matches!(activation, Some(Activation::Same(_) | Activation::Each(_)));
            found.push(is_polynomial || step.arguments().iter().any(|value| found[value.index()]));
        }
        found
    }

    fn is_refittable(&self, step: &Step, inexact: &[bool], rows: usize) -> bool {
        let Step::Affine { terms, .. } = step else { return false };
        let columns: usize = terms.iter().map(|(_, matrix)| matrix.columns()).sum();
        let is_dense = |matrix: &SparseMatrix| 2 * matrix.nonzero() > matrix.rows() * matrix.columns();
        columns <= MOST_COLUMNS
            && columns * ROWS_PER_COLUMN <= rows
            && terms.iter().all(|(value, matrix)| inexact[value.index()] && is_dense(matrix))
    }

    /// A value from those before it, with polynomials in place of functions.
    fn of(&self, index: usize, near: &[Array2<f64>]) -> Array2<f64> {
        let step = &self.network.steps[index];
        let (Step::Function { input, .. }, Some(activation)) = (step, &self.activations[index]) else {
            return step.of(near);
        };
        let polynomial = |element: usize| match activation {
            Activation::Same(polynomial) => Some(polynomial),
            Activation::Each(polynomials) => Some(&polynomials[element]),
            Activation::Power(_) => None,
        };
        if polynomial(0).is_none() {
            return step.of(near);
        }
        let (from, to) = (self.encoding(*input), &self.encodings[index]);
        let mut table = near[input.index()].clone();
        for ((_, element), x) in table.indexed_iter_mut() {
            if let Some(polynomial) = polynomial(element) {
                *x = to.value(element, polynomial.at(from.slot(element, *x).into()).re);
            }
        }
        table
    }

    /// The change of the map of `value`, in slots (elements of the arguments and then the bias x elements of the
    /// result), with the least errors on rows that are left out, if it is worthwhile.
    fn fitted(&self, value: ValueId, clear: &[Array2<f64>], near: &[Array2<f64>]) -> Option<(DMatrix<f64>, Refit)> {
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
    fn changed(
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

/// What is missing to the values in the clear, in slots, by column.
fn errors(encoding: &Encoding, clear: &Array2<f64>, near: &Array2<f64>) -> Vec<f64> {
    let errors = clear - near;
    let columns = errors.columns().into_iter().zip(&encoding.radius);
    columns.flat_map(|(column, radius)| (&column / *radius).into_iter()).collect()
}
