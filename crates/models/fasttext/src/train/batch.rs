//! Mini-batches: their tokens, pooling, and the loss.

use super::codes::Assignment;
use super::kernel::exp_nonpositive;
use super::parameters::Folded;
use crate::encoder::argmax;

/// One message in training: vocabulary rows and class.
#[derive(Clone)]
pub(super) struct Example {
    pub(super) tokens: Vec<u32>,
    pub(super) class: usize,
}

/// Loss (nats) and correct answers, summed over examples.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) loss: f64,
    pub(super) right: usize,
    pub(super) examples: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.loss += other.loss;
        self.right += other.right;
        self.examples += other.examples;
    }

    pub(super) fn mean_loss(&self) -> f64 {
        self.loss / self.examples.max(1) as f64
    }

    pub(super) fn accuracy(&self) -> f64 {
        self.right as f64 / self.examples.max(1) as f64
    }
}

/// The distinct tokens of a batch and, for each example, their places in that list.
pub(super) struct Batch {
    /// sorted, distinct
    tokens: Vec<u32>,
    /// Share of each token in all words of the batch.
    shares: Vec<f32>,
    places: Vec<Vec<usize>>,
    targets: Vec<usize>,
}

impl Batch {
    pub(super) fn new<'a>(examples: impl Iterator<Item = &'a Example> + Clone) -> Self {
        let mut tokens: Vec<u32> = examples.clone().flat_map(|e| e.tokens.clone()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let place = |token: &u32| tokens.partition_point(|other| other < token);
        let places: Vec<Vec<usize>> =
            examples.clone().map(|example| example.tokens.iter().map(place).collect()).collect();
        let targets = examples.map(|example| example.class).collect();
        let mut shares = vec![0.0; tokens.len()];
        let each = 1.0 / places.iter().map(Vec::len).sum::<usize>() as f32;
        places.iter().flatten().for_each(|&place| shares[place] += each);
        Self { tokens, shares, places, targets }
    }

    /// One training step: mean-pooled scores, softmax, cross-entropy. Returns the gradient, with respect to the folded
    /// tables, of the mean loss of the batch, in which an example counts with the weight of its class, and updates the
    /// assignment.
    pub(super) fn learn(&self, codes: &mut impl Assignment, folded: &Folded, weights: &[f32]) -> (Folded, Tally) {
        let contributions = codes.forward(&self.tokens, folded);
        let mut gradient = vec![0.0; contributions.len()];
        let tally = self.pool(folded.classes, &contributions, |places, target, class_gradient| {
            let share = weights[target] / (places.len() * self.targets.len()) as f32;
            for &place in places {
                let out = &mut gradient[place * folded.classes..][..folded.classes];
                for (out, g) in out.iter_mut().zip(class_gradient) {
                    *out += share * g;
                }
            }
        });
        (codes.backward(&self.tokens, &self.shares, folded, &gradient), tally)
    }

    /// The loss and the correct answers, without learning.
    pub(super) fn judge(&self, codes: &mut impl Assignment, folded: &Folded) -> Tally {
        let contributions = codes.forward(&self.tokens, folded);
        self.pool(folded.classes, &contributions, |_, _, _| ())
    }

    /// Scores each example and calls `each` with the example's places, class and gradient with respect to the pooled
    /// scores.
    fn pool(&self, classes: usize, contributions: &[f32], mut each: impl FnMut(&[usize], usize, &[f32])) -> Tally {
        let mut tally = Tally::default();
        let mut scores = vec![0.0f32; classes];
        for (places, &target) in self.places.iter().zip(&self.targets) {
            scores.fill(0.0);
            for &place in places {
                let input = &contributions[place * classes..][..classes];
                for (score, value) in scores.iter_mut().zip(input) {
                    *score += value;
                }
            }
            let share = 1.0 / places.len() as f32;
            scores.iter_mut().for_each(|score| *score *= share);
            let best = argmax(&scores);
            tally.right += usize::from(best == target);
            tally.examples += 1;
            tally.loss += cross_entropy(&mut scores, best, target);
            each(places, target, &scores);
        }
        tally
    }
}

/// Returns the loss in nats and replaces `scores` by `softmax(scores) - onehot(target)`.
fn cross_entropy(scores: &mut [f32], best: usize, target: usize) -> f64 {
    let (largest, at_target) = (scores[best], scores[target]);
    for score in scores.iter_mut() {
        *score = exp_nonpositive(*score - largest);
    }
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
    scores[target] -= 1.0;
    f64::from(sum).ln() + f64::from(largest - at_target)
}
