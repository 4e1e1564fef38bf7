//! The encoder network and the columns it selects.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, Axis, Zip};
use unspoken_store::{AdamW, Random};

use crate::shape::Shape;

/// Half-width of the uniform initial values of the columns of a table whose mean square is 1.
const COLUMN_START: f32 = 0.01;
/// Least value of the softplus whose logarithm is taken.
const LEAST: f32 = 1e-30;
/// Of Adam: far below any gradient.
const EPSILON: f32 = 1e-10;

/// Parameters of the network, or the gradient with respect to them.
///
/// `h = tanh(W x + b)`, `a = softplus(V h + c)`, one number for each column of each subtable; `q_t = softmax((ln a_t +
/// noise) / temperature)`, and the reconstruction `sum_t C_t q_t`.
#[derive(Clone)]
pub(super) struct Network {
    shape: Shape,
    /// `W`, hidden x width, and `b`
    hidden: Dense,
    /// `V`, all columns x hidden, and `c`
    logits: Dense,
    /// all columns x width
    pub(super) columns: Array2<f32>,
}

/// Values of a forward pass, one row for each row of the table.
struct Pass {
    hidden: Array2<f32>,
    /// The derivative of `ln a` with respect to the logit, for each column.
    slopes: Array2<f32>,
    q: Array2<f32>,
    /// Reconstruction minus row.
    error: Array2<f32>,
}

#[derive(Clone)]
struct Dense {
    /// outputs x inputs
    weights: Array2<f32>,
    biases: Array1<f32>,
}

impl Dense {
    fn zero(outputs: usize, inputs: usize) -> Self {
        Self { weights: Array2::zeros((outputs, inputs)), biases: Array1::zeros(outputs) }
    }

    /// `x W^T + b` for each row `x`.
    fn apply(&self, rows: ArrayView2<f32>) -> Array2<f32> {
        let mut outputs = Array2::zeros((rows.nrows(), self.biases.len()));
        outputs.rows_mut().into_iter().for_each(|mut row| row.assign(&self.biases));
        general_mat_mul(1.0, &rows, &self.weights.t(), 1.0, &mut outputs);
        outputs
    }

    /// The gradient with respect to the layer, from that with respect to its outputs.
    fn gradient(inputs: ArrayView2<f32>, outputs: &Array2<f32>) -> Self {
        Self { weights: product(outputs.t(), inputs), biases: outputs.sum_axis(Axis(0)) }
    }
}

impl Network {
    pub(super) fn zero(shape: Shape) -> Self {
        let (width, all) = (shape.width, shape.all_columns());
        // Shu and Nakayama, Section 4.2.
        let hidden = all / 2;
        Self {
            shape,
            hidden: Dense::zero(hidden, width),
            logits: Dense::zero(all, hidden),
            columns: Array2::zeros((all, width)),
        }
    }

    /// Random parameters (Glorot and Bengio).
    pub(super) fn new(shape: Shape, random: &mut Random) -> Self {
        let mut network = Self::zero(shape);
        for weights in [&mut network.hidden.weights, &mut network.logits.weights] {
            let half_width = (6.0 / (weights.nrows() + weights.ncols()) as f32).sqrt();
            weights.mapv_inplace(|_| random.symmetric(half_width));
        }
        network.columns.mapv_inplace(|_| random.symmetric(COLUMN_START));
        network
    }

    /// The code of each row, rows x subtables: the columns of the largest logits.
    pub(super) fn encode(&self, rows: ArrayView2<f32>) -> Vec<u16> {
        let logits = self.logits.apply(self.hidden.apply(rows).mapv(f32::tanh).view());
        let logits = logits.as_slice().unwrap_or_default();
        logits.chunks_exact(self.shape.columns).map(largest).collect()
    }

    /// The forward pass of some rows of a batch, with noise.
    fn forward(&self, rows: ArrayView2<f32>, temperature: f32, random: &mut Random) -> Pass {
        let hidden = self.hidden.apply(rows).mapv(f32::tanh);
        let mut slopes = self.logits.apply(hidden.view());
        let mut q = slopes.clone();
        Zip::from(&mut q).and(&mut slopes).for_each(|weight, slope| {
            (*weight, *slope) = softplus(*slope);
            // Gumbel noise is minus the logarithm of an exponentially distributed number.
            *weight /= random.exponential() as f32;
        });
        for mut row in q.rows_mut() {
            let row = row.as_slice_mut().unwrap_or_default().chunks_exact_mut(self.shape.columns);
            row.for_each(|weights| softmax_of_logarithms(weights, temperature));
        }
        let mut error = product(q.view(), self.columns.view());
        error -= &rows;
        Pass { hidden, slopes, q, error }
    }

