//! A long short-term memory cell (Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000) with a linear
//! layer, its forward pass and its gradient.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use unspoken_store::{AdamW, Random};

/// Initial bias of the forget gate: the cell begins by remembering.
const FORGET_BIAS: f32 = 1.0;
/// Of Adam.
const EPSILON: f32 = 1e-8;

/// Parameters, or the gradient with respect to them.
///
/// The gates `i, f, g, o` of a step are parts of `W x + U h + b`; `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h' =
/// sigmoid(o) tanh(c')`. The logit of the second label is `v h + a` of the last state.
#[derive(Clone)]
pub(super) struct Lstm {
    /// `W`, 4 hidden x width
    input: Array2<f32>,
    /// `U`, 4 hidden x hidden
    recurrent: Array2<f32>,
    /// `b`, 4 hidden
    biases: Array1<f32>,
    /// `v`, hidden
    head: Array1<f32>,
    /// `a`, one number
    constant: Array1<f32>,
}

/// Values of one step, for the examples that have begun.
struct Step {
    /// examples x width
    inputs: Array2<f32>,
    /// `h` and `c` before the step, examples x hidden
    before: (Array2<f32>, Array2<f32>),
    /// The gates after their functions, examples x 4 hidden
    gates: Array2<f32>,
    /// `tanh(c')`, examples x hidden
    squashed: Array2<f32>,
    /// Number of examples that had begun before.
    continued: usize,
}

impl Lstm {
    /// Random parameters.
    pub(super) fn new(width: usize, hidden: usize, random: &mut Random) -> Self {
        let half_width = 1.0 / (hidden as f32).sqrt();
        let mut matrix = |columns| Array2::from_shape_simple_fn((4 * hidden, columns), || random.symmetric(half_width));
        let (input, recurrent) = (matrix(width), matrix(hidden));
        let mut biases = Array1::zeros(4 * hidden);
        biases.slice_mut(s![hidden..2 * hidden]).fill(FORGET_BIAS);
        let head = Array1::from_shape_simple_fn(hidden, || random.symmetric(half_width));
        Self { input, recurrent, biases, head, constant: Array1::zeros(1) }
    }

    /// Zeros of the same shape.
    pub(super) fn zero(&self) -> Self {
        Self {
            input: Array2::zeros(self.input.dim()),
            recurrent: Array2::zeros(self.recurrent.dim()),
            biases: Array1::zeros(self.biases.dim()),
            head: Array1::zeros(self.head.dim()),
            constant: Array1::zeros(1),
        }
    }

    fn hidden(&self) -> usize {
        self.head.len()
    }

    /// The logit of each example.
    pub(super) fn logits(&self, embeddings: ArrayView2<f32>, examples: &[Example]) -> Vec<f32> {
        let order = by_length(examples);
        let texts: Vec<&[u32]> = order.iter().map(|&index| examples[index].0).collect();
        let (state, _) = self.forward(embeddings, &texts);
        let mut logits = vec![0.0; examples.len()];
        for (row, &index) in state.rows().into_iter().zip(&order) {
            logits[index] = row.dot(&self.head) + self.constant[0];
        }
        logits
    }

    /// The gradient of the cross-entropy of examples of a batch, divided by the size of the batch.
    pub(super) fn gradient(&self, embeddings: ArrayView2<f32>, examples: &[Example], batch: usize) -> Self {
        let order = by_length(examples);
        let texts: Vec<&[u32]> = order.iter().map(|&index| examples[index].0).collect();
        let (state, steps) = self.forward(embeddings, &texts);
        let mut gradient = self.zero();
        let mut by_logit = state.dot(&self.head) + self.constant[0];
        for (g, &index) in by_logit.iter_mut().zip(&order) {
            *g = (sigmoid(*g) - f32::from(u8::from(examples[index].1))) / batch as f32;
        }
        gradient.head = state.t().dot(&by_logit);
        gradient.constant[0] = by_logit.sum();
        let by_state = by_logit.insert_axis(Axis(1)).dot(&self.head.view().insert_axis(Axis(0)));
        self.backward(&steps, by_state, &mut gradient);
        gradient
    }

