//! Token codes in training: relaxed to probabilities first, hard afterwards.

use rayon::prelude::*;
use unspoken_store::Random;

use super::kernel::{add_scaled, dot, softmax};
use super::parameters::Folded;
use crate::encoder::argmax;
use crate::shape::Shape;
use crate::stream::Stream;

/// Half-width of the uniform initial values of the logits, which only break ties.
const START: f32 = 0.01;
/// Decay of the averages of gradients and of their squares.
const BETA1: f32 = 0.9;
const BETA2: f32 = 0.99;
/// Added to denominators, so that a row with zero gradient does not change.
const EPSILON: f32 = 1e-20;
/// Momentum below this becomes 0 instead of a subnormal number, which is slow.
const FLUSH: f32 = 1e-30;
/// Number of tokens whose gradients are summed before they are added to the others. It is a constant, so that the order
/// of additions does not depend on the number of threads.
const GROUP: usize = 64;

/// Assignment of columns to tokens, with its forward and backward pass.
///
/// Gradients and scores are tokens x classes, in the order of `tokens`, which are
/// distinct vocabulary rows.
pub(super) trait Assignment {
    /// The contribution of each token to each class, `sum_t S_t q_t`, where `q_t`
    /// is the token's distribution over the columns of subtable `t`.
    fn forward(&mut self, tokens: &[u32], folded: &Folded) -> Vec<f32>;

    /// Given the gradient with respect to those contributions, updates the assignment (unless it is fixed) and returns
    /// the gradient with respect to the folded tables. `shares` are the shares of the tokens in the words of the batch.
    fn backward(&mut self, tokens: &[u32], shares: &[f32], folded: &Folded, gradient: &[f32]) -> Folded;
}

/// Weights of the terms of the loss that pull each distribution `q` of a token towards one column (code sharpening,
/// Appendix D.2): `entropy` times its entropy in nats, and `confidence` times `1 - max q`. Both are means over the
/// words of a batch and over the subtables.
#[derive(Clone, Copy)]
pub(super) struct Sharpening {
    pub(super) entropy: f32,
    pub(super) confidence: f32,
}

impl Sharpening {
    /// Adds the gradient of the terms with respect to `q = softmax(logits / temperature)`, times `share`. The gradient
    /// of the entropy is `-ln q - 1`, which is `-logits / temperature` but for a constant, and a constant has no effect
    /// on the logits.
    fn add_gradient(self, share: f32, (logits, q): (&[f32], &[f32]), temperature: f32, out: &mut [f32]) {
        if self.entropy > 0.0 {
            add_scaled(out, -share * self.entropy / temperature, logits);
        }
        if self.confidence > 0.0 {
            out[argmax(q)] -= share * self.confidence;
        }
    }
}

/// One token's logits (subtables x columns) and the state of their optimiser.
#[derive(Clone, Default)]
struct Token {
    logits: Vec<f32>,
    momentum: Vec<f32>,
    /// one for each subtable
    variance: Vec<f32>,
    /// BETA1^step, BETA2^step, over the batches that hold the token
    decay: (f32, f32),
}

/// Codes relaxed to `q_t = softmax(logits_t / temperature)` (Appendix D.2).
pub(super) struct RelaxedCodes {
    shape: Shape,
    tokens: Vec<Token>,
    /// distributions of the tokens of the current batch
    batch: Vec<Vec<f32>>,
    pub(super) temperature: f32,
    rate: f32,
    sharpening: Sharpening,
}

impl RelaxedCodes {
    pub(super) fn new(shape: Shape, vocabulary: usize, rate: f32, sharpening: Sharpening, seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Logits as u64);
        let size = shape.subtables * shape.columns;
        let tokens = (0..vocabulary)
            .map(|_| Token {
                logits: (0..size).map(|_| random.symmetric(START)).collect(),
                momentum: vec![0.0; size],
                variance: vec![0.0; shape.subtables],
                decay: (1.0, 1.0),
            })
            .collect();
        Self { shape, tokens, batch: Vec::new(), temperature: 1.0, rate, sharpening }
    }

    /// The most probable column of each token and subtable.
    pub(super) fn harden(&self) -> HardCodes {
        let columns = self.shape.columns;
        let codes = self
            .tokens
            .par_iter()
            .flat_map_iter(|token| token.logits.chunks_exact(columns))
            .map(|row| argmax(row) as u16)
            .collect();
        HardCodes { shape: self.shape, codes }
    }
}

