//! Compression by additive quantisation.
//!
//! The compressed form and the objective come from Shu and Nakayama (2018), *Compressing word embeddings via deep
//! compositional code learning*: `M_j ~ sum_t M^(t)[:, j_t]`, least mean squared error. They learn the codes with an
//! encoder network (the other method of this crate). Here codes are found by alternating minimisation (Babenko and
//! Lempitsky 2014; Martinez et al. 2016, 2018):
//!
//! 1. *Start*: subtable `t` is the k-means of the residual of the subtables before.
//! 2. *Refine*, repeatedly: compute subtables by least squares with fixed codes; move columns that no row uses to the
//!    rows with the largest errors; compute codes by iterated conditional modes with fixed subtables, from the present
//!    code and from random changes of this code.

mod fit;
mod options;
mod search;
mod start;

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, ArrayView2};

pub use options::CompressOptions;
use search::Search;

use super::{Phase, Progress, Stop, Watch, assemble, products, relative_error, residual, rows_of, squared_errors};
use crate::compressed::{AdditiveRecord, CompressedTable, CompressionRecord};
use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::table::EmbeddingTable;

const FIRST_ROUND_STREAM: u64 = 1;

/// Compresses a table by additive quantisation. `progress` is called after each step; raising `cancel` stops the work
/// within a fraction of a second.
///
/// # Errors
/// [`EmbeddingError::Option`] for an option outside its range, [`EmbeddingError::Cancelled`].
pub fn compress(
    table: &EmbeddingTable,
    options: &CompressOptions,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<CompressedTable, EmbeddingError> {
    let shape = options.shape(table.width())?;
    let steps = options.subtables * options.start_rounds + options.rounds;
    let mut watch = Watch { progress, cancel, step: 0, steps };
    let rows = rows_of(table)?;
    let parts = (shape.subtables, shape.columns);
    let (mut columns, mut codes) =
        start::residual_k_means(rows, parts, options.start_rounds, options.seed, &mut watch)?;
    for stream in (FIRST_ROUND_STREAM..).take(options.rounds) {
        fit::least_squares(rows, &codes, parts, &mut columns, watch.stop())?;
        revive(rows, &mut codes, shape, &mut columns);
        let search = Search::new(shape, columns.view(), watch.stop())?;
        search.improve(rows, &mut codes, options.trials, (options.seed, stream), watch.stop())?;
        watch.report(Phase::Refine, Some(relative_error(rows, &codes, shape, &columns)));
    }
    fit::least_squares(rows, &codes, parts, &mut columns, watch.stop())?;
    let record = AdditiveRecord {
        seed: options.seed,
        start_rounds: options.start_rounds,
        rounds: options.rounds,
        trials: options.trials,
        tokens: table.tokens().len(),
    };
    assemble(table, CompressionRecord::Additive(record), shape, codes, &columns)
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