    /// The gradient of half the mean squared error of a batch of `batch` rows, for some of these rows.
    pub(super) fn learn(&self, rows: ArrayView2<f32>, batch: usize, temperature: f32, random: &mut Random) -> Self {
        let Pass { hidden, slopes, q, mut error } = self.forward(rows, temperature, random);
        error /= batch as f32;
        let mut by_logit = product(error.view(), self.columns.t());
        for (mut gradient, q) in by_logit.rows_mut().into_iter().zip(q.rows()) {
            let gradient = gradient.as_slice_mut().unwrap_or_default().chunks_exact_mut(self.shape.columns);
            let q = q.to_slice().unwrap_or_default().chunks_exact(self.shape.columns);
            gradient.zip(q).for_each(|(gradient, q)| through_softmax(q, gradient));
        }
        Zip::from(&mut by_logit).and(&slopes).for_each(|g, slope| *g *= slope / temperature);
        let mut by_hidden = product(by_logit.view(), self.logits.weights.view());
        Zip::from(&mut by_hidden).and(&hidden).for_each(|g, &h| *g *= 1.0 - h * h);
        Self {
            shape: self.shape,
            hidden: Dense::gradient(rows, &by_hidden),
            logits: Dense::gradient(hidden.view(), &by_logit),
            columns: product(q.t(), error.view()),
        }
    }

    /// Adds another gradient.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, addend) in self.tensors_mut().into_iter().zip(other.tensors()) {
            sum.iter_mut().zip(addend).for_each(|(sum, addend)| *sum += addend);
        }
    }

    fn tensors(&self) -> [&[f32]; 5] {
        let Self { hidden, logits, columns, .. } = self;
        let (w, b, v, c) = (&hidden.weights, &hidden.biases, &logits.weights, &logits.biases);
        [w.as_slice(), b.as_slice(), v.as_slice(), c.as_slice(), columns.as_slice()].map(Option::unwrap_or_default)
    }

    fn tensors_mut(&mut self) -> [&mut [f32]; 5] {
        let Self { hidden, logits, columns, .. } = self;
        let (w, b, v, c) = (&mut hidden.weights, &mut hidden.biases, &mut logits.weights, &mut logits.biases);
        [w.as_slice_mut(), b.as_slice_mut(), v.as_slice_mut(), c.as_slice_mut(), columns.as_slice_mut()]
            .map(Option::unwrap_or_default)
    }
}

/// The state of Adam for a network.
pub(super) struct Optimiser([AdamW; 5]);

impl Optimiser {
    pub(super) fn new(network: &Network) -> Self {
        Self(network.tensors().map(|tensor| AdamW::new(tensor.len(), EPSILON)))
    }

    /// One step of Adam, without decay of weights.
    pub(super) fn step(&mut self, network: &mut Network, gradient: &Network, rate: f32) {
        let tensors = network.tensors_mut().into_iter().zip(gradient.tensors());
        for (adam, (weights, gradient)) in self.0.iter_mut().zip(tensors) {
            adam.step(weights, gradient, rate, 0.0);
        }
    }
}

/// The product of two matrices, row by row in memory: `dot` chooses another order for some shapes.
fn product(a: ArrayView2<f32>, b: ArrayView2<f32>) -> Array2<f32> {
    let mut out = Array2::zeros((a.nrows(), b.ncols()));
    general_mat_mul(1.0, &a, &b, 0.0, &mut out);
    out
}

/// `softplus(u) = ln(1 + e^u)`, above 0, and the derivative of its logarithm.
fn softplus(u: f32) -> (f32, f32) {
    let small = (-u.abs()).exp();
    let value = (u.max(0.0) + small.ln_1p()).max(LEAST);
    let sigmoid = if u < 0.0 { small } else { 1.0 } / (1.0 + small);
    (value, sigmoid / value)
}