impl Assignment for RelaxedCodes {
    fn forward(&mut self, tokens: &[u32], folded: &Folded) -> Vec<f32> {
        let (columns, classes) = (self.shape.columns, self.shape.classes);
        let (all, temperature) = (&self.tokens, self.temperature);
        let distribution = |&token: &u32| {
            let mut q = all[token as usize].logits.clone();
            q.chunks_exact_mut(columns).for_each(|row| softmax(row, temperature));
            q
        };
        self.batch = tokens.par_iter().map(distribution).collect();
        let contribution = |q: &Vec<f32>, c: usize| -> f32 {
            let rows = q.chunks_exact(columns).enumerate();
            rows.map(|(t, row)| dot(row, folded.row(t, c))).sum()
        };
        self.batch.par_iter().flat_map_iter(|q| (0..classes).map(move |c| contribution(q, c))).collect()
    }

    fn backward(&mut self, tokens: &[u32], shares: &[f32], folded: &Folded, gradient: &[f32]) -> Folded {
        let shape = self.shape;
        let step = Step { temperature: self.temperature, rate: self.rate, sharpening: self.sharpening };
        // Move the batch's tokens out of the vocabulary during the update, so that threads can update them
        // independently.
        let mut moved: Vec<Token> =
            tokens.iter().map(|&token| std::mem::take(&mut self.tokens[token as usize])).collect();
        let groups: Vec<Folded> = moved
            .par_chunks_mut(GROUP)
            .zip(self.batch.par_chunks(GROUP))
            .zip(shares.par_chunks(GROUP))
            .zip(gradient.par_chunks(GROUP * shape.classes))
            .map(|(((group, distributions), shares), gradients)| {
                let mut sum = Folded::zero(shape);
                let gradients = gradients.chunks_exact(shape.classes);
                for (((token, q), &share), gradient) in group.iter_mut().zip(distributions).zip(shares).zip(gradients) {
                    for (t, row) in q.chunks_exact(shape.columns).enumerate() {
                        for (c, &g) in gradient.iter().enumerate() {
                            add_scaled(sum.row_mut(t, c), g, row);
                        }
                    }
                    token.step(q, share, folded, gradient, step);
                }
                sum
            })
            .collect();
        for (&token, state) in tokens.iter().zip(moved) {
            self.tokens[token as usize] = state;
        }
        let mut total = Folded::zero(shape);
        for group in &groups {
            add_scaled(&mut total.values, 1.0, &group.values);
        }
        total
    }
}

/// Numbers of one step of the logits of all tokens.
#[derive(Clone, Copy)]
struct Step {
    temperature: f32,
    rate: f32,
    sharpening: Sharpening,
}

impl Token {
    /// One Adam step of this token's logits. The second moment is one number for
    /// each row of logits (their mean square), so that within a row the direction
    /// of the gradient is kept and the best column wins, also for rare tokens.
    /// Tokens that are not in a batch are not touched.
    fn step(&mut self, q: &[f32], share: f32, folded: &Folded, gradient: &[f32], step: Step) {
        let Step { temperature, rate, sharpening } = step;
        let columns = folded.columns;
        let share = share / self.variance.len() as f32;
        self.decay = (self.decay.0 * BETA1, self.decay.1 * BETA2);
        let scales = (1.0 / (1.0 - self.decay.0), 1.0 / (1.0 - self.decay.1));
        let mut by_logit = vec![0.0f32; columns];
        let rows =
            self.logits.chunks_exact_mut(columns).zip(self.momentum.chunks_exact_mut(columns)).zip(&mut self.variance);
        for (t, ((logits, momentum), variance)) in rows.enumerate() {
            let q = &q[t * columns..][..columns];
            column_gradient(folded, t, gradient, &mut by_logit);
            sharpening.add_gradient(share, (logits, q), temperature, &mut by_logit);
            through_softmax(q, &mut by_logit);
            by_logit.iter_mut().for_each(|g| *g /= temperature);
            let square = dot(&by_logit, &by_logit) / columns as f32;
            *variance += (1.0 - BETA2) * (square - *variance);
            let scale = rate * scales.0 / ((*variance * scales.1).sqrt() + EPSILON);
            for ((logit, momentum), &g) in logits.iter_mut().zip(momentum).zip(&by_logit) {
                let moved = *momentum + (1.0 - BETA1) * (g - *momentum);
                *momentum = if moved.abs() < FLUSH { 0.0 } else { moved };
                *logit -= scale * *momentum;
            }
        }
    }
}

