//! Training: cross-entropy, AdamW, and randomly shifted images.

mod block;
mod options;
mod stream;

use std::f32::consts::PI;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Example, LANES, Tally};
pub use options::TrainOptions;
use rayon::prelude::*;
use stream::Stream;
use unspoken_store::{AdamW, Random};

use crate::error::DigitsModelError;
use crate::images::LabelledImages;
use crate::network::{Network, TrainingRecord};
use crate::shape::{KERNEL, Shape};

/// Maximum norm of the gradient of a batch's mean loss; longer gradients are scaled down to it. Without this limit,
/// squares let a bad start diverge quickly.
const LONGEST_GRADIENT: f32 = 2.0;

/// The `epsilon` of AdamW.
const EPSILON: f32 = 1e-8;

/// Progress of training, reported after each epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The epoch, from 1.
    pub epoch: usize,
    /// Number of epochs.
    pub epochs: usize,
    /// Mean cross-entropy of the epoch's training images, in nats.
    pub loss: f64,
    /// Accuracy on the epoch's training images, as they were shifted.
    pub training_accuracy: f64,
    /// Accuracy on the validation images; absent if there are none.
    pub validation_accuracy: Option<f64>,
}

/// Trains a network. `progress` is called after each epoch; raising `cancel` stops at the next batch.
///
/// # Errors
/// [`DigitsModelError::Option`] for an option outside its range, [`DigitsModelError::Diverged`],
/// [`DigitsModelError::Cancelled`].
pub fn fit(
    data: &LabelledImages,
    options: &TrainOptions,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Network, DigitsModelError> {
    options.check(data.len())?;
    let (train, validation) = data.clone().split_last(options.validation);
    let mut weights = start(options.shape, options.seed);
    let mut optimiser = AdamW::new(weights.len(), EPSILON);
    let mut order: Vec<usize> = (0..train.len()).collect();
    let (mut shuffling, mut moving) =
        (Random::new(options.seed, Stream::Order as u64), Random::new(options.seed, Stream::Shifts as u64));
    let batches = train.len().div_ceil(options.batch);
    let mut record = TrainingRecord { seed: options.seed, examples: train.len(), ..TrainingRecord::default() };
    for epoch in 1..=options.epochs {
        shuffling.shuffle(&mut order);
        let mut tally = Tally::default();
        for (batch, indices) in order.chunks(options.batch).enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(DigitsModelError::Cancelled { epoch });
            }
            let mut shift = || moving.below(2 * options.shift + 1) as isize - options.shift as isize;
            let example =
                |&i: &usize| Example { image: &train.images()[i], label: train.labels()[i], shift: (shift(), shift()) };
            let examples: Vec<Example<'_>> = indices.iter().map(example).collect();
            let (gradient, judged) = mean_gradient(options.shape, &weights, &examples);
            let done = ((epoch - 1) * batches + batch) as f32 / (options.epochs * batches) as f32;
            let rate = options.rate * 0.5 * (1.0 + (PI * done).cos());
            optimiser.step(&mut weights, &gradient, rate, options.weight_decay);
            tally.add(judged);
        }
        if !tally.loss.is_finite() || weights.iter().any(|w| !w.is_finite()) {
            return Err(DigitsModelError::Diverged { epoch });
        }
        record.epochs = epoch;
        let network = network(options.shape, &weights, &record)?;
        record.validation_accuracy = (!validation.is_empty()).then(|| network.accuracy(&validation));
        progress(&Progress {
            epoch,
            epochs: options.epochs,
            loss: tally.loss / tally.examples as f64,
            training_accuracy: tally.right as f64 / tally.examples as f64,
            validation_accuracy: record.validation_accuracy,
        });
    }
    network(options.shape, &weights, &record)?.balanced(train.images(), options.activation)
}

fn network(shape: Shape, weights: &[f32], record: &TrainingRecord) -> Result<Network, DigitsModelError> {
    Network::new(shape, weights.iter().map(|&w| f64::from(w)).collect(), record.clone())
}

/// Initial parameters: uniform weights whose sums stay near 1; biases of 0.
fn start(shape: Shape, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, Stream::Start as u64);
    let parts = shape.parts();
    let mut weights = vec![0.0; shape.parameters()];
    let inputs = [(parts.kernel, KERNEL * KERNEL), (parts.dense, shape.features()), (parts.out, shape.hidden)];
    for (range, inputs) in inputs {
        let width = (3.0 / inputs as f32).sqrt();
        weights[range].iter_mut().for_each(|weight| *weight = random.symmetric(width));
    }
    weights
}

/// The gradient of a batch's mean loss. Blocks are computed in parallel and summed in order.
fn mean_gradient(shape: Shape, weights: &[f32], examples: &[Example<'_>]) -> (Vec<f32>, Tally) {
    let blocks: Vec<_> = examples.par_chunks(LANES).map(|block| block::gradient(shape, weights, block)).collect();
    let (mut sum, mut tally) = (vec![0.0f32; weights.len()], Tally::default());
    for (gradient, judged) in blocks {
        sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
        tally.add(judged);
    }
    let mean = 1.0 / examples.len() as f32;
    let length = mean * sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    let scale = mean * (LONGEST_GRADIENT / length).min(1.0);
    sum.iter_mut().for_each(|x| *x *= scale);
    (sum, tally)
}
