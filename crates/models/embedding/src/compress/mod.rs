//! Compression by additive quantisation.
//!
//! The compressed form and the objective are those of Shu and Nakayama (2018), *Compressing word embeddings via deep
//! compositional code learning*: `M_j ~ sum_t M^(t)[:, j_t]`, least mean squared error. They learn the codes with an
//! encoder network and Gumbel noise. Here codes are found by alternating minimisation (Babenko and Lempitsky 2014;
//! Martinez et al. 2016, 2018), which needs minutes on two cores instead of hours of GPU time:
//!
//! 1. *Start*: subtable `t` is the k-means of the residual of the previous ones.
//! 2. *Refine*, repeatedly: compute subtables by least squares with fixed codes; move columns that no row uses to the
//!    rows with the largest errors; compute codes by iterated conditional modes with fixed subtables, from the present
//!    code and from random changes of it.

mod fit;
mod options;
mod products;
mod search;
mod start;

use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array2, ArrayView2};
pub use options::CompressOptions;
use search::Search;

use crate::codes::TokenCodes;
use crate::compressed::{CompressedTable, CompressionRecord, model_id};
use crate::error::CompressError;
use crate::shape::Shape;
use crate::subtables::Subtables;
use crate::table::EmbeddingTable;

/// Streams of random numbers: of the start, and of the first round.
const START_STREAM: u64 = 0;
const FIRST_ROUND_STREAM: u64 = 1;

/// The two phases of compression, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Residual k-means.
    Start,
    /// Alternating minimisation.
    Refine,
}

/// Progress of compression, reported after each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The phase of this step.
    pub phase: Phase,
    /// The step, from 1, counted over both phases.
    pub step: usize,
    /// Steps of both phases.
    pub steps: usize,
    /// `|M - M'|^2 / |M|^2` (Frobenius) of the present codes and subtables; absent until all exist.
    pub relative_error: Option<f64>,
}

/// Compresses a table. `progress` is called after each step; raising `cancel` stops the work within a fraction of a
/// second.
///
/// # Errors
/// [`CompressError::Option`] for an option outside its range, [`CompressError::Cancelled`].
pub fn compress(
    table: &EmbeddingTable,
    options: &CompressOptions,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<CompressedTable, CompressError> {
    let shape = options.shape(table.width())?;
    let steps = options.subtables * options.start_rounds + options.rounds;
    let mut watch = Watch { progress, cancel, step: 0, steps };
    let dimensions = (table.tokens().len(), table.width());
    let rows = ArrayView2::from_shape(dimensions, table.values()).map_err(|error| CompressError::Option {
        name: "table",
        found: error.to_string(),
        needed: "whole rows".into(),
    })?;
    let parts = (shape.subtables, shape.columns);
    let (mut columns, mut codes) =
        start::residual_k_means(rows, parts, options.start_rounds, options.seed, &mut watch)?;
    for stream in (FIRST_ROUND_STREAM..).take(options.rounds) {
        fit::least_squares(rows, &codes, parts, &mut columns, watch.stop())?;
        revive(rows, &mut codes, shape, &mut columns);
        let search = Search::new(shape, columns.view(), watch.stop())?;
        search.improve(rows, &mut codes, options.trials, (options.seed, stream), watch.stop())?;
        watch.refine_round(relative_error(rows, &codes, shape, &columns));
    }
    fit::least_squares(rows, &codes, parts, &mut columns, watch.stop())?;
    assemble(table, options, shape, codes, &columns)
}

/// Progress callback and cancellation.
struct Watch<'a> {
    progress: &'a mut dyn FnMut(&Progress),
    cancel: &'a AtomicBool,
    step: usize,
    steps: usize,
}

impl Watch<'_> {
    fn stop(&self) -> Stop<'_> {
        Stop { cancel: self.cancel, step: self.step + 1 }
    }

    fn start_round(&mut self) {
        self.report(Phase::Start, None);
    }

    fn refine_round(&mut self, relative_error: f64) {
        self.report(Phase::Refine, Some(relative_error));
    }

    fn report(&mut self, phase: Phase, relative_error: Option<f64>) {
        self.step += 1;
        (self.progress)(&Progress { phase, step: self.step, steps: self.steps, relative_error });
    }
}

