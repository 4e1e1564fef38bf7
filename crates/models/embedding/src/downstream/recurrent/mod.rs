//! A recurrent classifier: an LSTM cell reads the embeddings of a text in order, and a linear layer its last state.

mod lstm;
mod options;

use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array2, ArrayView2};

use lstm::{Example, Lstm, Optimiser};

pub use options::RecurrentOptions;
use rayon::prelude::*;
use unspoken_store::Random;

use super::part::{Accuracy, Part};
use crate::error::EmbeddingError;
use crate::table::EmbeddingTable;

/// Streams of random numbers.
const WEIGHT_STREAM: u64 = 0;
const CHOICE_STREAM: u64 = 1;
const ORDER_STREAM: u64 = 2;
/// One in this many of the training reviews only chooses the best epoch.
const VALIDATION: usize = 10;
/// Parts of a batch that run in parallel. It is a constant, so that sums do not depend on the number of threads.
const PARTS: usize = 2;
/// Reviews that are judged at once.
const JUDGE_BATCH: usize = 64;

/// Progress of the recurrent classifier, reported after each epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentProgress {
    /// The epoch, from 1.
    pub epoch: usize,
    /// All epochs.
    pub epochs: usize,
    /// Mean cross-entropy of the reviews that choose the best epoch, in nats.
    pub loss: f64,
    /// Accuracy on these reviews.
    pub accuracy: f64,
}

/// Loss (nats) and correct answers, summed over examples.
#[derive(Clone, Copy, Default)]
struct Tally {
    loss: f64,
    right: usize,
    examples: usize,
}

impl Tally {
    fn mean_loss(&self) -> f64 {
        self.loss / self.examples.max(1) as f64
    }

    fn accuracy(&self) -> f64 {
        self.right as f64 / self.examples.max(1) as f64
    }
}

/// Trains on a choice of `train` and measures the accuracy on it and on `test`.
pub(super) fn accuracy(
    train: &Part,
    test: &Part,
    table: &EmbeddingTable,
    options: &RecurrentOptions,
    progress: &mut dyn FnMut(&RecurrentProgress),
    cancel: &AtomicBool,
) -> Result<Accuracy, EmbeddingError> {
    options.check()?;
    let embeddings = scaled(table);
    let all = examples(train, options.max_tokens);
    let chosen = Random::new(options.seed, CHOICE_STREAM).distinct(options.reviews, all.len());
    let chosen: Vec<Example> = chosen.into_iter().map(|index| all[index]).collect();
    let (validation, training) = chosen.split_at(chosen.len() / VALIDATION);
    let mut model = Lstm::new(table.width(), options.hidden, &mut Random::new(options.seed, WEIGHT_STREAM));
    let mut optimiser = Optimiser::new(&model);
    let mut shuffling = Random::new(options.seed, ORDER_STREAM);
    let mut order = training.to_vec();
    let mut best: Option<(f64, Lstm)> = None;
    for epoch in 1..=options.epochs {
        shuffling.shuffle(&mut order);
        for batch in order.chunks(options.batch) {
            if cancel.load(Ordering::Relaxed) {
                return Err(EmbeddingError::Cancelled { step: epoch });
            }
            let gradient = gradient(&model, embeddings.view(), batch);
            optimiser.step(&mut model, &gradient, options.rate);
        }
        // Too few reviews to set some aside: the training part chooses.
        let judge = if validation.is_empty() { training } else { validation };
        let found = judged(&model, embeddings.view(), judge);
        let loss = found.mean_loss();
        if !loss.is_finite() {
            return Err(EmbeddingError::Diverged { epoch });
        }
        progress(&RecurrentProgress { epoch, epochs: options.epochs, loss, accuracy: found.accuracy() });
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, model.clone()));
        }
    }
    let model = best.map_or(model, |(_, model)| model);
    let share = |examples: &[Example]| judged(&model, embeddings.view(), examples).accuracy();
    Ok(Accuracy { training: share(training), held_out: share(&examples(test, options.max_tokens)) })
}

/// The texts of a part, cut, with their labels.
fn examples(part: &Part, max_tokens: usize) -> Vec<Example<'_>> {
    let texts = part.texts.iter().map(|ids| &ids[..ids.len().min(max_tokens)]);
    texts.zip(part.labels.iter().copied()).collect()
}

/// The table, scaled to a mean square of 1, which makes the rate independent of its unit.
fn scaled(table: &EmbeddingTable) -> Array2<f32> {
    let sum: f64 = table.values().iter().map(|&value| f64::from(value).powi(2)).sum();
    let factor = if sum > 0.0 { (table.values().len() as f64 / sum).sqrt() as f32 } else { 1.0 };
    Array2::from_shape_fn((table.tokens().len(), table.width()), |(row, column)| {
        factor * table.values()[row * table.width() + column]
    })
}

/// The gradient of the mean loss of a batch.
fn gradient(model: &Lstm, embeddings: ArrayView2<f32>, batch: &[Example]) -> Lstm {
    let parts: Vec<Lstm> = batch
        .par_chunks(batch.len().div_ceil(PARTS))
        .map(|examples| model.gradient(embeddings, examples, batch.len()))
        .collect();
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_else(|| model.zero());
    parts.fold(first, |mut sum, part| {
        sum.add(&part);
        sum
    })
}

/// The loss and the correct answers.
fn judged(model: &Lstm, embeddings: ArrayView2<f32>, examples: &[Example]) -> Tally {
    let blocks: Vec<Vec<f32>> =
        examples.par_chunks(JUDGE_BATCH).map(|examples| model.logits(embeddings, examples)).collect();
    let mut tally = Tally { examples: examples.len(), ..Tally::default() };
    for (&logit, &(_, label)) in blocks.iter().flatten().zip(examples) {
        let wrong = f64::from(if label { -logit } else { logit });
        // ln(1 + e^x) without overflow.
        tally.loss += wrong.max(0.0) + (-wrong.abs()).exp().ln_1p();
        tally.right += usize::from((logit > 0.0) == label);
    }
    tally
}