    /// The last state of each text, and the steps. Longer texts come first. They end together, so that the texts that
    /// have begun at a step are the first ones.
    fn forward(&self, embeddings: ArrayView2<f32>, texts: &[&[u32]]) -> (Array2<f32>, Vec<Step>) {
        let hidden = self.hidden();
        let (mut h, mut c) = (Array2::zeros((texts.len(), hidden)), Array2::zeros((texts.len(), hidden)));
        let longest = texts.first().map_or(0, |text| text.len());
        let mut steps: Vec<Step> = Vec::with_capacity(longest);
        for left in (1..=longest).rev() {
            let begun = texts.partition_point(|text| text.len() >= left);
            let ids: Vec<usize> = texts[..begun].iter().map(|text| text[text.len() - left] as usize).collect();
            let continued = steps.last().map_or(0, |step| step.inputs.nrows());
            let before = (h.slice(s![..begun, ..]).to_owned(), c.slice(s![..begun, ..]).to_owned());
            let inputs = embeddings.select(Axis(0), &ids);
            let mut gates = Array2::zeros((begun, 4 * hidden));
            gates.rows_mut().into_iter().for_each(|mut row| row.assign(&self.biases));
            general_mat_mul(1.0, &inputs, &self.input.t(), 1.0, &mut gates);
            general_mat_mul(1.0, &before.0, &self.recurrent.t(), 1.0, &mut gates);
            let mut squashed = Array2::zeros((begun, hidden));
            for (row, mut gates) in gates.rows_mut().into_iter().enumerate() {
                for k in 0..hidden {
                    let input = sigmoid(gates[k]);
                    let forget = sigmoid(gates[hidden + k]);
                    let value = gates[2 * hidden + k].tanh();
                    let output = sigmoid(gates[3 * hidden + k]);
                    (gates[k], gates[hidden + k]) = (input, forget);
                    (gates[2 * hidden + k], gates[3 * hidden + k]) = (value, output);
                    let cell: f32 = forget * c[[row, k]] + input * value;
                    c[[row, k]] = cell;
                    squashed[[row, k]] = cell.tanh();
                    h[[row, k]] = output * squashed[[row, k]];
                }
            }
            steps.push(Step { inputs, before, gates, squashed, continued });
        }
        (h, steps)
    }

    /// Adds the gradient of the cell, from that with respect to the last states.
    fn backward(&self, steps: &[Step], by_state: Array2<f32>, gradient: &mut Self) {
        let hidden = self.hidden();
        let mut by_h = by_state;
        let mut by_c: Array2<f32> = Array2::zeros(by_h.dim());
        for step in steps.iter().rev() {
            let begun = step.inputs.nrows();
            let mut by_gates = Array2::zeros((begun, 4 * hidden));
            for row in 0..begun {
                let gates = step.gates.row(row);
                for k in 0..hidden {
                    let (input, forget) = (gates[k], gates[hidden + k]);
                    let (value, output) = (gates[2 * hidden + k], gates[3 * hidden + k]);
                    let squashed = step.squashed[[row, k]];
                    let by_cell: f32 = by_c[[row, k]] + by_h[[row, k]] * output * (1.0 - squashed * squashed);
                    by_gates[[row, k]] = by_cell * value * input * (1.0 - input);
                    by_gates[[row, hidden + k]] = by_cell * step.before.1[[row, k]] * forget * (1.0 - forget);
                    by_gates[[row, 2 * hidden + k]] = by_cell * input * (1.0 - value * value);
                    by_gates[[row, 3 * hidden + k]] = by_h[[row, k]] * squashed * output * (1.0 - output);
                    by_c[[row, k]] = by_cell * forget;
                }
            }
            general_mat_mul(1.0, &by_gates.t(), &step.inputs, 1.0, &mut gradient.input);
            general_mat_mul(1.0, &by_gates.t(), &step.before.0, 1.0, &mut gradient.recurrent);
            gradient.biases += &by_gates.sum_axis(Axis(0));
            let continued = by_gates.slice(s![..step.continued, ..]);
            let mut by_before = by_h.slice_mut(s![..step.continued, ..]);
            general_mat_mul(1.0, &continued, &self.recurrent, 0.0, &mut by_before);
        }
    }

