//! Logistic regression by Newton's method.

use std::sync::atomic::{AtomicBool, Ordering};

use nalgebra::{Cholesky, DMatrix, DVector};
use ndarray::{Array1, Array2, ArrayView1, Axis, s};

/// The ridge unless the caller gives another: half this times the squared weights is added to the loss of all examples.
pub(crate) const RIDGE: f64 = 1.0;
/// Maximum number of steps; Newton's method needs about seven.
const STEPS: usize = 30;
/// Maximum number of halvings of a step that would raise the loss.
const HALVINGS: usize = 30;
/// Training stops when a step lowers the loss by less than this fraction.
const TOLERANCE: f64 = 1e-10;

/// A linear classifier over standardised features.
pub(crate) struct Logistic {
    mean: Array1<f64>,
    deviation: Array1<f64>,
    /// One weight for each feature, then the constant.
    weights: Array1<f64>,
}

impl Logistic {
    /// Whether the predicted label is the second one.
    pub(crate) fn predict(&self, features: ArrayView1<f64>) -> bool {
        let standard = (&features - &self.mean) / &self.deviation;
        let (weights, constant) = (self.weights.slice(s![..-1]), self.weights[self.weights.len() - 1]);
        weights.dot(&standard) + constant > 0.0
    }

    /// The weights and the constant for features that are not standardised.
    pub(crate) fn linear(&self) -> (Array1<f64>, f64) {
        let (weights, constant) =
            (&self.weights.slice(s![..-1]) / &self.deviation, self.weights[self.weights.len() - 1]);
        let shift = weights.dot(&self.mean);
        (weights, constant - shift)
    }
}

/// Fits weights to features (examples x features) and labels. Raising `cancel` ends the search early.
pub(crate) fn fit(features: &Array2<f64>, labels: &[bool], ridge: f64, cancel: &AtomicBool) -> Logistic {
    let width = features.ncols();
    let mean = features.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(width));
    // A constant feature has the deviation of the rounding of its mean.
    let mut deviation = features.std_axis(Axis(0), 0.0);
    deviation.zip_mut_with(&mean, |d, mean| *d = if *d > 1e-12 * mean.abs() { *d } else { 1.0 });
    let mut inputs = Array2::ones((features.nrows(), width + 1));
    inputs.slice_mut(s![.., ..width]).assign(&((features - &mean) / &deviation));
    let targets: Array1<f64> = labels.iter().map(|&label| f64::from(u8::from(label))).collect();
    let mut weights = Array1::zeros(width + 1);
    let mut loss = loss_of(&inputs, &targets, &weights, ridge);
    for _ in 0..STEPS {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let Some(direction) = newton_step(&inputs, &targets, &weights, ridge) else { break };
        let halved = (0..HALVINGS).map(|halvings| &weights - &(&direction * 0.5f64.powi(halvings as i32)));
        let better = halved.map(|w| (loss_of(&inputs, &targets, &w, ridge), w)).find(|(next, _)| *next < loss);
        let Some((next, better)) = better else { break };
        let done = loss - next < TOLERANCE * loss;
        (loss, weights) = (next, better);
        if done {
            break;
        }
    }
    Logistic { mean, deviation, weights }
}

/// Cross-entropy of all examples, and the ridge.
fn loss_of(inputs: &Array2<f64>, targets: &Array1<f64>, weights: &Array1<f64>, ridge: f64) -> f64 {
    let scores = inputs.dot(weights);
    // log(1 + e^z) - t z, without overflow.
    let example = |(&z, &t): (&f64, &f64)| z.max(0.0) + (-z.abs()).exp().ln_1p() - t * z;
    scores.iter().zip(targets).map(example).sum::<f64>() + 0.5 * ridge * weights.dot(weights)
}

/// The inverse of the Hessian times the gradient.
fn newton_step(inputs: &Array2<f64>, targets: &Array1<f64>, weights: &Array1<f64>, ridge: f64) -> Option<Array1<f64>> {
    let probabilities = inputs.dot(weights).mapv(|z| 1.0 / (1.0 + (-z).exp()));
    let gradient = inputs.t().dot(&(&probabilities - targets)) + weights * ridge;
    let curvatures = probabilities.mapv(|p| (p * (1.0 - p)).sqrt());
    let scaled = inputs * &curvatures.insert_axis(Axis(1));
    let mut hessian = scaled.t().dot(&scaled);
    hessian.diag_mut().mapv_inplace(|d| d + ridge);
    let hessian = DMatrix::from_iterator(hessian.nrows(), hessian.ncols(), hessian.iter().copied());
    let step = Cholesky::new(hessian)?.solve(&DVector::from_iterator(gradient.len(), gradient.iter().copied()));
    Some(Array1::from_iter(step.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_is_stationary_and_tells_the_classes_apart() {
        let features = Array2::from_shape_fn((200, 3), |(i, k)| ((i * 37 + k * 101 + i * i * k) % 83) as f64);
        let noisy = |i: usize| features[[i, 0]] - 0.5 * features[[i, 1]] + (i % 10) as f64 > 20.0;
        let labels: Vec<bool> = (0..200).map(noisy).collect();
        let model = fit(&features, &labels, RIDGE, &AtomicBool::new(false));
        let right = (0..200).filter(|&i| model.predict(features.row(i)) == labels[i]).count();
        assert!(right > 180, "{right}");
        let standard = (&features - &model.mean) / &model.deviation;
        let mut inputs = Array2::ones((200, 4));
        inputs.slice_mut(s![.., ..3]).assign(&standard);
        let targets: Array1<f64> = labels.iter().map(|&l| f64::from(u8::from(l))).collect();
        let step = newton_step(&inputs, &targets, &model.weights, RIDGE).expect("positive definite");
        assert!(step.iter().all(|s| s.abs() < 1e-3), "{step}");
        let (weights, constant) = model.linear();
        for row in features.rows() {
            assert_eq!(weights.dot(&row) + constant > 0.0, model.predict(row));
        }
    }
}