/// Replaces weights above 0 by the softmax of their logarithms.
fn softmax_of_logarithms(weights: &mut [f32], temperature: f32) {
    let largest = weights.iter().copied().fold(0.0, f32::max);
    weights.iter_mut().for_each(|weight| *weight = (*weight / largest).powf(1.0 / temperature));
    let sum: f32 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// Replaces the gradient `g` with respect to a softmax `q` by that with respect to its logits, `q (g - q.g)`.
fn through_softmax(q: &[f32], gradient: &mut [f32]) {
    let mean: f32 = q.iter().zip(&*gradient).map(|(q, g)| q * g).sum();
    gradient.iter_mut().zip(q).for_each(|(g, q)| *g = q * (*g - mean));
}

/// The index of the largest entry, the first of equals.
fn largest(row: &[f32]) -> u16 {
    let best =
        row.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (j, &u)| if u > best.1 { (j, u) } else { best });
    best.0 as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { subtables: 2, columns: 4, width: 3 };

    #[test]
    fn gradients_are_those_of_the_loss() {
        let mut random = Random::new(1, 2);
        let mut network = Network::new(SHAPE, &mut random);
        network.columns.mapv_inplace(|_| random.symmetric(1.0));
        network.logits.biases.mapv_inplace(|_| random.symmetric(1.0));
        let rows = Array2::from_shape_fn((5, 3), |_| random.symmetric(1.0));
        // The same stream gives the same noise.
        let noise = || Random::new(3, 4);
        let loss = |network: &Network| {
            let pass = network.forward(rows.view(), 0.7, &mut noise());
            pass.error.iter().map(|&error| f64::from(error).powi(2)).sum::<f64>() / 16.0
        };
        let gradient = network.learn(rows.view(), 8, 0.7, &mut noise());
        assert!(loss(&network) > 0.01);
        for tensor in 0..5 {
            for index in 0..gradient.tensors()[tensor].len() {
                let mut moved = |by: f32| {
                    network.tensors_mut()[tensor][index] += by;
                    let loss = loss(&network);
                    network.tensors_mut()[tensor][index] -= by;
                    loss
                };
                let difference = (moved(0.01) - moved(-0.01)) / 0.02;
                let found = f64::from(gradient.tensors()[tensor][index]);
                assert!((found - difference).abs() < 2e-5 + 1e-2 * difference.abs(), "{tensor}: {found} {difference}");
            }
        }
    }

    #[test]
    fn gradients_of_every_number_of_rows_are_whole() {
        let network = Network::new(SHAPE, &mut Random::new(1, 2));
        let rows = Array2::from_shape_simple_fn((3, 3), || 1.0);
        for count in 1..=3 {
            let rows = rows.slice(ndarray::s![..count, ..]);
            let gradient = network.learn(rows, count, 1.0, &mut Random::new(3, 4));
            assert!(gradient.tensors().iter().zip(network.tensors()).all(|(g, w)| g.len() == w.len()));
            assert!(gradient.tensors().iter().all(|tensor| tensor.iter().any(|g| *g != 0.0)));
        }
    }

    #[test]
    fn codes_are_the_largest_logits() {
        let mut network = Network::zero(SHAPE);
        network.logits.biases.assign(&ndarray::array![0.0, 2.0, 1.0, 2.0, -1.0, -2.0, -3.0, -0.5]);
        assert_eq!(network.encode(Array2::zeros((2, 3)).view()), [1, 3, 1, 3]);
    }

    #[test]
    fn softplus_and_its_slope_stay_finite() {
        for u in [-1e4f32, -200.0, -1.0, 0.0, 1.0, 200.0, 1e4] {
            let (value, slope) = softplus(u);
            assert!(value > 0.0 && value.is_finite() && (0.0..=1.0001).contains(&slope), "{u}: {value} {slope}");
        }
        let (value, slope) = softplus(1.0);
        assert!((value - 1.313_261_7).abs() < 1e-6 && (slope - 0.556_677_1).abs() < 1e-5, "{value} {slope}");
    }

    #[test]
    fn weights_of_any_size_become_probabilities() {
        let mut weights = [1.0, 4.0, 1e-37, 4.0];
        softmax_of_logarithms(&mut weights, 2.0);
        assert!((weights[0] - 0.2).abs() < 1e-6 && (weights[1] - 0.4).abs() < 1e-6 && weights[2] < 1e-15);
        let mut weights = [1e30, 2e30];
        softmax_of_logarithms(&mut weights, 0.01);
        assert!(weights[0] < 1e-20 && weights[1] == 1.0);
    }
}