    /// Adds another gradient.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, addend) in self.tensors_mut().into_iter().zip(other.tensors()) {
            sum.iter_mut().zip(addend).for_each(|(sum, addend)| *sum += addend);
        }
    }

    fn tensors(&self) -> [&[f32]; 5] {
        let Self { input, recurrent, biases, head, constant } = self;
        [input.as_slice(), recurrent.as_slice(), biases.as_slice(), head.as_slice(), constant.as_slice()]
            .map(Option::unwrap_or_default)
    }

    fn tensors_mut(&mut self) -> [&mut [f32]; 5] {
        let Self { input, recurrent, biases, head, constant } = self;
        let matrices = [input.as_slice_mut(), recurrent.as_slice_mut()];
        let vectors = [biases.as_slice_mut(), head.as_slice_mut(), constant.as_slice_mut()];
        let ([a, b], [c, d, e]) = (matrices, vectors);
        [a, b, c, d, e].map(Option::unwrap_or_default)
    }
}

/// The state of Adam for a classifier.
pub(super) struct Optimiser([AdamW; 5]);

impl Optimiser {
    pub(super) fn new(model: &Lstm) -> Self {
        Self(model.tensors().map(|tensor| AdamW::new(tensor.len(), EPSILON)))
    }

    /// One step of Adam, without decay of weights.
    pub(super) fn step(&mut self, model: &mut Lstm, gradient: &Lstm, rate: f32) {
        let tensors = model.tensors_mut().into_iter().zip(gradient.tensors());
        for (adam, (weights, gradient)) in self.0.iter_mut().zip(tensors) {
            adam.step(weights, gradient, rate, 0.0);
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Indices of the examples, longer texts first.
fn by_length(examples: &[Example]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..examples.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(examples[index].0.len()));
    order
}

/// The known tokens of a text and whether its label is the second one.
pub(super) type Example<'a> = (&'a [u32], bool);

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of several lengths, one of them without known tokens.
    const EXAMPLES: [Example<'static>; 4] = [(&[1, 2], true), (&[], false), (&[3, 0, 4, 1, 1], false), (&[2, 4], true)];

    fn model() -> (Lstm, Array2<f32>) {
        let mut random = Random::new(1, 7);
        let model = Lstm::new(3, 4, &mut random);
        (model, Array2::from_shape_simple_fn((5, 3), || random.symmetric(2.0)))
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let (mut model, embeddings) = model();
        let loss = |model: &Lstm| -> f64 {
            let logits = model.logits(embeddings.view(), &EXAMPLES);
            let losses = logits.iter().zip(EXAMPLES).map(|(&logit, (_, label))| {
                let wrong = f64::from(if label { -logit } else { logit });
                wrong.exp().ln_1p()
            });
            losses.sum::<f64>() / 8.0
        };
        let gradient = model.gradient(embeddings.view(), &EXAMPLES, 8);
        for tensor in 0..5 {
            for index in 0..gradient.tensors()[tensor].len() {
                let mut moved = |by: f32| {
                    model.tensors_mut()[tensor][index] += by;
                    let loss = loss(&model);
                    model.tensors_mut()[tensor][index] -= by;
                    loss
                };
                let difference = (moved(0.01) - moved(-0.01)) / 0.02;
                let found = f64::from(gradient.tensors()[tensor][index]);
                assert!((found - difference).abs() < 2e-5 + 1e-2 * difference.abs(), "{tensor}: {found} {difference}");
            }
        }
    }

    #[test]
    fn a_text_has_the_same_logit_in_every_batch() {
        let (model, embeddings) = model();
        let together = model.logits(embeddings.view(), &EXAMPLES);
        for (example, together) in EXAMPLES.iter().zip(together) {
            let alone = model.logits(embeddings.view(), std::slice::from_ref(example))[0];
            assert!((alone - together).abs() < 1e-6);
        }
    }
}