/// The gradient with respect to one row of a distribution over columns, from that with respect to the token's
/// contribution: `sum_c g_c S_t[c]`.
fn column_gradient(folded: &Folded, t: usize, gradient: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (c, &g) in gradient.iter().enumerate() {
        add_scaled(out, g, folded.row(t, c));
    }
}

/// Replaces the gradient `h` with respect to a softmax `q` at temperature 1 by that with respect to its logits:
/// `q (h - q.h)`.
fn through_softmax(q: &[f32], out: &mut [f32]) {
    let mean = dot(q, out);
    for (out, &q) in out.iter_mut().zip(q) {
        *out = q * (*out - mean);
    }
}

/// Hard codes: each token is one column of each subtable. They are fixed.
pub(super) struct HardCodes {
    shape: Shape,
    /// vocabulary x subtables
    pub(super) codes: Vec<u16>,
}

impl HardCodes {
    pub(super) fn code(&self, token: u32) -> &[u16] {
        &self.codes[token as usize * self.shape.subtables..][..self.shape.subtables]
    }
}

impl Assignment for HardCodes {
    fn forward(&mut self, tokens: &[u32], folded: &Folded) -> Vec<f32> {
        let mut contributions = vec![0.0; tokens.len() * self.shape.classes];
        let outputs = contributions.chunks_exact_mut(self.shape.classes);
        for (&token, output) in tokens.iter().zip(outputs) {
            for (t, &code) in self.code(token).iter().enumerate() {
                for (c, sum) in output.iter_mut().enumerate() {
                    *sum += folded.row(t, c)[usize::from(code)];
                }
            }
        }
        contributions
    }

