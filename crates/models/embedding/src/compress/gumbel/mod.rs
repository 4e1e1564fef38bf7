//! Compression by an encoder network: Shu and Nakayama, "Compressing word embeddings via deep compositional code
//! learning" (ICLR 2018), Section 4.
//!
//! The encoder maps an embedding to a distribution over the columns of each subtable, relaxed by Gumbel noise and a
//! softmax (Jang, Gu and Poole; Maddison, Mnih and Teh; both ICLR 2017). Encoder and columns are trained together for
//! the least squared error of the reconstruction. The codes are the largest logits, without noise. As in the lookup
//! paper, Appendix D.1, the epoch with the least error of hard codes is kept. Here this is the error of all rows, since
//! all rows are both coded and trained on.

mod network;
mod options;

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, ArrayView2, Axis, s};
use network::{Network, Optimiser};
pub use options::GumbelOptions;
use rayon::prelude::*;
use unspoken_store::Random;

use super::{Phase, Progress, Stop, Watch, assemble, relative_error, rows_of};
use crate::compressed::{CompressedTable, CompressionRecord};
use crate::error::EmbeddingError;
use crate::shape::Shape;
use crate::table::EmbeddingTable;

/// Streams of random numbers: of the weights, of the order of rows, and of the noise of the first batch.
const WEIGHT_STREAM: u64 = 0;
const ORDER_STREAM: u64 = 1;
const NOISE_STREAM: u64 = 2;
/// Parts of a batch that run in parallel. It is a constant, so that sums do not depend on the number of threads.
const PARTS: usize = 4;
/// Number of rows whose codes are computed at once.
const ENCODE_ROWS: usize = 256;

/// Compresses a table by an encoder network. `progress` is called after each epoch; raising `cancel` stops the work at
/// the next batch.
///
/// # Errors
/// [`EmbeddingError::Option`] for an option outside its range, [`EmbeddingError::Cancelled`],
/// [`EmbeddingError::Diverged`].
pub fn compress_by_gumbel(
    table: &EmbeddingTable,
    options: &GumbelOptions,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<CompressedTable, EmbeddingError> {
    let shape = options.shape(table.width())?;
    let mut watch = Watch { progress, cancel, step: 0, steps: options.epochs };
    let rows = rows_of(table)?;
    let scale = scale_of(rows);
    let scaled = rows.mapv(|value| value / scale);
    let mut trainer = Trainer::new(shape, options, scaled);
    let mut best: Option<(f64, Vec<u16>, Array2<f32>)> = None;
    for epoch in 1..=options.epochs {
        trainer.epoch(watch.stop())?;
        let (codes, columns) = (trainer.codes(watch.stop())?, trainer.network.columns.mapv(|value| value * scale));
        let error = relative_error(rows, &codes, shape, &columns);
        if !error.is_finite() {
            return Err(EmbeddingError::Diverged { epoch });
        }
        watch.report(Phase::Train, Some(error));
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, codes, columns));
        }
    }
    let (_, codes, columns) = best.ok_or(EmbeddingError::Diverged { epoch: options.epochs })?;
    let record = CompressionRecord::Gumbel(options.record(table.tokens().len()));
    assemble(table, record, shape, codes, &columns)
}

/// The square root of the mean square of all values, which makes the rate independent of the table's unit; 1 for a
/// table of zeros.
fn scale_of(rows: ArrayView2<f32>) -> f32 {
    let sum: f64 = rows.iter().map(|&value| f64::from(value).powi(2)).sum();
    if sum > 0.0 { (sum / rows.len() as f64).sqrt() as f32 } else { 1.0 }
}

struct Trainer<'a> {
    options: &'a GumbelOptions,
    shape: Shape,
    rows: Array2<f32>,
    network: Network,
    optimiser: Optimiser,
    order: Vec<usize>,
    shuffling: Random,
    /// Number of batches so far.
    batches: u64,
}

impl<'a> Trainer<'a> {
    fn new(shape: Shape, options: &'a GumbelOptions, rows: Array2<f32>) -> Self {
        let network = Network::new(shape, &mut Random::new(options.seed, WEIGHT_STREAM));
        Self {
            optimiser: Optimiser::new(&network),
            order: (0..rows.nrows()).collect(),
            shuffling: Random::new(options.seed, ORDER_STREAM),
            batches: 0,
            options,
            shape,
            rows,
            network,
        }
    }

    /// One pass over all rows in random order.
    fn epoch(&mut self, stop: Stop) -> Result<(), EmbeddingError> {
        self.shuffling.shuffle(&mut self.order);
        for start in (0..self.order.len()).step_by(self.options.batch) {
            stop.check()?;
            let chosen = &self.order[start..(start + self.options.batch).min(self.order.len())];
            let gradient = self.gradient(self.rows.select(Axis(0), chosen).view());
            self.optimiser.step(&mut self.network, &gradient, self.options.rate);
            self.batches += 1;
        }
        Ok(())
    }

    /// The gradient of a batch.
    fn gradient(&self, batch: ArrayView2<f32>) -> Network {
        let part = batch.nrows().div_ceil(PARTS);
        let parts: Vec<_> = batch.axis_chunks_iter(Axis(0), part).enumerate().collect();
        let gradients: Vec<Network> = parts
            .into_par_iter()
            .map(|(number, rows)| {
                let stream = NOISE_STREAM + self.batches * PARTS as u64 + number as u64;
                let mut noise = Random::new(self.options.seed, stream);
                self.network.learn(rows, batch.nrows(), self.options.temperature, &mut noise)
            })
            .collect();
        let mut gradients = gradients.into_iter();
        let first = gradients.next().unwrap_or_else(|| Network::zero(self.shape));
        gradients.fold(first, |mut sum, gradient| {
            sum.add(&gradient);
            sum
        })
    }

    /// The codes of all rows, rows x subtables.
    fn codes(&self, stop: Stop) -> Result<Vec<u16>, EmbeddingError> {
        let blocks = self.rows.nrows().div_ceil(ENCODE_ROWS);
        let block = |block: usize| {
            stop.check()?;
            let first = block * ENCODE_ROWS;
            Ok(self.network.encode(self.rows.slice(s![first..(first + ENCODE_ROWS).min(self.rows.nrows()), ..])))
        };
        let found: Vec<Vec<u16>> = (0..blocks).into_par_iter().map(block).collect::<Result<_, EmbeddingError>>()?;
        Ok(found.concat())
    }
}