/// Cancellation flag that parallel work checks regularly.
#[derive(Clone, Copy)]
struct Stop<'a> {
    cancel: &'a AtomicBool,
    step: usize,
}

impl Stop<'_> {
    fn check(&self) -> Result<(), CompressError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(CompressError::Cancelled { step: self.step });
        }
        Ok(())
    }
}

/// Writes `x - sum_t c_t(j_t)` to `left`, for the row of this index.
fn residual(rows: ArrayView2<f32>, row: usize, codes: &[u16], shape: Shape, columns: &Array2<f32>, left: &mut [f32]) {
    left.iter_mut().zip(rows.row(row)).for_each(|(left, &value)| *left = value);
    for (t, &code) in codes[row * shape.subtables..][..shape.subtables].iter().enumerate() {
        let column = columns.row(t * shape.columns + usize::from(code));
        left.iter_mut().zip(column).for_each(|(left, value)| *left -= value);
    }
}

/// The squared error of each row.
fn squared_errors(rows: ArrayView2<f32>, codes: &[u16], shape: Shape, columns: &Array2<f32>) -> Vec<f64> {
    let mut left = vec![0.0; shape.width];
    let error = |row| {
        residual(rows, row, codes, shape, columns, &mut left);
        left.iter().map(|&value| f64::from(value).powi(2)).sum()
    };
    (0..rows.nrows()).map(error).collect()
}

/// `|M - M'|^2 / |M|^2`; 0 for a table of zeros.
fn relative_error(rows: ArrayView2<f32>, codes: &[u16], shape: Shape, columns: &Array2<f32>) -> f64 {
    let error: f64 = squared_errors(rows, codes, shape, columns).iter().sum();
    let all: f64 = rows.iter().map(|&value| f64::from(value).powi(2)).sum();
    if all > 0.0 { error / all } else { 0.0 }
}

/// Moves each column that no row uses to one of the rows with the largest errors, which it then represents exactly.
fn revive(rows: ArrayView2<f32>, codes: &mut [u16], shape: Shape, columns: &mut Array2<f32>) {
    let mut used = vec![false; shape.all_columns()];
    for (i, &code) in codes.iter().enumerate() {
        used[(i % shape.subtables) * shape.columns + usize::from(code)] = true;
    }
    let unused: Vec<usize> = (0..used.len()).filter(|&column| !used[column]).collect();
    if unused.is_empty() {
        return;
    }
    let errors = squared_errors(rows, codes, shape, columns);
    let mut worst: Vec<usize> = (0..errors.len()).filter(|&row| errors[row] > 0.0).collect();
    worst.sort_unstable_by(|&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let mut left = vec![0.0; shape.width];
    for (&column, &row) in unused.iter().zip(&worst) {
        let (t, entry) = (column / shape.columns, column % shape.columns);
        residual(rows, row, codes, shape, columns, &mut left);
        let old = t * shape.columns + usize::from(codes[row * shape.subtables + t]);
        for (k, &left) in left.iter().enumerate() {
            columns[[column, k]] = columns[[old, k]] + left;
        }
        codes[row * shape.subtables + t] = entry as u16;
    }
}

/// Builds the two halves.
fn assemble(
    table: &EmbeddingTable,
    options: &CompressOptions,
    shape: Shape,
    codes: Vec<u16>,
    columns: &Array2<f32>,
) -> Result<CompressedTable, CompressError> {
    // Transpose each subtable from one column per row to rows x columns.
    let mut values = Vec::with_capacity(shape.all_columns() * shape.width);
    for t in 0..shape.subtables {
        let first = t * shape.columns;
        let entry = |r: usize| (first..first + shape.columns).map(move |column| columns[[column, r]]);
        values.extend((0..shape.width).flat_map(entry));
    }
    let id = model_id(table.tokens(), &codes, &values);
    let record = CompressionRecord {
        seed: options.seed,
        start_rounds: options.start_rounds,
        rounds: options.rounds,
        trials: options.trials,
        tokens: table.tokens().len(),
    };
    let codes = TokenCodes::new(id, shape, table.tokens().clone(), codes)?;
    let subtables = Subtables::new(id, shape, values)?;
    Ok(CompressedTable::join(codes, subtables, record)?)
}