    fn backward(&mut self, tokens: &[u32], _: &[f32], _: &Folded, gradient: &[f32]) -> Folded {
        let mut total = Folded::zero(self.shape);
        let inputs = gradient.chunks_exact(self.shape.classes);
        for (&token, input) in tokens.iter().zip(inputs) {
            for (t, &code) in self.code(token).iter().enumerate() {
                for (c, &g) in input.iter().enumerate() {
                    total.row_mut(t, c)[usize::from(code)] += g;
                }
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::parameters::Parameters;

    const SHAPE: Shape = Shape { subtables: 2, columns: 10, classes: 3, max_tokens: 8 };

    fn folded() -> Folded {
        let mut folded = Parameters::new(SHAPE, 5, 1).fold();
        folded.values.iter_mut().for_each(|value| *value *= 100.0);
        folded
    }

    /// For the loss `sum_c g_c (S_1 softmax(logits))_c`.
    #[test]
    fn logit_gradients_are_those_of_the_loss() {
        let (folded, gradient) = (folded(), [0.5, -1.0, 0.25]);
        let logits: Vec<f32> = (0..10u8).map(|j| f32::from(j * j % 7) * 0.3).collect();
        let loss = |logits: &[f32]| -> f32 {
            let mut q = logits.to_vec();
            softmax(&mut q, 1.0);
            let classes = gradient.iter().enumerate();
            classes.map(|(c, g)| g * dot(&q, folded.row(1, c))).sum()
        };
        let mut q = logits.clone();
        softmax(&mut q, 1.0);
        let mut found = vec![0.0; 10];
        column_gradient(&folded, 1, &gradient, &mut found);
        through_softmax(&q, &mut found);
        for (j, found) in found.into_iter().enumerate() {
            let moved = |by: f32| {
                let mut logits = logits.clone();
                logits[j] += by;
                loss(&logits)
            };
            let difference = (moved(0.01) - moved(-0.01)) / 0.02;
            assert!((found - difference).abs() < 1e-3, "{found} {difference}");
        }
    }

    const BLUNT: Sharpening = Sharpening { entropy: 0.0, confidence: 0.0 };

    #[test]
    fn gradients_of_sharpening_are_those_of_its_terms() {
        let logits: Vec<f32> = (0..10u8).map(|j| f32::from(j * 7 % 10) * 0.1).collect();
        let (share, temperature) = (0.25, 0.5);
        let q_of = |logits: &[f32]| {
            let mut q = logits.to_vec();
            softmax(&mut q, temperature);
            q
        };
        for sharpening in [Sharpening { entropy: 2.0, ..BLUNT }, Sharpening { confidence: 3.0, ..BLUNT }] {
            let loss = |logits: &[f32]| -> f32 {
                let q = q_of(logits);
                let entropy: f32 = q.iter().map(|q| -q * q.ln()).sum();
                share * (sharpening.entropy * entropy + sharpening.confidence * (1.0 - q[argmax(&q)]))
            };
            let mut found = vec![0.0; 10];
            sharpening.add_gradient(share, (&logits, &q_of(&logits)), temperature, &mut found);
            through_softmax(&q_of(&logits), &mut found);
            for (j, found) in found.iter().map(|g| g / temperature).enumerate() {
                let moved = |by: f32| {
                    let mut logits = logits.clone();
                    logits[j] += by;
                    loss(&logits)
                };
                let difference = (moved(0.01) - moved(-0.01)) / 0.02;
                assert!((found - difference).abs() < 1e-3, "{found} {difference}");
            }
        }
    }

    #[test]
    fn sharpened_codes_approach_one_column() {
        let largest = |sharpening| {
            let (folded, gradient) = (folded(), [0.0; 3]);
            let mut codes = RelaxedCodes::new(SHAPE, 1, 0.1, sharpening, 3);
            for _ in 0..200 {
                codes.forward(&[0], &folded);
                codes.backward(&[0], &[1.0], &folded, &gradient);
            }
            codes.forward(&[0], &folded);
            codes.batch[0].iter().copied().fold(0.0, f32::max)
        };
        assert!(largest(BLUNT) < 0.11);
        assert!(largest(Sharpening { entropy: 0.1, ..BLUNT }) > 0.9);
        assert!(largest(Sharpening { confidence: 0.1, ..BLUNT }) > 0.9);
    }

    #[test]
    fn cold_relaxed_codes_agree_with_hard_ones() {
        let folded = folded();
        let mut relaxed = RelaxedCodes::new(SHAPE, 5, 0.1, BLUNT, 3);
        relaxed.temperature = 1e-6;
        let tokens = [0, 2, 4];
        let soft = relaxed.forward(&tokens, &folded);
        let hard = relaxed.harden().forward(&tokens, &folded);
        for (soft, hard) in soft.iter().zip(&hard) {
            assert!((soft - hard).abs() < 1e-3, "{soft} {hard}");
        }
    }

    #[test]
    fn a_step_lowers_the_loss_and_leaves_other_tokens_alone() {
        let folded = folded();
        let mut codes = RelaxedCodes::new(SHAPE, 3, 0.1, BLUNT, 3);
        let before = codes.forward(&[0, 2], &folded);
        let untouched = codes.forward(&[1], &folded);
        codes.forward(&[0, 2], &folded);
        let gradient = [1.0, 0.0, 0.0, 0.0, -1.0, 0.0];
        codes.backward(&[0, 2], &[0.5, 0.5], &folded, &gradient);
        let after = codes.forward(&[0, 2], &folded);
        assert!(after[0] < before[0] && after[4] > before[4]);
        assert_eq!(codes.forward(&[1], &folded), untouched);
    }
}
