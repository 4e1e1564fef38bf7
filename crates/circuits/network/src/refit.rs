//! Maps that are fitted again to what polynomials give them.
//!
//! A polynomial in place of a function is wrong in a way that depends on the argument. Much of the error is a linear
//! function of all elements together, and the errors of one element have a mean and a slope. The map that takes the
//! elements can take these parts away, without a level, a key or a product more. Each map is fitted in its turn, so
//! that its results on calibration rows are those of the network in the clear: layer-wise reconstruction, as quantised
//! networks have it (Nagel and others, "Up or Down? Adaptive Rounding for Post-Training Quantization", ICML 2020).
//!
//! - A dense map with few arguments gets new weights, with a penalty on the distance from those of the model.
//! - Of other maps, such as convolutions, each result gets a factor and a shift.
//!
//! Cross-validation chooses the penalty, or that weights stay as they are.

mod dense;
mod scale;

use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;
use unspoken_ckks::CkksError;
use unspoken_rlwe::RlweError;

use crate::choose::Progress;
use crate::design::{Activation, Design, Options};
use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::network::{Step, ValueId};
use crate::ranges::Ranges;

/// Calibration rows that are used, at most.
const MOST_ROWS: usize = 8192;

/// Products in the clear for all calibration rows together, at most: some minutes. A few rows are always used.
const MOST_WORK: u64 = 1 << 35;
const LEAST_ROWS: usize = 128;

/// Parts of the rows for cross-validation.
const FOLDS: usize = 5;

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

impl Design {
    /// The design with maps fitted again to what polynomials give them, on calibration rows (one table for each input).
    /// Maps that are dense, and whose arguments have at most 512 elements together and at most one for every two rows,
    /// get new weights; results of other maps get factors and shifts. [`Design::network`] has the new weights,
    /// [`Design::original`] those of before. Of many rows of a large network only the first are used.
    ///
    /// `ranges` and `options` are those of the design. It takes up to minutes: `progress` is called before each step,
    /// and raising `cancel` ends it.
    ///
    /// # Errors
    /// If the tables do not fit, as for [`Design::new`], or [`RlweError::Interrupted`] if it was cancelled.
    pub fn refitted(
        &self,
        ranges: &Ranges,
        options: &Options,
        calibration: &[ArrayView2<'_, f64>],
        progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<Self, NetworkError> {
        let rows = self.rows_for(calibration)?;
        let inexact = self.inexact();
        let takes_errors = |step: &Step| step.arguments().iter().any(|value| inexact[value.index()]);
        let is_candidate = |step: &Step| options.refit && matches!(step, Step::Affine { .. }) && takes_errors(step);
        let Some(last) = self.network.steps.iter().rposition(is_candidate) else { return Ok(self.clone()) };
        let (mut network, mut refits) = (self.network.clone(), Vec::new());
        let mut inputs = calibration.iter().map(|table| table.slice(s![..rows, ..]).to_owned());
        // All values of the network in the clear, and with polynomials and the maps that were fitted again.
        let (mut clear, mut near) = (Vec::<Array2<f64>>::new(), Vec::<Array2<f64>>::new());
        for (index, step) in self.network.steps.iter().enumerate().take(last + 1) {
            check(cancel)?;
            progress(Progress::Fitting { done: index, total: last + 1 });
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
            if is_candidate(step)
                && let Some((changed, refit)) = self.refit(value, &clear, &near)?
            {
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
    /// network only the first are compared. Raising `cancel` ends it.
    ///
    /// # Errors
    /// If the tables do not fit, or [`RlweError::Interrupted`] if it was cancelled.
    pub fn error_of_polynomials(
        &self,
        calibration: &[ArrayView2<'_, f64>],
        cancel: &AtomicBool,
    ) -> Result<f64, NetworkError> {
        let rows = self.rows_for(calibration)?;
        let first: Vec<ArrayView2<'_, f64>> = calibration.iter().map(|table| table.slice(s![..rows, ..])).collect();
        // After a cancellation nothing is computed any more.
        let unless = |index: usize, values: &[Array2<f64>], of: &dyn Fn() -> Array2<f64>| {
            if cancel.load(Ordering::Relaxed) {
                return Array2::zeros((values.first().map_or(0, Array2::nrows), self.network.sizes[index]));
            }
            of()
        };
        let (original, changed) = (self.original(), &self.network);
        let clear = original.run_by(&first, |i, values| unless(i, values, &|| original.steps[i].of(values)))?;
        let near = changed.run_by(&first, |i, values| unless(i, values, &|| self.of(i, values)))?;
        check(cancel)?;
        let results = clear.into_iter().zip(near);
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

    /// The number of calibration rows that are used.
    fn rows_for(&self, calibration: &[ArrayView2<'_, f64>]) -> Result<usize, NetworkError> {
        let entries = |step: &Step| match step {
            Step::Affine { terms, .. } => terms.iter().map(|(_, matrix)| matrix.nonzero()).sum(),
            _ => 0,
        };
        let work = self.network.steps.iter().map(entries).sum::<usize>().max(1) as u64;
        let rows = usize::try_from(MOST_WORK / work).unwrap_or(MOST_ROWS).max(LEAST_ROWS);
        Ok(self.network.check_rows(calibration)?.min(MOST_ROWS).min(rows))
    }

    /// The map of `value` fitted again, if that is worthwhile.
    fn refit(
        &self,
        value: ValueId,
        clear: &[Array2<f64>],
        near: &[Array2<f64>],
    ) -> Result<Option<(Step, Refit)>, NetworkError> {
        let Step::Affine { terms, bias } = &self.network.steps[value.index()] else { return Ok(None) };
        if dense::is_possible(terms, near[value.index()].nrows()) {
            let Some((weights, refit)) = self.fitted_again(value, clear, near) else { return Ok(None) };
            return Ok(Some((self.with_weights((terms, bias), value, &weights)?, refit)));
        }
        let (clear, near) = (&clear[value.index()], &near[value.index()]);
        let Some((lines, refit)) = scale::lines(self.encoding(value), value, clear, near) else { return Ok(None) };
        Ok(Some((scale::scaled((terms, bias), self.encoding(value), &lines), refit)))
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
        let table = &near[input.index()];
        let mut numbers: Vec<f64> = table.iter().copied().collect();
        numbers.par_chunks_mut(table.ncols()).for_each(|row| {
            for (element, x) in row.iter_mut().enumerate() {
                if let Some(polynomial) = polynomial(element) {
                    *x = to.value(element, polynomial.at(from.slot(element, *x).into()).re);
                }
            }
        });
        // As many numbers as before.
        Array2::from_shape_vec(table.dim(), numbers).unwrap_or_default()
    }
}

/// An error if it was cancelled.
fn check(cancel: &AtomicBool) -> Result<(), NetworkError> {
    if cancel.load(Ordering::Relaxed) { Err(CkksError::from(RlweError::Interrupted).into()) } else { Ok(()) }
}

/// What is missing to the values in the clear, in slots, by column.
fn errors(encoding: &Encoding, clear: &Array2<f64>, near: &Array2<f64>) -> Vec<f64> {
    let errors = clear - near;
    let columns = errors.columns().into_iter().zip(&encoding.radius);
    columns.flat_map(|(column, radius)| (&column / *radius).into_iter()).collect()
}
