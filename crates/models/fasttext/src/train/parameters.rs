//! Dense parameters: subtables and classifier, and their folding.

use unspoken_store::{AdamW, Random};

use super::kernel::{add_scaled, dot};
use crate::shape::Shape;
use crate::stream::Stream;

/// Half-width of the uniform initial values of the subtables and of the classifier.
const START: f32 = 0.1;

/// The `epsilon` of AdamW: far below any gradient here, so that a step does not depend on the gradient's scale.
const EPSILON: f32 = 1e-10;

/// Subtables `M_t` (d x p each) and classifier `W` (classes x d), without bias.
///
/// The forward pass subtracts from each subtable the mean of its columns, so the tables in the loss are centred at
/// every step and so are the folded tables `S_t = W (M_t - mean)`. The loss depends on `M` and `W` only through `S`, so
/// a batch costs a multiple of classes x p for each token, and `d` matters only once per batch, when the gradient is
/// unfolded.
pub(super) struct Parameters {
    shape: Shape,
    dimension: usize,
    /// subtables x columns x dimension
    subtables: Vec<f32>,
    /// classes x dimension
    classifier: Vec<f32>,
    adam: (AdamW, AdamW),
}

/// Folded tables, or their gradient: subtables x classes x columns.
#[derive(Clone)]
pub(super) struct Folded {
    pub(super) classes: usize,
    pub(super) columns: usize,
    pub(super) values: Vec<f32>,
}

impl Folded {
    pub(super) fn zero(shape: Shape) -> Self {
        Self { classes: shape.classes, columns: shape.columns, values: vec![0.0; shape.score_entries()] }
    }

    pub(super) fn row(&self, t: usize, c: usize) -> &[f32] {
        &self.values[(t * self.classes + c) * self.columns..][..self.columns]
    }

    pub(super) fn row_mut(&mut self, t: usize, c: usize) -> &mut [f32] {
        &mut self.values[(t * self.classes + c) * self.columns..][..self.columns]
    }
}

impl Parameters {
    pub(super) fn new(shape: Shape, dimension: usize, seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Tables as u64);
        let mut uniform = |size: usize| -> Vec<f32> { (0..size).map(|_| random.symmetric(START)).collect() };
        let subtables = uniform(shape.subtables * shape.columns * dimension);
        let classifier = uniform(shape.classes * dimension);
        let adam = (AdamW::new(subtables.len(), EPSILON), AdamW::new(classifier.len(), EPSILON));
        Self { shape, dimension, subtables, classifier, adam }
    }

    /// `S_t = W (M_t - mean of its columns)`.
    pub(super) fn fold(&self) -> Folded {
        let mut folded = Folded::zero(self.shape);
        for t in 0..self.shape.subtables {
            let centred = self.centred(t);
            for c in 0..self.shape.classes {
                let weights = self.weights(c);
                let row = folded.row_mut(t, c);
                for (value, column) in row.iter_mut().zip(centred.chunks_exact(self.dimension)) {
                    *value = dot(weights, column);
                }
            }
        }
        folded
    }

    /// One AdamW step from the gradient of the loss with respect to the folded tables.
    pub(super) fn step(&mut self, gradient: &Folded, rate: f32, weight_decay: f32) {
        let (for_subtables, for_classifier) = self.unfold(gradient);
        let (subtables_adam, classifier_adam) = &mut self.adam;
        subtables_adam.step(&mut self.subtables, &for_subtables, rate, weight_decay);
        classifier_adam.step(&mut self.classifier, &for_classifier, rate, weight_decay);
    }

    /// The gradients with respect to subtables and classifier, from that with respect to the folded tables.
    fn unfold(&self, gradient: &Folded) -> (Vec<f32>, Vec<f32>) {
        let dimension = self.dimension;
        let mut for_subtables = vec![0.0; self.subtables.len()];
        let mut for_classifier = vec![0.0; self.classifier.len()];
        let size = self.shape.columns * dimension;
        for (t, block) in for_subtables.chunks_exact_mut(size).enumerate() {
            let centred = self.centred(t);
            for c in 0..self.shape.classes {
                let weights = self.weights(c);
                let for_weights = &mut for_classifier[c * dimension..][..dimension];
                let columns = block.chunks_exact_mut(dimension);
                for ((out, column), &g) in columns.zip(centred.chunks_exact(dimension)).zip(gradient.row(t, c)) {
                    add_scaled(out, g, weights);
                    add_scaled(for_weights, g, column);
                }
            }
            subtract_mean_column(block, dimension);
        }
        (for_subtables, for_classifier)
    }

    fn weights(&self, c: usize) -> &[f32] {
        &self.classifier[c * self.dimension..][..self.dimension]
    }

    fn centred(&self, t: usize) -> Vec<f32> {
        let size = self.shape.columns * self.dimension;
        let mut block = self.subtables[t * size..][..size].to_vec();
        subtract_mean_column(&mut block, self.dimension);
        block
    }
}

/// Subtracts the mean over the columns, each `dimension` long, from every column.
/// This projection is symmetric: it is its own gradient.
fn subtract_mean_column(block: &mut [f32], dimension: usize) {
    let mut mean = vec![0.0; dimension];
    let share = dimension as f32 / block.len() as f32;
    for column in block.chunks_exact(dimension) {
        add_scaled(&mut mean, share, column);
    }
    for column in block.chunks_exact_mut(dimension) {
        add_scaled(column, -1.0, &mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { subtables: 2, columns: 6, classes: 3, max_tokens: 8 };

    #[test]
    fn folded_rows_sum_to_zero() {
        let folded = Parameters::new(SHAPE, 5, 1).fold();
        for row in folded.values.chunks_exact(6) {
            assert!(row.iter().sum::<f32>().abs() < 1e-7);
            assert!(row.iter().any(|value| value.abs() > 1e-4));
        }
    }

    /// For the loss `sum G S`, whose gradient with respect to `S` is `G`, compares the unfolded gradients with finite
    /// differences of the loss.
    #[test]
    fn unfolded_gradients_are_those_of_the_loss() {
        let mut parameters = Parameters::new(SHAPE, 5, 1);
        let mut gradient = Folded::zero(SHAPE);
        let mut random = Random::new(2, Stream::Tables as u64);
        gradient.values.iter_mut().for_each(|g| *g = random.symmetric(1.0));
        let loss = |parameters: &Parameters| -> f64 {
            let folded = parameters.fold();
            let products = folded.values.iter().zip(&gradient.values);
            products.map(|(s, g)| f64::from(*s) * f64::from(*g)).sum()
        };
        let (for_subtables, for_classifier) = parameters.unfold(&gradient);
        // The loss is linear in each parameter, so a wide difference is exact.
        for (index, g) in for_subtables.into_iter().enumerate() {
            let start = loss(&parameters);
            parameters.subtables[index] += 1.0;
            assert!((loss(&parameters) - start - f64::from(g)).abs() < 1e-5);
            parameters.subtables[index] -= 1.0;
        }
        for (index, g) in for_classifier.into_iter().enumerate() {
            let start = loss(&parameters);
            parameters.classifier[index] += 1.0;
            assert!((loss(&parameters) - start - f64::from(g)).abs() < 1e-5);
            parameters.classifier[index] -= 1.0;
        }
    }
}
